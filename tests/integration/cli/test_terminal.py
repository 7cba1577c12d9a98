"""What is shown on a terminal: numbers and ids whole, however narrow it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dlog.local.embedded import Standalone
from tests.helpers.processes.command import Command
from tests.helpers.processes.terminal import on_terminal

pytestmark = pytest.mark.integration

WIDTHS = pytest.mark.parametrize("width", [60, 80, 200])


@pytest.fixture(scope="module")
def log(cluster: Standalone) -> str:
    dlog = Command(cluster.uri)
    for _ in range(2):
        dlog(
            "append", "wide", "--create", stdin=b"".join(b"%0999d\n" % n for n in range(1200))
        ).must_succeed()
    return "wide"


@WIDTHS
def test_ledgers(cluster: Standalone, log: str, width: int) -> None:
    rows = json.loads(Command(cluster.uri)("ledgers", log, "-o", "json").must_succeed())
    shown = on_terminal(width, "dlog.cli.main", "ledgers", log, uri=cluster.uri)
    words = shown.split()
    for row in rows:
        for name in ("ledger", "epoch"):
            assert str(row[name]) in words
        for name in ("entries", "messages", "bytes"):
            assert ("-" if row[name] is None else f"{row[name]:,}") in words
        assert row["created"][:19] + "Z" in words
    assert "…" not in shown
    if width >= 80:
        assert len(shown.splitlines()) == 1 + len(rows)
        assert max(map(len, shown.splitlines())) <= width


@WIDTHS
def test_info(cluster: Standalone, log: str, width: int) -> None:
    found = json.loads(Command(cluster.uri)("info", log, "-o", "json").must_succeed())
    words = on_terminal(width, "dlog.cli.main", "info", log, uri=cluster.uri).split()
    for value in (
        found["uuid"],
        found["next"],
        f"{found['sealed_bytes']:,}",
        f"{found['sealed_messages']:,}",
    ):
        assert value in words


@WIDTHS
def test_bookies(cluster: Standalone, width: int) -> None:
    words = on_terminal(width, "bookie_server", "ls", uri=cluster.uri).split()
    for each in cluster.bookies:
        assert each.bookie_id in words
    facts = json.loads(
        subprocess.run(
            [sys.executable, "-m", "bookie_server", "info", cluster.bookies[0].bookie_id, "-o", "json"],
            capture_output=True,
            check=True,
        ).stdout
    )
    shown = on_terminal(width, "bookie_server", "info", cluster.bookies[0].bookie_id, uri="").split()
    assert f"{facts['total_bytes']:,}" in shown


def test_the_result_of_append_goes_to_stdout(cluster: Standalone, tmp_path: Path) -> None:
    """Also while a progress bar is on the terminal of stderr."""
    messages, result = tmp_path / "messages", tmp_path / "result"
    messages.write_bytes(b"one\ntwo\n")
    arguments = ("append", "redirected", str(messages), "--create")
    with result.open("wb") as stdout:
        shown = on_terminal(80, "dlog.cli.main", *arguments, uri=cluster.uri, stdout=stdout)
    assert result.read_text().startswith("2 messages appended, ")
    assert "8/8 bytes" in shown and "appended" not in shown


def test_the_result_of_append_stays_on_a_narrow_terminal(cluster: Standalone, tmp_path: Path) -> None:
    messages = tmp_path / "messages"
    messages.write_bytes(b"one\ntwo\n")
    shown = on_terminal(20, "dlog.cli.main", "append", "narrow", str(messages), "--create", uri=cluster.uri)
    line = shown.splitlines()[-1]  # after the bar was removed
    assert re.search(r"2 messages appended, \d+:0:0 to \d+:0:1$", line), shown


def test_an_export_to_the_terminal_has_no_bar_between_its_messages(cluster: Standalone) -> None:
    dlog = Command(cluster.uri)
    dlog("append", "shown", "--create", stdin=b"one\ntwo\n").must_succeed()
    shown = on_terminal(80, "dlog.cli.main", "export", "shown", "--to", "jsonl", "-", uri=cluster.uri)
    assert [json.loads(line)["payload"] for line in shown.splitlines()] == ["one", "two"]


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("module", ["dlog.cli.main", "bookie_server"])
def test_help_fits(module: str, width: int) -> None:
    assert max(map(len, on_terminal(width, module, "--help", uri="").splitlines())) <= width
