"""Fills bookies with closed ledgers."""

from __future__ import annotations

from ledger.client import LedgerClient
from ledger.config import Visibility
from ledger.model import QuorumSizes

SMALL, LARGE = 1024, 64 * 1024
"""Entries that are written twice and once, with the defaults."""
_LEDGER_BYTES = 1_000_000_000
_WINDOW_BYTES = 16 * 1024 * 1024


async def fill(client: LedgerClient, quorum: QuorumSizes, size: int, entry_bytes: int) -> None:
    """Append this number of bytes, in ledgers of at most a gigabyte."""
    payload = bytes(entry_bytes)
    while size > 0:
        handle = await client.create(quorum, visibility=Visibility.FAST)
        for _ in range(max(1, min(size, _LEDGER_BYTES) // entry_bytes)):
            await handle.wait_for_capacity(_WINDOW_BYTES)
            handle.submit(payload)
        await handle.drain()
        await handle.close()
        size -= _LEDGER_BYTES
