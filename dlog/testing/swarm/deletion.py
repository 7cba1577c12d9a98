"""A log that is read while it is deleted raises, and is never taken for an empty one.

Source: docs/log-semantics.md#rule-30.
"""

from __future__ import annotations

import asyncio

from dlog.client import LogClient
from dlog.errors import LogNotFoundError
from dlog.model import LogState
from ledger.errors import UnavailableError

_TRY_AGAIN_S = 0.001
"""Short next to a deletion, which changes the metadata store several times."""


async def read_while_deleted(client: LogClient, log: str) -> list[str]:
    """Delete the log, and read it while that lasts; returns what must not have happened. Nothing else may use it."""
    deleting = asyncio.create_task(_deleted(client, log))
    wrong: list[str] = []
    try:
        while not deleting.done():
            try:
                state = (await client.describe(log)).record.state
                found = [message.payload async for message in client.reader(log, until="latest")]
                if state is LogState.DELETING:
                    wrong.append(f"a log that is being deleted was read, and held {found}")
            except (LogNotFoundError, UnavailableError):
                pass
            await asyncio.sleep(_TRY_AGAIN_S)
    finally:
        deleting.cancel()
        await asyncio.gather(deleting, return_exceptions=True)
    return wrong[:1]


async def _deleted(client: LogClient, log: str) -> None:
    """Deleted as far as it can be now."""
    while True:
        try:
            await client.delete(log)
        except LogNotFoundError:
            return
        except UnavailableError:
            await asyncio.sleep(_TRY_AGAIN_S)
        else:
            return
