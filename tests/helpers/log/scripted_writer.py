"""A writer over scripted bookies: entries, and the ledger they go to."""

from __future__ import annotations

import asyncio
import re

from dlog.client import LogClient
from dlog.model import MessageId
from dlog.write.writer import LogWriter
from ledger.model import LedgerId
from tests.helpers.ledger.scripted_bookies import until
from tests.helpers.log.scripted_log import store_of


async def entries(writer: LogWriter, *payloads: bytes) -> list[asyncio.Future[MessageId]]:
    """One entry for each payload."""
    futures = []
    for payload in payloads:
        futures.append(await writer.submit(payload))
        await writer.start_flush()
    return futures


async def settled_writer(client: LogClient, log: str) -> LogWriter:
    """One that has read its log's record, retention and requests, and asks the store for nothing else of itself."""
    writer = await client.open_writer(log, create=True)
    await until(lambda: is_settled(client))
    return writer


def is_settled(client: LogClient) -> bool:
    """Whether the client's writer, which has taken its log over and changed nothing since, has read all of that."""
    answered = store_of(client).answered
    took_over = len(answered) - 1 - answered[::-1].index("write_record")
    return answered[took_over + 1 :].count("read_record") == 3


def added(what: str) -> int:
    """The entry id of an add, -1 for any other request."""
    found = re.fullmatch(r"add (\d+)", what)
    return int(found[1]) if found else -1


def current(writer: LogWriter) -> LedgerId:
    return writer.record.ledger_ids[-1]


async def fence(client: LogClient, ledger_id: LedgerId) -> int:
    """As a repair tool does it; the last entry that it kept."""
    handle = await client.ledgers.open_with_recovery(ledger_id)
    await handle.close()
    return handle.last_readable
