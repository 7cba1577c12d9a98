"""What members owe when the writer of their ledger has ended, on connections that never reach a bookie."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from ledger.model import BookieId, EntryId, LedgerId
from ledger.transport.v2_connection import V2Connection
from ledger.wire.status import Status
from ledger.writing import late_copies
from ledger.writing.late_copies import LateCopies, LateMember

BOOKIE = BookieId("b0")
LEDGER = LedgerId(7)


class Late:
    """One ledger whose entries up to 9 are owed."""

    def __init__(self, timeout_s: float = 5.0) -> None:
        self.missed: list[tuple[LedgerId, BookieId]] = []
        self.copies = LateCopies(lambda *missed: self.missed.append(missed), timeout_s)
        self.transport = Mock()
        self.connection = V2Connection(BOOKIE, 1000, 1000)
        self.connection.connection_made(self.transport)
        self.follow(LEDGER)

    def follow(self, ledger_id: LedgerId) -> None:
        self.copies.follow(ledger_id, self.connection, EntryId(9))

    def member(self, ledger_id: LedgerId = LEDGER) -> LateMember:
        sink = self.connection._sinks[ledger_id]
        assert isinstance(sink, LateMember)
        return sink


async def test_a_member_is_done_with_its_last_answer() -> None:
    late = Late()
    member = late.member()
    member.on_adds_acked(3, 8)
    assert late.copies.owed
    member.on_adds_acked(9, 12)
    assert not late.copies.owed and not late.connection._sinks
    await late.copies.close()
    assert late.missed == []


async def test_answers_with_gaps_count_up_to_the_highest() -> None:
    late = Late()
    late.member().on_scattered_adds_acked([9, 4])
    assert not late.copies.owed


async def test_a_refused_copy_is_reported() -> None:
    late = Late()
    member = late.member()
    member.on_add_refused(10, Status.EFENCED)  # above what was confirmed
    assert late.missed == []
    member.on_add_refused(5, Status.EFENCED)
    assert late.missed == [(LEDGER, BOOKIE)] and not late.connection._sinks


async def test_a_lost_connection_is_reported_for_each_ledger() -> None:
    late = Late()
    late.follow(LedgerId(8))
    late.connection.connection_lost(None)
    assert late.missed == [(LEDGER, BOOKIE), (LedgerId(8), BOOKIE)]
    late.follow(LedgerId(9))
    assert late.missed[2:] == [(LedgerId(9), BOOKIE)], "a connection that is lost already"


async def test_silence_ends_the_connection_also_after_an_answer() -> None:
    late = Late(timeout_s=0.05)
    late.follow(LedgerId(8))
    late.connection.data_received(b"")
    late.member(LedgerId(8)).on_adds_acked(0, 0)
    await asyncio.sleep(0.2)
    assert late.missed == [(LEDGER, BOOKIE), (LedgerId(8), BOOKIE)]


async def test_a_ledger_is_given_up_on_a_connection_that_serves_others() -> None:
    late = Late(timeout_s=0.5)
    late.follow(LedgerId(8))
    async with asyncio.timeout(30):
        while not late.missed:
            await asyncio.sleep(0.02)
            late.connection.data_received(b"")
            late.member(LedgerId(8)).on_adds_acked(0, 0)
    assert late.missed == [(LEDGER, BOOKIE)] and late.connection.lost is None
    late.member(LedgerId(8)).on_adds_acked(9, 9)
    assert late.missed == [(LEDGER, BOOKIE)] and not late.copies.owed


async def test_the_end_of_a_client_waits_while_answers_come(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late()
    monkeypatch.setattr(late_copies, "_QUIET_S", 0.2)
    closing = asyncio.create_task(late.copies.close())
    for entry_id in range(10):
        await asyncio.sleep(0.05)
        assert not closing.done()
        late.member().on_adds_acked(entry_id, entry_id)
    await closing
    assert late.missed == []


@pytest.mark.parametrize("limit", ["_QUIET_S", "_CLOSE_S"])
async def test_the_end_of_a_client_does_not_wait_for_a_member_that_hangs(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    late = Late()
    monkeypatch.setattr(late_copies, limit, 0.0)
    async with asyncio.timeout(0.5):  # the other limit is longer
        await late.copies.close()
    assert late.missed == [(LEDGER, BOOKIE)] and not late.connection._sinks


async def test_an_end_that_is_cancelled_reports_what_is_owed() -> None:
    late = Late()
    closing = asyncio.create_task(late.copies.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert late.missed == [(LEDGER, BOOKIE)]


async def test_a_retired_connection_ends_with_the_last_answer() -> None:
    late = Late()
    late.follow(LedgerId(8))
    late.connection.retire("the recovery is over")
    assert late.connection.lost is None
    late.member().on_adds_acked(0, 9)
    assert late.connection.lost is None
    late.member(LedgerId(8)).on_adds_acked(0, 9)
    assert str(late.connection.lost) == "the recovery is over"
    late.transport.abort.assert_called_once()
    assert late.missed == []


async def test_a_retired_connection_without_an_answer_to_come_ends() -> None:
    connection = V2Connection(BOOKIE, 1000, 1000)
    connection.retire("over")
    assert str(connection.lost) == "over"
