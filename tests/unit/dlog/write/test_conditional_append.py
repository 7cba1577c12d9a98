"""A writer's first conditional append reads the log's last message: what it finds while the log changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core.batching import BatchLimits
from dlog.errors import (
    AppendAbortedError,
    AppendRejectedError,
    DataLossError,
    QueueFullError,
    WriterDeposedError,
)
from dlog.model import NO_MESSAGE, MessageId
from dlog.write.writer import LogWriter
from ledger.model import LedgerId
from tests.helpers.ledger.scripted_bookies import GUARD_S
from tests.helpers.log.scripted_log import ScriptedLog, payloads, scripted_log

SMALL = 2_000
"""Bytes of the buffer: one entry, and no more."""


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
    assert record.ledger_ids[1:] == (writer.position.ledger_id,)
    await admin.collect("orders")


async def test_everything_is_trimmed_and_deleted_while_the_last_message_is_read() -> None:
    """The newest ledger with entries stays in the list (docs/log-semantics.md#rule-33), so the answer is the same."""
    async with scripted_log() as log, log.client() as client, log.client() as admin:
        writer, last = await writer_of_two_sealed_ledgers(client)
        before_opening(client, lambda: trim_and_delete_all(admin, writer))
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendRejectedError) as caught:
                await writer.append(b"three", expect_tail=NO_MESSAGE)
            assert caught.value.tail == last
            await writer.append(b"three", expect_tail=last)
        assert await payloads(client, "orders") == [b"three"]


async def submitted_many(writer: LogWriter, values: list[bytes], expected: MessageId) -> MessageId:
    return (await (await writer.submit_many(values, expect_tail=expected)))[-1]


async def appended_many(writer: LogWriter, values: list[bytes], expected: MessageId) -> MessageId:
    return (await writer.append_many(values, expect_tail=expected))[-1]


async def appended(writer: LogWriter, values: list[bytes], expected: MessageId) -> MessageId:
    return await writer.append(b"+".join(values), expect_tail=expected)


@pytest.mark.parametrize("append", [appended_many, submitted_many])
async def test_a_batch_is_appended_only_after_the_message_that_it_expects(
    append: Callable[[LogWriter, list[bytes], MessageId], Awaitable[MessageId]],
) -> None:
    """Its own last message is the next tail; one that is rejected is not in the log."""
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        first = await append(writer, [b"a", b"b"], NO_MESSAGE)
        assert first.batch_index == 1
        for wrong in (NO_MESSAGE, first._replace(batch_index=0), first._replace(batch_index=2)):
            with pytest.raises(AppendRejectedError, match="last message") as caught:
                await append(writer, [b"no", b"no"], wrong)
            assert (caught.value.expected, caught.value.tail) == (wrong, first)
        await writer.rotate()
        second = await append(writer, [b"c"], first)
        later = await client.open_writer("orders")
        with pytest.raises(AppendRejectedError):
            await append(later, [b"no"], first)
        await append(later, [b"d"], second)
        assert await payloads(client, "orders") == [b"a", b"b", b"c", b"d"]


async def test_a_rejected_append_names_both_last_messages() -> None:
    """The tail of a log is the next id elsewhere, so the sentence does not use the word."""
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)

        async def sentence(expected: MessageId) -> str:
            with pytest.raises(AppendRejectedError) as caught:
                await writer.append(b"no", expect_tail=expected)
            return str(caught.value).removesuffix(": read to the end of the log, then decide again")

        absent = MessageId(0, 0, 0)
        assert await sentence(absent) == f"log default/orders has no message, so its last one is not {absent}"
        first = await writer.append(b"a")
        assert await sentence(absent) == f"the last message of log default/orders is {first}, not {absent}"
        assert await sentence(NO_MESSAGE) == f"log default/orders is not empty: its last message is {first}"


@pytest.mark.parametrize("has_appended", [False, True])
@pytest.mark.parametrize("append", [appended, appended_many, submitted_many])
async def test_a_writer_that_has_ended_does_not_ask_to_read_again(
    append: Callable[[LogWriter, list[bytes], MessageId], Awaitable[MessageId]], has_appended: bool
) -> None:
    """It would refuse whatever the log ends with then, since it does not know a later writer's messages."""
    async with scripted_log() as log, log.client() as client:
        writer, _ = await writer_of_two_sealed_ledgers(client)
        if has_appended:
            await writer.append(b"three")
        later = await client.open_writer("orders")
        last = await later.append(b"of the later writer")
        async with asyncio.timeout(GUARD_S):
            await writer.over
            with pytest.raises(WriterDeposedError):
                await append(writer, [b"no"], last)
        await later.close()
        with pytest.raises(AppendAbortedError, match="is closed"):
            await append(later, [b"no"], NO_MESSAGE)


async def test_of_conditional_appends_that_expect_one_tail_one_is_appended() -> None:
    """All of them have read the last message when the first is decided (docs/log-semantics.md#rule-12)."""
    async with scripted_log() as log, log.client() as client:
        writer, last = await writer_of_two_sealed_ledgers(client)
        ways = (appended_many, submitted_many, appended, submitted_many, appended_many)
        calls = (way(writer, [b"%d" % number, b"x"], last) for number, way in enumerate(ways))
        async with asyncio.timeout(GUARD_S):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(outcome, AppendRejectedError) for outcome in outcomes].count(True) == len(ways) - 1
        [message_id] = [outcome for outcome in outcomes if isinstance(outcome, MessageId)]
        assert writer.position is not None and message_id.entry_id == writer.position.entry_id - 1


async def test_nothing_is_appended_between_the_comparison_and_the_message() -> None:
    """Headers are an iterable of the program, which may do anything (docs/log-semantics.md#rule-12)."""
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)

        def headers() -> Iterator[tuple[bytes, bytes]]:
            writer.submit_nowait(b"other")
            yield b"name", b"value"

        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendRejectedError):
                await writer.append(b"first", None, headers(), expect_tail=NO_MESSAGE)
            await writer.flush()
        assert await payloads(client, "orders") == [b"other"]


async def test_a_conditional_batch_does_not_wait_for_buffer_space() -> None:
    """The tail could change in the meantime."""
    small = {"batching": BatchLimits(entry_bytes_max=SMALL, batch_bytes=SMALL), "buffer_bytes_max": SMALL}
    async with scripted_log() as log, log.client(**small) as client:
        writer = await client.open_writer("orders", create=True)
        first = await writer.append(b"one")
        for bookie in log.bookies:
            bookie.be_silent()
        waiting = await writer.submit_many([b"t" * 500, b"wo" * 100], expect_tail=first)
        again = await writer.submit_many([b"x" * 1_500])
        tail = first._replace(entry_id=first.entry_id + 2)
        with pytest.raises(QueueFullError, match="wait for appends to succeed"):
            await writer.submit_many([b"no"], expect_tail=tail)
        for bookie in log.bookies:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            assert [*await waiting, *await again][-1] == tail
        assert await payloads(client, "orders") == [b"one", b"t" * 500, b"wo" * 100, b"x" * 1_500]


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
