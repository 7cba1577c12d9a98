"""Bookies that take what they are sent, slowly: a writer that has more under way waits, and none counts as failed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ledger.model import QuorumSizes
from ledger.writing.write_handle import WriteHandle
from tests.helpers.ledger.scripted_bookies import Cluster, ScriptedBookie, scripted_cluster, until

MIB = 1 << 20
ENTRY = bytes(MIB // 2)


async def append_all(handle: WriteHandle, count: int, in_flight: int) -> None:
    for _ in range(count):
        await handle.wait_for_capacity(in_flight)
        handle.submit(ENTRY)
        await asyncio.sleep(0)
    await handle.drain()


def throttle(bookies: Iterable[ScriptedBookie], bytes_per_s: float) -> None:
    for bookie in bookies:
        bookie.bytes_per_s = bytes_per_s


def frames_of(cluster: Cluster) -> list[int]:
    return [sum(each.startswith("add") for each in bookie.log) for bookie in cluster.bookies]


async def test_a_writer_may_have_more_under_way_than_the_send_queue_holds() -> None:
    async with scripted_cluster(3, send_queue_bytes_max=MIB) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        throttle(cluster.bookies, 20e6)
        async with asyncio.timeout(30):
            await append_all(handle, 60, 12 * MIB)
        await until(lambda: frames_of(cluster) == [60, 60, 60])


async def test_answers_that_come_late_because_other_ledgers_are_before_them_in_the_line_are_waited_for() -> (
    None
):
    """The last ledger's first answer comes after three timeouts."""
    async with scripted_cluster(3, add_timeout_s=0.5) as cluster:
        handles = [await cluster.client.create(QuorumSizes()) for _ in range(5)]
        throttle(cluster.bookies, 20e6)
        for handle in handles:
            for _ in range(16):
                handle.submit(ENTRY)
        async with asyncio.timeout(30):
            await asyncio.gather(*(handle.drain() for handle in handles))
        await until(lambda: frames_of(cluster) == [80, 80, 80])


async def test_a_bookie_that_answers_other_ledgers_only_counts_as_failed() -> None:
    """Others have adds in the line all the time, so it never becomes empty."""
    async with scripted_cluster(4, add_timeout_s=0.3) as cluster:
        others, handle = [await cluster.client.create(QuorumSizes()) for _ in range(2)]
        throttle(cluster.bookies, 20e6)
        await append_all(others, 4, MIB)
        await handle.add(b"zero")
        both = [each for each in cluster.ensemble(handle) if each in cluster.ensemble(others)]
        both[0].mute = lambda what: what == "add 1"
        going_on = asyncio.create_task(append_all(others, 120, 8 * MIB))
        await until(lambda: others.last_add_pushed > 12)
        await handle.add(b"one")
        await until(lambda: both[0] not in cluster.ensemble(handle))
        assert not going_on.done() and both[0] in cluster.ensemble(others)
        going_on.cancel()
        await asyncio.gather(going_on, return_exceptions=True)


async def test_a_bookie_that_is_slower_than_the_others_counts_as_failed() -> None:
    async with scripted_cluster(4, send_queue_bytes_max=4 * MIB) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        slow = cluster.ensemble(handle)[0]
        slow.bytes_per_s = 1e6
        async with asyncio.timeout(30):
            await append_all(handle, 60, 2 * MIB)
        await until(lambda: slow not in cluster.ensemble(handle))
