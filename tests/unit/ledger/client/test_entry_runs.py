"""Runs of entries that are kept for other readers: which of what was made of them is kept, and how much."""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import suppress

import pytest

from ledger.model import EntryId
from ledger.reading import entry_runs
from ledger.reading.bookie_reads import Entry
from ledger.reading.entry_runs import Decoded, DecodedBudget, RecentRuns


@pytest.fixture(autouse=True)
def _room_for_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_runs, "_DECODED_BYTES_MAX", 10)


def decoded_of(recent: RecentRuns, first: int) -> Decoded:
    entries = [Entry(EntryId(number), number - 1, 0, memoryview(b"")) for number in range(first, first + 10)]
    decoded = recent.add(entries).decoded
    assert decoded is not None
    return decoded


def test_what_was_made_of_older_runs_is_dropped_first() -> None:
    recent = RecentRuns(DecodedBudget())
    old, new = decoded_of(recent, 0), decoded_of(recent, 10)
    for number in range(8):
        old.keep(number, "made", 1)
    new.keep(10, "made", 2)
    assert (len(old), len(new)) == (8, 1)
    new.keep(11, "made", 1)
    assert (len(old), dict(new)) == (0, {10: "made", 11: "made"})


def test_the_beginning_of_a_run_is_kept_that_is_too_large() -> None:
    recent = RecentRuns(DecodedBudget())
    run = decoded_of(recent, 0)
    for number in range(10):
        run.keep(number, "made", 3)
    assert list(run) == [0, 1, 2]


def test_a_run_that_others_have_displaced_keeps_nothing_more() -> None:
    """A reader that has it still would displace what the others are at."""
    recent = RecentRuns(DecodedBudget())
    old, new = decoded_of(recent, 0), decoded_of(recent, 10)
    old.keep(0, "made", 5)
    new.keep(10, "made", 6)
    old.keep(1, "made", 1)
    assert (dict(old), dict(new)) == ({}, {10: "made"})


def test_what_exceeds_the_limit_alone_displaces_nothing() -> None:
    recent = RecentRuns(DecodedBudget())
    old, new = decoded_of(recent, 0), decoded_of(recent, 10)
    old.keep(0, "made", 5)
    new.keep(10, "made", 11)
    assert (dict(old), dict(new)) == ({0: "made"}, {})


def test_after_the_end_the_limit_still_holds() -> None:
    """Readers that have fetched a run to its end go on to the next ledger, and decode it later."""
    recent = RecentRuns(DecodedBudget())
    runs = [decoded_of(recent, first) for first in (0, 10)]
    runs[0].keep(0, "made", 4)
    recent.close()
    for number, run in enumerate(runs):
        run.keep(10 * number + 1, "made", 4)
    assert [list(run) for run in runs] == [[], [11]]
    assert recent.get(0) is None


def test_the_limit_is_that_of_all_ledgers() -> None:
    """A slow reader still holds the run of the ledger before."""
    budget = DecodedBudget()
    old, new = decoded_of(RecentRuns(budget), 0), decoded_of(RecentRuns(budget), 0)
    old.keep(0, "made", 8)
    new.keep(0, "made", 3)
    assert (dict(old), dict(new)) == ({}, {0: "made"})


def test_a_run_that_no_reader_holds_counts_no_more() -> None:
    recent = RecentRuns(DecodedBudget())
    run, other = decoded_of(recent, 0), decoded_of(recent, 10)
    run.keep(0, "made", 6)
    other.keep(10, "made", 4)
    recent.close()
    del run
    other.keep(11, "made", 6)
    assert list(other) == [10, 11]


def test_readers_that_other_threads_drop_free_what_they_held() -> None:
    budget, held, interval = DecodedBudget(), deque[Decoded](), sys.getswitchinterval()
    done = threading.Event()

    def drop_readers() -> None:
        while not done.is_set() or held:
            with suppress(IndexError):
                held.popleft()

    dropping = threading.Thread(target=drop_readers)
    sys.setswitchinterval(1e-6)
    try:
        dropping.start()
        for entry_id in range(30_000):
            made = Decoded(budget)
            made.keep(entry_id, "made", 1)
            held.append(made)
            del made
    finally:
        done.set()
        dropping.join()
        sys.setswitchinterval(interval)
    last = Decoded(budget)
    last.keep(0, "made", 10)
    last.keep(1, "made", 0)
    assert list(last) == [0, 1]
    assert budget._bytes == 10
