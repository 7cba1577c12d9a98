"""Readers against real bookies: tailing across rotations and takeovers, with bookies down, and never in the way."""

from __future__ import annotations

import asyncio
import statistics
from bisect import bisect

import pytest

import dlog.aio
from dlog.core.tailing import Gap
from dlog.errors import LogNotFoundError, TrimmedError, UnknownPositionError
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from ledger.errors import InvalidNameError

pytestmark = pytest.mark.integration


async def payloads(reader: dlog.aio.Reader, count: int | None = None) -> list[bytes | None]:
    found: list[bytes | None] = []
    async for message in reader:
        found.append(message.payload)
        if len(found) == count:
            break
    return found


async def test_a_tail_follows_the_writer_across_rotations(cluster: Standalone, log: str) -> None:
    """Everything, in order, once; ids rise; a few messages behind the writer, as a rule."""
    async with dlog.aio.connect(cluster.uri) as client, dlog.aio.connect(cluster.uri) as other:
        writer = await client.open_writer(log, create=True)
        loop = asyncio.get_running_loop()
        arrived: dict[MessageId, float] = {}

        async def follow() -> None:
            async with other.tail(log, start="earliest") as reader:
                async for message in reader:
                    arrived[message.id] = loop.time()
                    if message.payload == b"last":
                        return

        following = asyncio.create_task(follow())
        appended: dict[MessageId, float] = {}
        for number in range(120):
            message_id = await writer.append(b"%d" % number)
            appended[message_id] = loop.time()
            if number % 40 == 39:
                await writer.rotate()
        appended[await writer.append(b"last")] = loop.time()
        async with asyncio.timeout(30):
            await following
        await writer.close()
    assert list(arrived) == list(appended)
    assert len({message_id.ledger_id for message_id in arrived}) == 4
    # How many appends had returned when a message arrived, not counting its own and those before it.
    returned = list(appended.values())
    behind = [bisect(returned, arrived[each]) - number for number, each in enumerate(appended, start=1)]
    assert statistics.median(behind) < 10, behind


async def test_what_was_appended_is_seen_by_a_reader_opened_afterwards(cluster: Standalone, log: str) -> None:
    """Strict visibility: at once, without a second append, from another client."""
    async with dlog.aio.connect(cluster.uri) as client, dlog.aio.connect(cluster.uri) as other:
        writer = await client.open_writer(log, create=True)
        for number in range(20):
            await writer.append(b"%d" % number)
            async with other.reader(log, last=1, until="latest") as reader:
                assert await payloads(reader) == [b"%d" % number]
        await writer.close()


async def test_a_tail_goes_on_after_a_takeover(cluster: Standalone, log: str) -> None:
    """The new writer's messages follow the old one's; nothing is lost or doubled."""
    async with dlog.aio.connect(cluster.uri) as first, dlog.aio.connect(cluster.uri) as second:
        old = await first.open_writer(log, create=True)
        async with second.tail(log, start="earliest") as reader:
            await old.append(b"old")
            assert await payloads(reader, 1) == [b"old"]
            new = await second.open_writer(log, create=True)
            await new.append(b"new")
            async with asyncio.timeout(20):
                assert await payloads(reader, 1) == [b"new"]
            await new.close()


async def test_an_abandoned_writer_leaves_the_tail_waiting_with_a_reason(
    cluster: Standalone, log: str
) -> None:
    """Nothing is sealed, nothing is fenced by the reader; the next writer lets it go on."""
    async with dlog.aio.connect(cluster.uri) as client, dlog.aio.connect(cluster.uri) as other:
        writer = await client.open_writer(log, create=True)
        await writer.append(b"a")
        writer.abort()
        async with other.tail(log, start="earliest") as reader:
            assert await payloads(reader, 1) == [b"a"]
            async with asyncio.timeout(10):
                while reader.waits_for is None:  # noqa: ASYNC110  # a property, not an event
                    await asyncio.sleep(0.01)
            assert "read up to its last confirmed entry 0" in reader.waits_for
            assert reader.at_tail
            async with other.open_writer(log, create=True) as successor:
                await successor.append(b"b")
                async with asyncio.timeout(20):
                    assert await payloads(reader, 1) == [b"b"]


async def test_readers_change_nothing(cluster: Standalone, log: str) -> None:
    """Metadata is byte for byte the same afterwards, and the writer was not fenced (docs/log-semantics.md#i14)."""
    async with dlog.aio.connect(cluster.uri) as client, dlog.aio.connect(cluster.uri) as other:
        writer = await client.open_writer(log, create=True)
        await writer.append(b"a")
        await writer.rotate()
        await writer.append(b"b")
        info = await client.describe(log)
        store = client.ledgers.store
        ledgers = [listed.ledger_id for listed in info.record.ledgers]
        before = [await store.read_ledger(ledger_id) for ledger_id in ledgers]
        for until in ("latest", "latest"):
            async with other.reader(log, until=until) as reader:
                assert await payloads(reader) == [b"a", b"b"]
        assert [await store.read_ledger(ledger_id) for ledger_id in ledgers] == before
        assert await client.describe(log) == info
        await writer.append(b"c")
        await writer.close()


