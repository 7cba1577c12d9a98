"""Copies that members still owe when the writer of their ledger has ended.

An append is done with an ack quorum, so a slower member may be far behind as the ledger is closed. What it was sent is
on its way, and no process would know if it did not arrive. So its answers are followed to the last one. What it
refuses, or what is lost with its connection, is reported as missed (docs/repair.md#when-a-bookie-comes-back).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ledger.model import BookieId, EntryId, LedgerId
from ledger.transport.entry_connection import EntryConnection
from ledger.wire.status import Status

_QUIET_S = 1.0
"""The end of a client waits no longer for an answer: the members left hang."""
_CLOSE_S = 10.0
"""How long it waits for members that answer."""


class LateCopies:
    """Of all writers of one client that have ended."""

    def __init__(self, report_missed: Callable[[LedgerId, BookieId], None], timeout_s: float) -> None:
        """A member's silence for `timeout_s` ends its connection, as that of any bookie that owes an answer. If it
        acknowledges nothing of a ledger for as long, what it owes of it counts as missed.
        """
        self.report_missed = report_missed
        self.timeout_s = timeout_s
        self.owed: dict[LateMember, None] = {}
        self.answered = asyncio.Event()

    def follow(self, ledger_id: LedgerId, connection: EntryConnection, last: EntryId) -> None:
        """The bookie was sent the entries of the ledger up to `last`, and has not acknowledged all of them."""
        member = LateMember(self, ledger_id, connection, last)
        self.owed[member] = None
        connection.attach(ledger_id, member)
        connection.expect(self.timeout_s)

    async def close(self) -> None:
        """Wait a limited time for what is owed; report the rest as missed."""
        try:
            await self.settle()
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Report all that is owed as missed."""
        for member in list(self.owed):
            member.end(missed=True)

    async def settle(self) -> None:
        """Wait for what is owed: up to 10 s, and no longer than 1 s for an answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                while self.owed:
                    self.answered.clear()
                    async with asyncio.timeout(_QUIET_S):
                        await self.answered.wait()


class LateMember:
    """One ledger on one connection, until its last copy is acknowledged, or none of it for `timeout_s`.

    The silence of the connection does not end it while the bookie answers for other ledgers.
    """

    __slots__ = ("_due", "_last", "_late", "_loop", "_timer", "connection", "ledger_id")

    unacknowledged_bytes = 0
    """They are acknowledged to the writer."""

    def __init__(
        self, late: LateCopies, ledger_id: LedgerId, connection: EntryConnection, last: EntryId
    ) -> None:
        self._late = late
        self.ledger_id = ledger_id
        self.connection = connection
        self._last = last
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + late.timeout_s
        self._timer = self._loop.call_at(self._due, self._check_due)

    def _check_due(self) -> None:
        if self._due <= self._loop.time():
            self.end(missed=True)
        else:
            self._timer = self._loop.call_at(self._due, self._check_due)

    def end(self, *, missed: bool) -> None:
        late = self._late
        self._timer.cancel()
        del late.owed[self]
        if missed:
            late.report_missed(self.ledger_id, self.connection.bookie_id)
        late.answered.set()
        self.connection.detach(self.ledger_id, self)

    # ---- AddSink

    def on_adds_acked(self, first: int, last: int) -> None:
        # A bookie acknowledges the entries of a ledger in their order, so the last one stands for all before it.
        if last >= self._last:
            self.end(missed=False)
        else:
            self._late.answered.set()
            self._due = self._loop.time() + self._late.timeout_s
            self.connection.expect(self._late.timeout_s)

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None:
        self.on_adds_acked(min(entry_ids), max(entry_ids))

    def on_add_refused(self, entry_id: int, status: Status) -> None:
        if entry_id <= self._last:
            self.end(missed=True)

    def on_connection_lost(self, error: Exception) -> None:
        self.end(missed=True)
