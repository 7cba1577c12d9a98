"""Positions of messages that only one bookie shows to be confirmed, and that a reader has returned therefore."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from dlog.client import LogClient
from dlog.errors import ShrinkRefusedError, UnknownPositionError
from dlog.model import MessageId
from ledger.model import LedgerMetadata
from ledger.reading.lac_reader import LacReader
from tests.helpers.ledger.scripted_bookies import GUARD_S, ScriptedBookie
from tests.helpers.log.scripted_log import scripted_log

LOG = "orders"
Move = Callable[[LogClient, MessageId], Awaitable[object]]


async def set_cursor(client: LogClient, position: MessageId) -> None:
    await client.set_cursor(LOG, "c", position)


async def shrink(client: LogClient, position: MessageId) -> None:
    await client.shrink(LOG, position)


@asynccontextmanager
async def shown_by_one() -> AsyncIterator[tuple[LogClient, MessageId, ScriptedBookie]]:
    """The position after two messages, of which two bookies do not know that the second one is confirmed."""
    async with (
        scripted_log() as log,
        log.client() as client,
        await client.open_writer(LOG, create=True) as writer,
    ):
        await writer.append(b"0")
        last = await writer.append(b"1")
        # The LAC goes to an ack quorum, which is any two of the three.
        knows = next(bookie for bookie in log.bookies if last.ledger_id in bookie.packets)
        others = [bookie for bookie in log.bookies if bookie is not knows]
        for bookie in others:
            bookie.packets.clear()
        knows.late = lambda what: what == "read_lac"
        yield client, last._replace(batch_index=1), knows
        knows.speak()


@pytest.mark.parametrize("move", [set_cursor, shrink])
async def test_it_is_no_position_above_the_tail(move: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    is_proved, asked = LacReader.is_proved, asyncio.Event()

    async def noted(reader: LacReader, entry_id: int, metadata: LedgerMetadata) -> bool:
        asked.set()
        return await is_proved(reader, entry_id, metadata)

    monkeypatch.setattr(LacReader, "is_proved", noted)
    async with asyncio.timeout(GUARD_S), shown_by_one() as (client, position, knows):
        moving = asyncio.create_task(move(client, position))
        await asked.wait()
        assert not moving.done()
        knows.speak()
        await moving


@pytest.mark.parametrize("move", [set_cursor, shrink])
async def test_without_that_bookie_it_is_refused(move: Move) -> None:
    async with asyncio.timeout(GUARD_S), shown_by_one() as (client, position, knows):
        knows.go_away()
        with pytest.raises((UnknownPositionError, ShrinkRefusedError)):
            await move(client, position)