async def test_a_reader_outlives_a_dead_bookie(cluster: Standalone, log: str) -> None:
    """Old entries come from the replicas that are left, and the tail goes on in the changed ensemble."""
    async with dlog.aio.connect(cluster.uri) as client, dlog.aio.connect(cluster.uri) as other:
        writer = await client.open_writer(log, create=True)
        for number in range(50):
            await writer.append(b"%d" % number)
        await asyncio.to_thread(cluster.kill, 1)
        try:
            async with other.tail(log, start="earliest") as reader, asyncio.timeout(40):
                assert await payloads(reader, 50) == [b"%d" % number for number in range(50)]
                appending = asyncio.create_task(writer.append(b"with two"))
                assert await payloads(reader, 1) == [b"with two"]
                await appending
        finally:
            await asyncio.to_thread(cluster.restart, 1)
        await writer.close()


async def test_a_trimmed_log_begins_where_it_was_trimmed(cluster: Standalone, log: str) -> None:
    """Fail by default, skip or a gap if asked; earliest just works."""
    async with dlog.aio.connect(cluster.uri) as client:
        async with client.open_writer(log, create=True) as writer:
            ids = [await writer.append(b"%d" % number) for number in range(4)]
            await writer.rotate()
            ids.append(await writer.append(b"4"))
        await client.shrink(log, ids[2])
        async with client.reader(log, until="latest") as reader:
            assert await payloads(reader) == [b"2", b"3", b"4"]
        with pytest.raises(TrimmedError, match=str(ids[2])):
            await payloads(client.reader(log, start=ids[0]))
        async with client.reader(log, start=ids[0], until="latest", on_trimmed="skip") as reader:
            assert await payloads(reader) == [b"2", b"3", b"4"]
        async with client.reader(log, start=ids[0], until="latest", on_trimmed="gap") as reader:
            items = [item async for item in reader.items()]
            assert isinstance(items[0], Gap) and (items[0].first, items[0].resume_at) == (ids[0], ids[2])
        async with client.reader(log, last=2, until="latest") as reader:
            assert await payloads(reader) == [b"3", b"4"]


async def test_a_reader_fails_when_its_log_is_deleted(cluster: Standalone, log: str) -> None:
    """While it waits at the tail, and when it opens."""
    async with dlog.aio.connect(cluster.uri) as client, dlog.aio.connect(cluster.uri) as other:
        async with client.open_writer(log, create=True) as writer:
            await writer.append(b"a")
        async with other.tail(log, start="earliest") as reader:
            assert await payloads(reader, 1) == [b"a"]
            await client.delete(log)
            async with asyncio.timeout(20):
                with pytest.raises(LogNotFoundError):
                    await payloads(reader)
        with pytest.raises(LogNotFoundError, match=log):
            await payloads(other.reader(log))


async def test_bad_positions_are_refused_with_the_way_out(cluster: Standalone, log: str) -> None:
    """Text that is no id, an id above the log, a log that is not there."""
    async with dlog.aio.connect(cluster.uri) as client:
        async with client.open_writer(log, create=True) as writer:
            last = await writer.append(b"a")
        with pytest.raises(InvalidNameError, match="17:420:3"):
            client.reader(log, start="12-3")
        with pytest.raises(UnknownPositionError, match="'earliest' or at 'latest'"):
            await payloads(client.reader(log, start=MessageId(last.ledger_id + 1000, 0, 0)))
        with pytest.raises(InvalidNameError, match="a/b"):
            client.reader("a/b")


async def test_large_and_small_entries_come_back_whole(cluster: Standalone, log: str) -> None:
    """Batches of every size, read in batches; positions are those that the writer returned."""
    sizes = [1, 100, 5000, 60_000, 900_000, 3, 1_000_000, 10]
    async with dlog.aio.connect(cluster.uri) as client:
        async with client.open_writer(log, create=True) as writer:
            written = [
                (await writer.append_many([b"%d:" % size + b"x" * size, None, b""], keys=[b"k", None, b""]))[
                    0
                ]
                for size in sizes
            ]
        async with client.reader(log, until="latest") as reader:
            batches = [batch async for batch in reader.batches()]
    assert [batch.first_id for batch in batches] == written
    assert [list(batch.payloads) for batch in batches] == [
        [b"%d:" % size + b"x" * size, None, b""] for size in sizes
    ]
    assert all(list(batch.keys) == [b"k", None, b""] for batch in batches)
    times = [batch.append_time_us for batch in batches]
    assert times == sorted(times)


async def test_a_tail_outlives_all_its_bookies(cluster: Standalone, log: str) -> None:
    """With every bookie dead it waits and says for what; when they are back it goes on."""
    async with dlog.aio.connect(cluster.uri) as client, dlog.aio.connect(cluster.uri) as other:
        async with client.open_writer(log, create=True) as writer:
            await writer.append(b"a")
        unsealed = await client.open_writer(log, create=True)
        await unsealed.append(b"b")
        unsealed.abort()
        async with other.tail(log, start="earliest") as reader, asyncio.timeout(60):
            assert await payloads(reader, 2) == [b"a", b"b"]
            for index in range(3):
                await asyncio.to_thread(cluster.kill, index)
            while "too few of its bookies answer" not in (reader.waits_for or ""):  # noqa: ASYNC110  # a property
                await asyncio.sleep(0.01)
            for index in range(3):
                await asyncio.to_thread(cluster.restart, index)
            async with client.open_writer(log, create=True) as successor:
                await successor.append(b"c")
                assert await payloads(reader, 1) == [b"c"]
