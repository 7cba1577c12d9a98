"""When an outcome counts as read, and that unclosed writers and clients do not go unnoticed."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.errors import AppendIndeterminateError, AppendRejectedError, AppendsFailedError
from dlog.model import MessageId
from ledger.config import LedgerClientConfig
from tests.helpers.ledger.scripted_bookies import until
from tests.helpers.log.scripted_log import scripted_log
from tests.helpers.log.scripted_writer import entries

Read = Callable[["asyncio.Future[MessageId]"], Coroutine[Any, Any, object]]
PATIENT = LedgerClientConfig(add_timeout_s=30.0, quorum_timeout_s=30.0)


async def _awaits(future: asyncio.Future[MessageId]) -> None:
    with pytest.raises(AppendIndeterminateError):
        await future


async def _asks_for_the_exception(future: asyncio.Future[MessageId]) -> None:
    await asyncio.wait([future])
    assert future.exception() is not None


async def _gathers(future: asyncio.Future[MessageId]) -> None:
    await asyncio.gather(future, return_exceptions=True)


async def _asks_in_a_callback(future: asyncio.Future[MessageId]) -> None:
    future.add_done_callback(lambda done: done.exception())
    await asyncio.wait([future])


async def _only_waits(future: asyncio.Future[MessageId]) -> None:
    future.add_done_callback(lambda done: None)
    await asyncio.wait([future])


async def _awaits_with_a_timeout(future: asyncio.Future[MessageId]) -> None:
    with pytest.raises(AppendIndeterminateError):
        await asyncio.wait_for(future, 30.0)


@pytest.mark.parametrize("ending", ["close", "flush"])
@pytest.mark.parametrize("read", [_awaits, _awaits_with_a_timeout, _gathers])
async def test_a_task_that_waits_for_the_append_reads_its_failure(read: Read, ending: str) -> None:
    """Though the append failed in the same turn of the loop in which `close` looks, before the task has run."""
    async with scripted_log() as log, log.client(ledger=PATIENT) as client:
        writer = await client.open_writer("orders", create=True)
        for bookie in log.bookies:
            bookie.be_silent()
        reading = asyncio.ensure_future(read(await writer.submit(b"a")))
        await asyncio.sleep(0.01)
        writer.abort()
        await getattr(writer, ending)()
        await reading


@pytest.mark.parametrize(
    ("read", "is_read"),
    [
        (_awaits, True),
        (_asks_for_the_exception, True),
        (_gathers, True),
        (_asks_in_a_callback, True),
        (_only_waits, False),
    ],
)
async def test_what_counts_as_reading(read: Read, is_read: bool) -> None:
    """By way of asyncio's own mark, which is not documented: this pins its meaning."""
    async with scripted_log() as log, log.client(ledger=PATIENT) as client:
        writer = await client.open_writer("orders", create=True)
        for bookie in log.bookies:
            bookie.be_silent()
        reading = asyncio.ensure_future(read(await writer.submit(b"a")))
        await asyncio.sleep(0.01)
        writer.abort()
        await reading
        if is_read:
            await writer.close()
            return
        with pytest.raises(AppendsFailedError, match="1 append to log default/orders failed") as raised:
            await writer.close()
        assert raised.value.count == 1 and isinstance(raised.value.first, AppendIndeterminateError)
        await writer.close()


async def test_a_cancelled_append_is_no_failure() -> None:
    """Neither a cancelled future nor a cancelled task."""
    async with scripted_log() as log, log.client(ledger=PATIENT) as client:
        writer = await client.open_writer("orders", create=True)
        for bookie in log.bookies:
            bookie.be_silent()
        (await writer.submit(b"a")).cancel()
        task = asyncio.ensure_future(writer.append(b"b"))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        writer.abort()
        await writer.close()


