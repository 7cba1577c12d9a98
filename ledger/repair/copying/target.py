"""The receiving side of a copy: adds to one bookie, a bounded number of bytes at a time, each acknowledged.

The adds carry the recovery flag, so that a fenced ledger takes them, and no priority: a bookie that is full must keep
what room it has left for recoveries (docs/bookkeeper.md#read-only-bookies). A bookie acknowledges them once synced.
Each keeps the LAC and the length that it had, so the copy is that of the source, byte for byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, LedgerId, LedgerMetadata
from ledger.reading.bookie_reads import Entry
from ledger.repair.errors import CopyFailedError
from ledger.transport.entry_connection import EntryConnection
from ledger.wire.constants import ADD_HEADER, ADD_REQUEST_START, MASTER_KEY_BYTES, RECOVERY_ADD
from ledger.wire.digest import make_digester, master_key
from ledger.wire.status import Status


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
        self._digester = make_digester(metadata.digest_type, metadata.password)
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

    async def add(self, entries: Sequence[Entry]) -> None:
        """Send; returns once few enough bytes are without an answer.

        Raises:
            CopyFailedError: the bookie refused one, or does not answer.
        """
        start, head_of, key = ADD_REQUEST_START.pack, self._digester.header_and_digest, self._key
        overhead = 4 + MASTER_KEY_BYTES + self._digester.overhead_bytes
        for entry_id, lac, length, payload in entries:
            size = len(payload)
            frame = start(overhead + size, ADD_HEADER | RECOVERY_ADD, key)
            frame += head_of(self._ledger_id, entry_id, lac, length, (payload,))
            self._unacked[entry_id] = size
            self._bytes += size
            self._connection.send(frame + bytes(payload), self._timeout_s)
            if self._bytes > self._window_bytes:
                await self._until(self._window_bytes)
        await self._until(self._window_bytes)

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

    def on_adds_acked(self, first: int, last: int) -> None:
        self.on_scattered_adds_acked(list(range(first, last + 1)))

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None:
        for entry_id in entry_ids:
            self._bytes -= self._unacked.pop(entry_id, 0)
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
