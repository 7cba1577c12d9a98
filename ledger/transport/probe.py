"""Check that a bookie responds, before relying on it: a hung one still accepts connections."""

from __future__ import annotations

import asyncio

from ledger.config import LedgerClientConfig
from ledger.errors import BookieUnavailableError
from ledger.model import LedgerId
from ledger.transport.entry_connection import EntryConnection

_PROBED_ENTRY = (1 << 63) - 1
"""An entry that no caller reads. Answers of version 2 name only ledger and entry: a late answer to a probe of the last
entry would be taken for that of a fencing read, before the fence is set.
"""


async def responds(connection: EntryConnection, ledger_id: LedgerId, config: LedgerClientConfig) -> bool:
    """True if the bookie responds to a read of the ledger, with any status. Changes nothing there.

    The probe has a short timeout, the connection keeps its own: other callers may have adds in flight on it.
    """
    try:
        async with asyncio.timeout(config.probe_timeout_s):
            await connection.read(ledger_id, _PROBED_ENTRY, config.read_timeout_s)
    except (BookieUnavailableError, TimeoutError):
        return False
    return True
