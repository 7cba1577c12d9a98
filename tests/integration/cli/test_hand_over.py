"""`dlog append --wait-for-owner` and `dlog rotate` against a command that is still appending."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

HERE = ("--namespace", "handed")
GUARD_S = 60


@contextmanager
def appending(dlog: Command, log: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that has appended one message and waits for more."""
    with dlog.start("append", log, "--create", *HERE) as process:
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        limit = time.monotonic() + GUARD_S
        while dlog.here("read", log, *HERE, "-o", "raw").out != "first\n":
            assert time.monotonic() < limit
            time.sleep(0.05)
        try:
            yield process
        finally:
            process.kill()


def info(dlog: Command, log: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(dlog.here("info", log, *HERE, "-o", "json").must_succeed())
    return found


def test_a_command_that_waits_gets_the_log_from_one_that_appends(dlog: Command) -> None:
    with appending(dlog, "passed") as old:
        begun = time.monotonic()
        out = dlog("append", "passed", "--wait-for-owner", "30", *HERE, stdin=b"second\n").must_succeed()
        assert out.startswith("1 message appended")
        assert time.monotonic() - begun < 20
        _, err = old.communicate(b"third\n", timeout=GUARD_S)
        assert old.returncode == 1
        said = err.decode()
        assert "1 message acknowledged" in said
        assert "was handed over to" in said.splitlines()[-1]
        assert "may or may not" not in said
    assert dlog.here("read", "passed", *HERE, "-o", "raw").must_succeed() == "first\nsecond\n"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("append",), "was taken over by"),
        (("append", "--wait-for-owner", "30"), "was handed over to"),
        (("seal",), "was sealed by"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_a_command_that_waits_for_input_ends_when_it_loses_the_log(
    dlog: Command, command: tuple[str, ...], reason: str
) -> None:
    """What it would read from then on could not be appended, so its pipe must not take it."""
    log = f"lost-{'-'.join(command).replace('--', '')}"
    with appending(dlog, log) as old:
        dlog(*command, log, *HERE, stdin=b"second\n").must_succeed()
        assert old.wait(timeout=GUARD_S) == 1  # its stdin is open
        assert old.stderr is not None
        lines = old.stderr.read().decode().splitlines()
    assert "1 message acknowledged" in lines[-2]
    assert reason in lines[-1]


def test_rotate_leaves_the_writer_its_log(dlog: Command) -> None:
    with appending(dlog, "turned") as writer:
        said = dlog("rotate", "turned", *HERE).must_succeed()
        assert said.startswith("log turned is at epoch 1, its newest ledger is ")
        assert said.endswith(" (open)\n")
        out, err = writer.communicate(b"second\n", timeout=GUARD_S)
        assert (writer.returncode, err) == (0, b"")
        assert out.startswith(b"2 messages appended")
    rows = json.loads(dlog.here("ledgers", "turned", *HERE, "-o", "json").must_succeed())
    assert [row["messages"] for row in rows] == [1, 1]
    said = dlog("rotate", "turned", *HERE).must_succeed()
    assert said.startswith("log turned is not being written, so nothing was rotated: its newest ledger is ")
    assert said.endswith(" (sealed)\n")


def test_a_writer_that_was_killed_is_fenced_by_rotate_only_with_force(dlog: Command) -> None:
    with appending(dlog, "left") as writer:
        writer.kill()
        writer.wait(GUARD_S)
    dlog("rotate", "left", *HERE).must_fail(1, "has not answered within 2 s", "`dlog rotate --force`")
    assert info(dlog, "left")["epoch"] == 1
    assert dlog("rotate", "left", "--force", *HERE).must_succeed().endswith(" (sealed)\n")
    assert info(dlog, "left")["epoch"] == 2


def test_a_writer_goes_on_through_every_command_but_append_seal_and_delete(dlog: Command) -> None:
    with appending(dlog, "shared") as writer:
        assert writer.stdin is not None
        for written in (
            ("read", "shared"),
            ("tail", "shared"),
            ("ledgers", "shared"),
            ("history", "shared"),
            ("verify", "shared"),
            ("explain", "shared", "0:0:0"),
            ("retention", "shared", "--max-bytes", "1"),
            ("properties", "shared", "a=b"),
            ("cursor", "set", "shared", "c", "latest"),
            ("cursor", "ls", "shared"),
            ("cursor", "rm", "shared", "c"),
            ("shrink", "shared", "0:0:0"),
            ("rotate", "shared"),
            ("gc",),
        ):
            result = dlog.here(*written, *HERE)
            assert result.code == 0 or written[0] == "explain", (written, result.err)
        assert info(dlog, "shared")["epoch"] == 1
        writer.stdin.write(b"second\n")
        writer.stdin.flush()
        limit = time.monotonic() + GUARD_S
        while not dlog.here("tail", "shared", *HERE, "-o", "raw").out.endswith("second\n"):
            assert time.monotonic() < limit
            time.sleep(0.05)
        dlog.here("delete", "shared", "--yes", *HERE).must_succeed()
        out, err = writer.communicate(b"third\n", timeout=GUARD_S)
        assert (writer.returncode, out) == (1, b"")
        said = err.decode().splitlines()
        assert "2 messages acknowledged" in said[-2]
        assert "log handed/shared" in said[-1]
        assert "Traceback" not in err.decode()


@pytest.mark.parametrize("wait", ["-1", "soon"])
def test_a_wrong_wait_is_refused(dlog: Command, wait: str) -> None:
    result = dlog.here("append", "x", "--wait-for-owner", wait, *HERE)
    assert result.code == 2
    assert "--wait-for-owner" in result.err