async def test_a_client_lists_each_of_its_writers() -> None:
    """Closing the client raises for all writers, once all of them are closed."""
    async with scripted_log() as log, log.client(ledger=PATIENT) as client:
        writers = [await client.open_writer(name, create=True) for name in ("a", "b", "c")]
        for bookie in log.bookies:
            bookie.be_silent()
        for writer in writers[:2]:
            for number in range(3):
                await writer.submit(b"%d" % number)
            writer.abort()
        with pytest.raises(AppendsFailedError, match="3 appends to log default/") as raised:
            for bookie in log.bookies:
                bookie.speak()
            await client.close()
        assert len(raised.value.__notes__) == 1
        assert not any(writer.active for writer in writers)


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_client_remembers_what_a_writer_that_has_ended_leaves_unread(is_read: bool) -> None:
    async with scripted_log() as log, log.client(ledger=PATIENT) as client:
        writer = await client.open_writer("orders", create=True)
        for bookie in log.bookies:
            bookie.be_silent()
        append = await writer.submit(b"a")
        await asyncio.sleep(0.01)
        writer.abort()
        await asyncio.sleep(0.01)
        assert client.writers == frozenset()
        for bookie in log.bookies:
            bookie.speak()
        await client.open_writer("others", create=True)
        if is_read:
            assert isinstance(append.exception(), AppendIndeterminateError)
            await client.close()
            return
        with pytest.raises(AppendsFailedError, match="1 append to log default/orders failed"):
            await client.close()


async def test_flush_waits_for_all_before_it_and_for_nothing_after() -> None:
    """Entries of several batches, one of them cancelled whole; later appends do not hold it up."""
    async with scripted_log() as log, log.client(ledger=PATIENT) as client:
        writer = await client.open_writer("orders", create=True)
        first = [await writer.submit(b"%d" % number) for number in range(3)]
        await asyncio.sleep(0)
        cancelled = await writer.submit(b"cancelled")
        cancelled.cancel()
        many = await writer.submit_many([b"a", b"b"])
        await writer.flush()
        assert all(future.done() for future in (*first, many))
        for bookie in log.bookies:
            bookie.be_silent()
        early = await writer.submit(b"early")
        flushing = asyncio.ensure_future(writer.flush())
        await asyncio.sleep(0.02)
        assert not flushing.done()
        with pytest.raises(TimeoutError, match=r"have no outcome after 0\.01 s; they continue"):
            await writer.flush(timeout_s=0.01)
        for bookie in log.bookies:
            bookie.speak()
            bookie.mute = lambda what: what.startswith("add") and int(what.split()[1]) > early_entry
        early_entry = (await early).entry_id
        late = await writer.submit(b"late")
        await asyncio.wait_for(flushing, 10)
        assert early.done() and not late.done()
        for bookie in log.bookies:
            bookie.speak()
        await writer.flush()
        assert late.done()


async def test_an_unclosed_writer_and_client_warn() -> None:
    async with scripted_log() as log:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client: LogClient | None = LogClient(log.cluster.store)
            assert client is not None
            await client.start()
            client._started = True
            del client
            gc.collect()
        assert [
            (one.category, str(one.message)) for one in caught if "unclosed client" in str(one.message)
        ] == [(ResourceWarning, f"unclosed client of {log.cluster.store.uri}")]


async def test_failures_that_were_read_are_not_kept() -> None:
    """A program that reads every outcome need not flush. An error holds the frames of those that have read it."""
    rounds, count = 6, 50
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        for _ in range(rounds):
            producer = await writer.producer("p")
            for bookie in log.bookies:
                bookie.late = lambda what: what.startswith("add")
            [sent] = await entries(writer, b"sent")
            rotating = asyncio.ensure_future(writer.rotate())
            await until(lambda: writer._queue.active_ledger is None)
            held = [await producer.submit(b"held", sequence=number) for number in range(count + 1)]
            held[0].cancel()
            for bookie in log.bookies:
                bookie.speak()
            outcomes = await asyncio.gather(*held, sent, rotating, return_exceptions=True)
            assert [type(one) for one in outcomes[1:-2]] == [AppendRejectedError] * count
        assert len(writer._queue._failed) < rounds * count / 2
