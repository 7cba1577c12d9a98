"""Which bookies are in limbo (docs/operations.md#limbo). Neither a registration nor a message of the protocol says so.

A bookie in limbo denies no ledger, not even one that cannot have been created.
"""

from __future__ import annotations

import asyncio

from bookie_server.tools.admin_connection import AdminConnection, linked
from ledger.errors import UnavailableError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieInfo, BookieSet
from ledger.wire.messages import Operation, V3ReadRequest, V3ReadResponse
from ledger.wire.status import Status

_NO_LEDGER = 2**63 - 1
"""The last id that there can be: stores give out ids from 0 on."""
_ANSWER_BYTES_MAX = 64 * 1024
_ASK_S = 5.0
"""Bookies are asked at the same time, so one that hangs delays a command by this at most."""


async def bookies_and_limbo(store: MetadataStore) -> tuple[BookieSet, dict[BookieId, bool | None]]:
    """The registered bookies, and which are in limbo, as of `limbo_of`."""
    bookies = await store.bookies()
    return bookies, await limbo_of(bookies)


async def limbo_of(bookies: BookieSet) -> dict[BookieId, bool | None]:
    """Whether each bookie is in limbo; None if it does not say.

    Only read-only bookies are asked: a bookie enters limbo at a start, before it registers, and is read-only until
    limbo is over.
    """
    answers = await asyncio.gather(*map(_ask, bookies.read_only))
    asked = (info.bookie_id for info in bookies.read_only)
    return {**{info.bookie_id: False for info in bookies.writable}, **dict(zip(asked, answers, strict=True))}


async def _ask(info: BookieInfo) -> bool | None:
    try:
        async with asyncio.timeout(_ASK_S), linked(info.host, info.port, _ANSWER_BYTES_MAX) as link:
            return await is_in_limbo(link)
    except (TimeoutError, UnavailableError):
        return None


async def is_in_limbo(link: AdminConnection) -> bool | None:
    """Whether the bookie at the other end is in limbo; None if its answer says neither. BookieUnavailableError."""
    request = V3ReadRequest(ledger_id=_NO_LEDGER, entry_id=0)
    status, _ = await link.ask(Operation.READ_ENTRY, request, V3ReadResponse)
    match status:
        case Status.EUNKNOWNLEDGERSTATE:
            return True
        case Status.ENOLEDGER:
            return False
        case _:
            return None
