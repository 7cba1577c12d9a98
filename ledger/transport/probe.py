"""Does a bookie answer? Asked before it is relied on, since a hung one still accepts connections."""

from __future__ import annotations

import asyncio

from ledger.config import LedgerClientConfig
from ledger.errors import BookieUnavailableError
from ledger.model import LedgerId
from ledger.transport.entry_connection import EntryConnection

_PROBED_ENTRY = (1 << 63) - 1
"""One that nobody else asks for. Answers of version 2 name only ledger and entry: a late one to a probe of the last
entry would pass for the answer to a read that fences, before the fence is there."""


async def answers(connection: EntryConnection, ledger_id: LedgerId, config: LedgerClientConfig) -> bool:
    """True if the bookie answers a read of the ledger, whatever it says. Changes nothing there.

    The probe is impatient, the connection is not: others may have adds under way on it.
    """
    try:
        async with asyncio.timeout(config.probe_timeout_s):
            await connection.read(ledger_id, _PROBED_ENTRY, config.read_timeout_s)
    except (BookieUnavailableError, TimeoutError):
        return False
    return True
