"""A writer's first conditional append reads the log's last message: what it finds while the log changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.errors import AppendRejectedError, DataLossError, WriterDeposedError
from dlog.model import NO_MESSAGE, MessageId
from dlog.write.writer import LogWriter
from ledger.model import LedgerId
from tests.helpers.ledger.scripted_bookies import GUARD_S
from tests.helpers.log.scripted_log import ScriptedLog, payloads, scripted_log


async def writer_of_two_sealed_ledgers(client: LogClient) -> tuple[LogWriter, MessageId]:
    """A writer that has appended nothing, and the last message of the writer before it."""
    before = await client.open_writer("orders", create=True)
    await before.append(b"one")
    await before.rotate()
    last = await before.append(b"two")
    await before.close()
    return await client.open_writer("orders"), last


def before_opening(client: LogClient, happen: Callable[[], Awaitable[Any]]) -> None:
    """`happen` once, between the client's read of the record and its opening of a ledger listed there."""
    honest, pending = client.ledgers.open, [happen]

    async def open_ledger(ledger_id: LedgerId, password: bytes = b"") -> Any:
        while pending:
            await pending.pop()()
        return await honest(ledger_id, password)

    client.ledgers.open = open_ledger  # type: ignore[method-assign]


async def trim_and_delete_all(admin: LogClient, writer: LogWriter) -> None:
    assert writer.position is not None
    record = await admin.shrink("orders", writer.position)
    assert record.ledger_ids == (writer.position.ledger_id,)
    await admin.collect("orders")


@pytest.mark.parametrize("expected_before_the_trim", [True, False])
async def test_everything_is_trimmed_and_deleted_while_the_last_message_is_read(
    expected_before_the_trim: bool,
) -> None:
    """As if the trim had come first: the log has no message."""
    async with scripted_log() as log, log.client() as client, log.client() as admin:
        writer, last = await writer_of_two_sealed_ledgers(client)
        before_opening(client, lambda: trim_and_delete_all(admin, writer))
        async with asyncio.timeout(GUARD_S):
            if expected_before_the_trim:
                with pytest.raises(AppendRejectedError) as caught:
                    await writer.append(b"three", expect_tail=last)
                assert caught.value.tail == NO_MESSAGE
            await writer.append(b"three", expect_tail=NO_MESSAGE)
        assert await payloads(client, "orders") == [b"three"]


async def lose_the_ledger(log: ScriptedLog, ledger_id: LedgerId) -> None:
    found = await log.cluster.store.read_ledger(ledger_id)
    await log.cluster.store.remove_ledger(ledger_id, found.version)


async def lose_the_entry(log: ScriptedLog, ledger_id: LedgerId) -> None:
    for bookie in log.bookies:
        bookie.entries.pop((ledger_id, 0), None)


@pytest.mark.parametrize("lose", [lose_the_ledger, lose_the_entry])
async def test_a_lost_last_message_is_data_loss(
    lose: Callable[[ScriptedLog, LedgerId], Awaitable[None]],
) -> None:
    """The record lists the ledger before and after, so it was not trimmed. Nothing is appended."""
    async with scripted_log() as log, log.client() as client:
        writer, last = await writer_of_two_sealed_ledgers(client)
        await lose(log, last.ledger_id)
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(
                DataLossError, match="cannot determine the last message of log default/orders"
            ):
                await writer.append(b"three", expect_tail=last)
        assert writer.record.ledgers[-1].seal is None
        assert await writer.append(b"unconditional")


async def test_the_log_is_deleted_while_the_last_message_is_read() -> None:
    async with scripted_log() as log, log.client(blind=True) as client, log.client() as admin:
        writer, last = await writer_of_two_sealed_ledgers(client)
        before_opening(client, lambda: admin.delete("orders"))
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(WriterDeposedError, match="log default/orders was deleted"):
                await writer.append(b"three", expect_tail=last)
