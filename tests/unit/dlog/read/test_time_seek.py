"""The first message at or after a time, on a simulated cluster whose clock the test moves."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from dlog.client import LogClient
from dlog.core.metadata_update import Applied
from dlog.errors import DataLossError
from dlog.model import NO_MESSAGE, MessageId, SealFacts
from dlog.read.range import AtTime, read_range
from dlog.read.time_seek import first_at_or_after
from dlog.testing import SimulatedCluster, simulate
from ledger.errors import ConfigurationError
from ledger.model import LedgerId


async def found(client: LogClient, time_us: int, log: str = "orders") -> MessageId:
    ref = await client.logs.find(client.name(log))
    return await first_at_or_after(time_us, client.logs, ref, client.ledgers)


async def times_of(client: LogClient, log: str = "orders") -> list[tuple[int, MessageId]]:
    """Append time and id of the first message of each entry."""
    async with client.reader(log, until="latest", on_trimmed="skip") as reader:
        return [
            (message.append_time_us, message.id) async for message in reader if message.id.batch_index == 0
        ]


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_first_entry_whose_time_is_not_lower(seed: int) -> None:
    """Over rotations, takeovers and ledgers that stay empty; the last ledger is open, or the log has just begun."""

    async def main(cluster: SimulatedCluster) -> None:
        random = Random(seed)
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            start_us = client.ledgers.environment.wall_us()
            assert await found(client, start_us) == MessageId(writer.record.ledger_ids[0], 0, 0)
            for _ in range(60):
                await asyncio.sleep(random.choice((0.0, 0.001, 0.5)))
                step = random.random()
                if step < 0.1:
                    await writer.rotate()
                elif step < 0.15:
                    await writer.close()
                    writer = await client.open_writer("orders")
                elif step < 0.2:
                    writer.abort()
                    writer = await client.open_writer("orders")
                else:
                    await writer.append_many([b"a", b"b"][: random.randint(1, 2)])
            times = await times_of(client)
            assert [time for time, _ in times] == sorted(time for time, _ in times)
            assert writer.position is not None
            instants = [time + more for time, _ in times for more in (-1, 0, 1)]
            for time_us in (0, *random.sample(instants, 25), times[-1][0] + 10**9):
                at = bisect_left(times, (time_us, MessageId(0, 0, 0)))
                expected = times[at][1] if at < len(times) else writer.position
                assert await found(client, time_us) == expected
            writer.abort()

    simulate(main, seed=seed)


def test_what_is_trimmed_is_never_the_answer() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer("orders", create=True) as writer:
                ids = []
                for number in range(5):
                    ids.append(await writer.append(b"%d" % number))
                    await asyncio.sleep(1.0)
            await client.shrink("orders", ids[2])
            assert await found(client, 0) == ids[2]
            times = await times_of(client)
            assert await found(client, times[-1][0]) == ids[4]

    simulate(main)


def test_a_ledger_whose_seal_has_no_times_is_searched() -> None:
    """A takeover could not read the last entry: the seal says that its time is unknown."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            first = await writer.append(b"one")
            await asyncio.sleep(1.0)
            second = await writer.append(b"two")
            await writer.rotate()
            third = await writer.append(b"three")
            ref = await client.logs.find(client.name("orders"))
            read = await client.logs.read(ref)
            seal = writer.record.ledgers[0].seal or SealFacts(last_entry=1, message_count=2, byte_count=0)
            sealed = replace(read.value.ledgers[0], seal=replace(seal, first_append_us=0, last_append_us=0))
            record = replace(read.value, ledgers=(sealed, *read.value.ledgers[1:]), nonce=7)
            assert isinstance(await client.logs.compare_and_set(ref, record, read.version), Applied)
            times = await times_of(client)
            assert await found(client, times[0][0]) == first
            assert await found(client, times[1][0]) == second
            assert await found(client, times[1][0] + 1) == third
            writer.abort()

    simulate(main)


def test_a_lost_entry_that_had_to_be_read_is_data_loss() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer("orders", create=True) as writer:
                last = await writer.append(b"one")
                await writer.rotate()
                await writer.append(b"two")
            await client.ledgers.delete(LedgerId(last.ledger_id))
            with pytest.raises(DataLossError, match="cannot determine the position of a time"):
                await found(client, 0)

    simulate(main)


def at(time_us: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time_us)


def test_a_reader_begins_and_ends_at_times() -> None:
    """Also in the ledger that is open, where it is not sealed yet what the times have shown to be confirmed."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            writer = await client.open_writer("orders", create=True)
            for number in range(12):
                await writer.append_many([b"%d" % number, b"and more"])
                await asyncio.sleep(1.0)
                if number % 5 == 4:
                    await writer.rotate()
            times = await times_of(client)
            ids = [message_id for _, message_id in times]
            for first, end in ((0, 3), (2, 2), (4, 11), (3, 12), (11, 12)):
                start_us = times[first][0] - 400_000
                until_us = times[end][0] if end < 12 else times[-1][0] + 1
                async with other.reader("orders", at(start_us), until=at(until_us)) as reader:
                    found = [message.id async for message in reader]
                assert found[::2] == ids[first:end]
                assert len(found) == 2 * (end - first)
            with pytest.raises(ConfigurationError, match="nothing is between them"):
                other.reader("orders", at(times[7][0]), until=at(times[4][0]))
            async with other.reader("orders", at(times[-1][0] + 1)) as reader:
                last = await writer.append(b"new")
                assert (await anext(reader)).id == last
            async with other.reader("orders", at(0), until=ids[1]) as reader:
                assert (await anext(reader)).id == ids[0]
            writer.abort()

    simulate(main, seed=8)


def test_a_time_needs_a_zone_and_is_no_message() -> None:
    naive = datetime(2013, 1, 5, 12)  # noqa: DTZ001 - what is refused
    for said in ({"start": naive}, {"until": naive}):
        with pytest.raises(ConfigurationError, match="no time zone"):
            read_range(**said)
    with pytest.raises(ConfigurationError, match="after must be a message id"):
        read_range(after=at(5))
    assert read_range(start=at(-5)).start == AtTime(0)
    assert read_range(start=datetime.fromisoformat("1970-01-01T01:00:00.000007+01:00")).start == AtTime(7)


def test_after_no_message_is_from_the_earliest() -> None:
    assert read_range(after=NO_MESSAGE) == read_range(start="earliest")
