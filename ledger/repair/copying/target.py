"""The receiving side of a copy: adds to one bookie, a bounded number of bytes at a time, each acknowledged.

The adds carry the recovery flag, so that a fenced ledger takes them, and no priority: a bookie that is full must keep
what room it has left for recoveries (docs/bookkeeper.md#read-only-bookies). A bookie acknowledges them once synced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import repeat

from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, LedgerId, LedgerMetadata
from ledger.repair.copying.source import Part
from ledger.repair.errors import CopyFailedError
from ledger.transport.entry_connection import EntryConnection
from ledger.wire.constants import ADD_HEADER, ADD_REQUEST_START, RECOVERY_ADD
from ledger.wire.digest import master_key
from ledger.wire.entry import Buffer
from ledger.wire.status import Status

_BEFORE_ENTRY_BYTES = ADD_REQUEST_START.size - 4
"""Bytes of an add after its length and before the entry."""


class Target:
    """One ledger's adds on one connection, which no writer of the ledger shares. Use as a context manager."""

    def __init__(
        self,
        connection: EntryConnection,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        *,
        window_bytes: int,
        timeout_s: float,
    ) -> None:
        self._connection = connection
        self._ledger_id = ledger_id
        self._key = master_key(metadata.password)
        self._window_bytes = window_bytes
        self._timeout_s = timeout_s
        self._unacked: dict[int, int] = {}
        """Bytes of the entries without an answer."""
        self._bytes = 0
        self._answered = asyncio.Event()
        self._error: CopyFailedError | None = None

    def __enter__(self) -> Target:
        self._connection.attach(self._ledger_id, self)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.detach(self._ledger_id, self)

    async def add(self, part: Part) -> None:
        """Send; returns once few enough bytes are without an answer.

        Raises:
            CopyFailedError: the bookie refused one, or does not answer.
        """
        sizes = list(map(len, part.entries))
        self._unacked.update(zip(part.entry_ids, sizes, strict=True))
        self._bytes += sum(sizes)
        self._connection.send(self._frames(part.entries), self._timeout_s)
        await self._until(self._window_bytes)

    def _frames(self, entries: Sequence[Buffer]) -> bytes:
        """All in one piece: each write costs more than the copy."""
        start, flags, key = ADD_REQUEST_START.pack, ADD_HEADER | RECOVERY_ADD, self._key
        pieces: list[Buffer] = []
        for entry in entries:
            pieces += (start(_BEFORE_ENTRY_BYTES + len(entry), flags, key), entry)
        return b"".join(pieces)

    async def finish(self) -> None:
        """Returns once the bookie has acknowledged everything, so it is durable there.

        Raises:
            CopyFailedError: it did not.
        """
        await self._until(-1)

    async def _until(self, bytes_left: int) -> None:
        while self._error is None and self._unacked and self._bytes > bytes_left:
            self._answered.clear()
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._answered.wait()
            except TimeoutError:
                self._fail(f"it acknowledged nothing for {self._timeout_s:g} s")
        if self._error is not None:
            raise self._error.copy()

    # ---- what the connection reports (AddSink)

    @property
    def unacknowledged_bytes(self) -> int:
        return self._bytes

    def on_adds_acked(self, first: int, last: int) -> None:
        self._acked(range(first, last + 1))

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None:
        self._acked(entry_ids)

    def _acked(self, entry_ids: Sequence[int]) -> None:
        self._bytes -= sum(map(self._unacked.pop, entry_ids, repeat(0)))
        self._answered.set()

    def on_add_refused(self, entry_id: int, status: Status) -> None:
        self._fail(f"it answered {status.name} to entry {entry_id}")

    def on_connection_lost(self, error: Exception) -> None:
        self._fail(str(error))

    def _fail(self, why: str) -> None:
        if self._error is None:
            self._error = copy_failed(self._ledger_id, self._connection.bookie_id, why)
        self._answered.set()


def copy_failed(ledger_id: LedgerId, bookie_id: BookieId, why: str) -> CopyFailedError:
    return CopyFailedError(
        f"bookie {bookie_id} does not take copies of ledger {ledger_id}: {why}",
        ledger_id=ledger_id,
        bookie_id=bookie_id,
    )


def unreachable(ledger_id: LedgerId, error: BookieUnavailableError, bookie_id: BookieId) -> CopyFailedError:
    return copy_failed(ledger_id, bookie_id, str(error))
