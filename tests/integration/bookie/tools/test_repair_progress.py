"""How far the copies of a large ledger have come, while they are made slowly: by hand, and by a bookie's worker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.model import LedgerId
from tests.helpers.processes.bookie import BookieProcess, eventually, run_bookie
from tests.helpers.processes.four_bookies import FourBookies
from tests.helpers.processes.terminal import on_terminal

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ENTRIES = 64
TOTAL_BYTES = sum(len(str(number)) * 32_000 for number in range(ENTRIES))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[FourBookies]:
    made = FourBookies(tmp_path)
    yield made
    made.stop()


def write(place: FourBookies) -> LedgerId:
    """A ledger of many parts: bytes are paced by parts."""
    return place.write(entries=ENTRIES, repeats=32_000)


def counts(pattern: str, shown: str) -> list[int]:
    return [int(found) for found in re.findall(pattern, shown)]


def test_on_a_terminal_the_entries_of_the_ledger_that_is_copied_are_counted(place: FourBookies) -> None:
    ledger = write(place)
    lost = place.kill_member(ledger)
    rate = ("--rate", str(TOTAL_BYTES // 4))
    shown = on_terminal(200, "bookie_server", "recover", lost, "--metadata", place.uri, *rate, uri="")
    of_it = rf"0 of 1 ledgers done, [0-9.]+ MB copied, [0-9.]+ MB/s; ledger {ledger}: copied (\d+) of {ENTRIES} entries"
    copied = counts(of_it, shown)
    assert copied == sorted(copied) and len({*copied} - {0, ENTRIES}) > 2
    assert f"1 of 1: ledger {ledger}: copied {ENTRIES} entries from {lost} to " in shown
    *_, after = shown.rpartition("\x1b[K")
    assert after.startswith("bookie") and "ledgers done" not in after, "the line is removed"


def test_without_a_terminal_there_is_a_line_now_and_then(place: FourBookies) -> None:
    ledger = write(place)
    lost = place.kill_member(ledger)
    rate = ("--rate", str(TOTAL_BYTES // 14))
    done = place.run("decommission", lost, *rate)
    [line, ended] = done.stderr.splitlines()
    of_it = rf"0 of 1 ledgers done, .* MB copied, .* MB/s; ledger {ledger}: copied (\d+) of {ENTRIES} entries, .* MB"
    found = re.fullmatch(of_it, line)
    assert found is not None and 0 < int(found[1]) < ENTRIES, line
    assert ended.startswith("1 of 1: ")


def test_a_bookie_shows_what_its_worker_copies(place: FourBookies) -> None:
    ledger = write(place)
    spare = next(
        each
        for each in place.bookies
        if f"127.0.0.1:{each.port}" not in place.metadata(ledger).last_fragment.ensemble
    )
    assert spare.terminate() == 0
    repair = {"lost_bookie_delay_s": 0, "poll_s": 1, "bytes_per_s": TOTAL_BYTES // 12}
    spare.settings = {"autorecovery": True, "repair": repair}
    spare.start()
    facts = status(spare)
    assert (facts["bookie"], facts["state"], facts["in_limbo"]) == (
        f"127.0.0.1:{spare.port}",
        "writable",
        False,
    )
    assert facts["repair"]["entries_copied"] == 0 and facts["repair"]["ledgers"] == []
    place.kill_member(ledger)
    eventually(lambda: 0 < status(spare)["repair"]["entries_copied"] < ENTRIES)
    [row] = place.json("under-replicated", "--data", str(spare.data))
    assert (row["ledger"], row["entries_to_copy"]) == (ledger, ENTRIES) and row["began_ms"] > 0
    assert 0 < row["entries_copied"] < ENTRIES and row["bytes_copied"] > 0
    assert row["repaired_by"] == facts["repair"]["worker"]
    [columns, _] = place.run("under-replicated", "--data", str(spare.data)).stdout.splitlines()
    assert re.search("repaired by +began +entries copied  entries to copy  bytes copied$", columns)
    text = run_bookie("info", "--data", str(spare.data)).stdout
    assert re.search(r"^entries copied +\d+$", text, re.MULTILINE)
    assert re.search(rf"^ *{ledger}  20\S+Z +\d+ +{ENTRIES} +[\d,]+$", text, re.MULTILINE), text
    eventually(lambda: status(spare)["repair"]["ledgers_repaired"] == 1)
    ended = status(spare)["repair"]
    assert (ended["entries_copied"], ended["bytes_copied"], ended["ledgers"]) == (ENTRIES, TOTAL_BYTES, [])


def status(bookie: BookieProcess) -> dict[str, Any]:
    done = run_bookie("info", "--data", str(bookie.data), "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_bookie_without_a_worker_and_directories_without_a_bookie_say_so(place: FourBookies) -> None:
    first = place.bookies[0]
    assert status(first)["repair"] is None
    assert re.search(r"^worker +-$", run_bookie("info", "--data", str(first.data)).stdout, re.MULTILINE)
    assert place.json("under-replicated", "--data", str(first.data)) == []
    assert first.terminate() == 0
    assert "repair" not in status(first), "what is in the directories is shown"
    refused = place.run("under-replicated", "--data", str(first.data), code=1)
    assert f"no bookie runs on {first.data}/ledgers" in refused.stderr
