"""Marks of what members missed, with a store that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger.environment import SystemEnvironment
from ledger.errors import (
    LogStoreError,
    MetadataFormatError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
)
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, LedgerId
from ledger.writing import missed_copies
from ledger.writing.missed_copies import MissedCopies

A, B = BookieId("b0"), BookieId("b1")


class Marks:
    def __init__(self, *failures: LogStoreError) -> None:
        self.failures = list(failures)
        self.marked: list[tuple[int, list[BookieId]]] = []

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.marked.append((ledger_id, sorted(missing)))

    def reporter(self) -> MissedCopies:
        store: Any = SimpleNamespace(repair=self)
        return MissedCopies(cast(MetadataStore, store), SystemEnvironment())


async def test_what_is_reported_together_is_one_mark() -> None:
    marks = Marks()
    missed = marks.reporter()
    for ledger_id, bookie_id in ((7, B), (8, A), (7, A), (7, B)):
        missed.report(LedgerId(ledger_id), bookie_id)
    await missed.close()
    assert marks.marked == [(7, [A, B]), (8, [A])]


async def test_marks_wait_for_a_store_that_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed_copies, "_AGAIN_S", 0.0)
    marks = Marks(MetadataUnavailableError("away"), MetadataOutcomeUnknownError("lost"))
    missed = marks.reporter()
    missed.report(LedgerId(7), A)
    await missed.close()
    assert marks.marked == [(7, [A])]


async def test_a_store_that_stays_away_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed_copies, "_QUIET_S", 0.0)
    missed = Marks(MetadataUnavailableError("away")).reporter()
    missed.report(LedgerId(7), A)
    await missed.close()
    assert len(asyncio.all_tasks()) == 1


async def test_a_ledger_that_cannot_be_marked_is_logged_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    marks = Marks(MetadataFormatError("damaged", key="LAYOUT"))
    missed = marks.reporter()
    missed.report(LedgerId(7), A)
    missed.report(LedgerId(8), A)
    await missed.close()
    assert marks.marked == [(8, [A])]
    assert "ledger 7 lacks copies on b0 and cannot be marked for repair: damaged" in caplog.text


class SlowMarks(Marks):
    """20 ms each."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = self.most_at_once = 0

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.02)
        self.at_once -= 1
        await super().mark(ledger_id, missing, now_ms)


def slow(monkeypatch: pytest.MonkeyPatch) -> tuple[SlowMarks, MissedCopies]:
    """40 ledgers to mark, two at a time: 0.4 s."""
    monkeypatch.setattr(missed_copies, "_QUIET_S", 0.2)
    monkeypatch.setattr(missed_copies, "_AT_ONCE", 2)
    marks = SlowMarks()
    missed = marks.reporter()
    for ledger_id in range(40):
        missed.report(LedgerId(ledger_id), A)
    return marks, missed


async def test_the_end_waits_while_marks_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    marks, missed = slow(monkeypatch)
    await missed.close()
    assert [ledger_id for ledger_id, _ in marks.marked] == list(range(40))
    assert marks.most_at_once == 2


async def test_an_end_in_a_hurry_does_not_wait_for_all_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    marks, missed = slow(monkeypatch)
    missed.hurry()
    await missed.close()
    assert 0 < len(marks.marked) < 40


async def test_what_stays_unmarked_at_the_end_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(missed_copies, "_QUIET_S", 0.0)
    missed = Marks(MetadataUnavailableError("away")).reporter()
    missed.report(LedgerId(7), A)
    await missed.close()
    assert "1 ledger lacks entries on some bookies and could not be marked for repair" in caplog.text
