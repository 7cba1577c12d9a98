"""Programs that cancel what they have begun: nothing is lost, nothing is left over, and the check sees if it were."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.processes.cancellers import Appended
from dlog.testing.swarm.run import Report, run_plan
from ledger.client import LedgerClient
from ledger.errors import MetadataUnavailableError
from ledger.metadata.transactions.repair_store import KeyValueRepair
from ledger.model import BookieId, LedgerId

ONE: dict[str, Any] = {"cancellers": 1, "chaos_s": 16.0, "writers": 1, "readers": 1, "other_log": False}


def played(seed: int, profile: str) -> Report:
    return run_plan(make_plan(seed, profile, ONE))


@pytest.mark.parametrize(("profile", "seed"), [("calm", 1), ("chaos", 2)])
def test_calls_are_cancelled_and_nothing_is_lost_or_left_over(profile: str, seed: int) -> None:
    report = played(seed, profile)
    assert report.findings == []
    assert report.faults["cancel"] > 3


def test_a_task_that_outlives_a_cancelled_call_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LogClient.describe
    left = []

    async def describe(self: LogClient, log: str) -> Any:
        left.append(asyncio.ensure_future(asyncio.sleep(3600)))
        return await honest(self, log)

    monkeypatch.setattr(LogClient, "describe", describe)
    assert any("c17_no_leaks" in found for found in played(1, "calm").findings)


def test_a_writer_that_outlives_a_cancelled_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LogClient._open_writer

    async def open_writer(self: LogClient, *arguments: Any) -> Any:
        return await asyncio.shield(honest(self, *arguments))

    monkeypatch.setattr(LogClient, "_open_writer", open_writer)
    assert any("c17_no_leaks" in found for seed in (1, 2, 3) for found in played(seed, "calm").findings)


def test_a_mark_that_waits_for_the_store_is_the_clients_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it is under way: here it hangs."""
    honest, marked = LogClient.describe, []

    async def describe(self: LogClient, log: str) -> Any:
        self.ledgers.missed_copies.report(LedgerId(1), BookieId("127.0.0.1:1"))
        return await honest(self, log)

    async def mark(*_: object) -> None:
        marked.append(True)
        await asyncio.sleep(3600)

    monkeypatch.setattr(LogClient, "describe", describe)
    monkeypatch.setattr(KeyValueRepair, "mark", mark)
    assert (played(1, "calm").findings, bool(marked)) == ([], True)


def test_a_list_of_bookies_that_waits_for_the_store_is_the_clients_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bookies have changed, and the store is away from then on for this one question."""
    describe, read = LogClient.describe, LedgerClient._read_bookies
    changed_at, failed = set[LedgerClient](), list[bool]()

    async def changed(self: LogClient, log: str) -> Any:
        changed_at.add(self.ledgers)
        self.ledgers._bookies_may_have_changed()
        return await describe(self, log)

    async def away(self: LedgerClient) -> None:
        if self in changed_at:
            failed.append(True)
            raise MetadataUnavailableError("away")
        await read(self)

    monkeypatch.setattr(LogClient, "describe", changed)
    monkeypatch.setattr(LedgerClient, "_read_bookies", away)
    assert (played(1, "calm").findings, len(failed) > 1) == ([], True)


def appended() -> Appended:
    log = Appended()
    log.acked, log.absent = [b"1", b"2"], {b"3"}
    return log


@pytest.mark.parametrize("found", [[b"1", b"2"], [b"1", b"9", b"2"]])
def test_a_read_with_every_acknowledged_message_in_order_is_sound(found: list[bytes]) -> None:
    assert appended().faults_of(found, 2) == []


@pytest.mark.parametrize(
    "found", [[b"1"], [b"2", b"1"], [b"1", b"2", b"2"], [b"1", b"2", b"9", b"9"], [b"1", b"2", b"3"]]
)
def test_a_read_that_lacks_repeats_or_reorders_a_message_is_not(found: list[bytes]) -> None:
    assert appended().faults_of(found, 2)
