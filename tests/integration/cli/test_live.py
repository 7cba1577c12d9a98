"""top and info --watch: what they show, on a terminal and in a pipe, and how they end."""

from __future__ import annotations

import json
import signal
import time

import pytest

from dlog.local.embedded import Standalone
from tests.helpers.processes.command import Command
from tests.helpers.processes.terminal import on_terminal

pytestmark = pytest.mark.integration


def test_top_prints_as_often_as_asked(dlog: Command) -> None:
    dlog("append", "top-one", "--namespace", "top", "--create", stdin=b"a\nb\n").must_succeed()
    dlog("create", "top-empty", "--namespace", "top").must_succeed()
    shown = dlog("top", "-n", "2", "-d", "0.2", "--namespace", "top").must_succeed()
    blocks = [block.splitlines() for block in shown.strip().split("\n\n")]
    assert len(blocks) == 4
    assert blocks[0][0].startswith("cluster ") and blocks[0][0].endswith(": 3 bookies writable")
    assert [line.split()[0] for line in blocks[3]] == ["log", "top/top-empty", "top/top-one"]
    found = json.loads(dlog("top", "-n", "1", "-d", "0.2", "-o", "json", "--namespace", "top").must_succeed())
    by_name = {row["log"]: row for row in found}
    one, empty = by_name["top/top-one"], by_name["top/top-empty"]
    assert (one["entries_per_s"], one["state"], one["epoch"]) == (0.0, "active", 1)
    assert one["copies"] == {"ensemble": 3, "write": 3, "ack": 2, "degraded": False}
    assert (empty["ledgers"], empty["owner"], empty["copies"]) == (0, None, None)


def test_top_follows_a_writer_and_ctrl_c_ends_it(dlog: Command) -> None:
    dlog("append", "live", "--namespace", "live", "--create", stdin=b"a\n").must_succeed()
    with (
        dlog.start("append", "live", "--namespace", "live") as writer,
        dlog.start("top", "-d", "0.3", "--namespace", "live") as top,
    ):
        assert writer.stdin is not None and top.stdout is not None
        rate = 0.0
        give_up_at = time.monotonic() + 30
        while rate < 5 and time.monotonic() < give_up_at:
            for _ in range(20):
                writer.stdin.write(b"x\n")
                writer.stdin.flush()
                time.sleep(0.01)
            lines = [top.stdout.readline().split() for _ in range(5)]
            rates = [line[2] for line in lines if line[:1] == [b"live/live"] and line[2] != b"-"]
            rate = float(rates[0].replace(b",", b"")) if rates else 0.0
        assert rate >= 5
        top.send_signal(signal.SIGINT)
        assert top.wait(timeout=30) == 0
        assert top.stderr is not None and top.stderr.read() == b""
        writer.communicate(timeout=30)


def test_top_prints_each_measurement_as_a_line_of_json_as_soon_as_it_is_there(dlog: Command) -> None:
    dlog("create", "one", "--namespace", "lines").must_succeed()
    with dlog.start("top", "-d", "0.2", "-o", "json", "--namespace", "lines") as top:
        assert top.stdout is not None
        for _ in range(2):
            [row] = json.loads(top.stdout.readline())
            assert row["log"] == "lines/one"
        top.send_signal(signal.SIGINT)
        assert top.wait(timeout=30) == 0
    printed = dlog("top", "-n", "2", "-d", "0.1", "-o", "json", "--namespace", "lines").must_succeed()
    assert [len(json.loads(line)) for line in printed.splitlines()] == [1, 1]


def test_info_watch_shows_each_change(dlog: Command) -> None:
    dlog("append", "watched", "--create", stdin=b"a\n").must_succeed()
    with dlog.start("info", "watched", "--watch", "-o", "json") as watch:
        assert watch.stdout is not None
        first = json.loads(watch.stdout.readline())
        assert (first["epoch"], first["state"]) == (1, "active")
        dlog("append", "watched", stdin=b"b\n").must_succeed()
        seen = first
        while seen["epoch"] == 1 or seen["next"] == first["next"]:
            seen = json.loads(watch.stdout.readline())
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=30) == 0


@pytest.mark.parametrize("command", [["top", "-d", "0.2"], ["info", "one", "--watch"]])
def test_the_screen_is_drawn_and_left_as_it_was(
    cluster: Standalone, dlog: Command, command: list[str]
) -> None:
    """In a namespace of its own: other tests damage logs, and of these the command warns."""
    own = ("--namespace", "screen")
    dlog("append", "one", *own, "--create", stdin=b"a\n").must_succeed()
    shown = on_terminal(120, "dlog.cli.main", *command, *own, uri=cluster.uri, interrupt_at=b"screen/one")
    assert shown.startswith("\x1b[?1049h") and shown.rstrip().endswith("\x1b[?25h\x1b[?1049l")


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_number_of_measurements_stays_on_the_terminal(
    cluster: Standalone, dlog: Command, output: str
) -> None:
    """A screen would be left with the last one, before it is read."""
    own = ("--namespace", "counted")
    dlog("append", "one", *own, "--create", stdin=b"a\n").must_succeed()
    shown = on_terminal(
        120, "dlog.cli.main", "top", "-n", "1", "-d", "0.2", "-o", output, *own, uri=cluster.uri
    )
    assert "counted/one" in shown and "\x1b[?1049h" not in shown


@pytest.mark.parametrize("interval", ["0", "-1"])
def test_an_interval_must_be_positive(dlog: Command, interval: str) -> None:
    dlog.here("top", "-d", interval).must_fail(2, "--interval must be positive")
