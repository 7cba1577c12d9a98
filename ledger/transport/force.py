"""Asks a bookie to sync what it has received (docs/bookkeeper.md#v3-messages, FORCE_LEDGER)."""

from __future__ import annotations

import asyncio

from ledger.errors import BookieUnavailableError
from ledger.model import LedgerId
from ledger.transport.v3_connection import V3Connection
from ledger.wire.messages import ForceLedgerRequest, Operation
from ledger.wire.status import Status


async def force(connection: V3Connection, ledger_id: LedgerId, timeout_s: float) -> None:
    """On return everything that the bookie had of the ledger when it was asked is on its disk.

    Raises:
        BookieUnavailableError: the bookie did not answer in time, or with an error.
    """
    bookie_id, body = connection.bookie_id, ForceLedgerRequest(ledger_id=ledger_id)
    try:
        async with asyncio.timeout(timeout_s):
            response = await connection.request(Operation.FORCE_LEDGER, body, timeout_s)
    except TimeoutError as error:
        raise BookieUnavailableError(
            f"bookie {bookie_id} did not answer a force within {timeout_s} s", bookie_id=bookie_id
        ) from error
    if response.outcome is not Status.EOK:
        raise BookieUnavailableError(
            f"bookie {bookie_id} answered {response.outcome.name} to a force of ledger {ledger_id}",
            bookie_id=bookie_id,
        )
