"""How fast logs grow, as a monitor sees it, on a simulated cluster."""

from __future__ import annotations

import asyncio

import pytest

from dlog.inspection.activity import ActivityMonitor, entries_between
from dlog.model import MessageId
from dlog.testing import SimulatedCluster, simulate

ENDS = {1: 10, 3: 5, 5: 7}


@pytest.mark.parametrize(
    ("before", "tail", "entries"),
    [
        (MessageId(5, 2), MessageId(5, 7), 5),
        (MessageId(5, 2), MessageId(5, 2), 0),
        (MessageId(3, 5), MessageId(5, 2), 2),
        (MessageId(1, 4), MessageId(5, 2), 6 + 5 + 2),
        (MessageId(1, 4), MessageId(3, 1), 6 + 1),
        (MessageId(0, 7), MessageId(3, 1), 10 + 1),  # its ledger was trimmed: nothing is known of its end
    ],
)
def test_entries_from_one_tail_to_the_next(before: MessageId, tail: MessageId, entries: int) -> None:
    assert entries_between(ENDS, before, tail) == entries


def test_the_busiest_log_comes_first_and_rotations_do_not_confuse_the_rate() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            slow = await client.open_writer("slow", create=True)
            busy = await client.open_writer("busy", create=True)
            async with other.metadata_cache() as cache:
                await cache.follow_logs([other.name("slow"), other.name("busy")])
                monitor = ActivityMonitor(other, cache)
                first = await monitor.measure()
                assert {each.entries_per_s for each in first} == {None}
                began = asyncio.get_running_loop().time()
                for number in range(30):
                    await busy.append(b"%d" % number)
                    if number % 10 == 9:
                        await busy.rotate()
                await slow.append(b"one")
                await asyncio.sleep(began + 10.0 - asyncio.get_running_loop().time())
                found = await monitor.measure()
                assert [each.info.ref.name.name for each in found] == ["busy", "slow"]
                assert [round(each.entries_per_s or 0, 1) for each in found] == [3.0, 0.1]
                assert all(each.newest is not None and not each.newest.closed for each in found)
                assert len(cache.snapshot.ledgers) == 2
                for number in (0, 1, 2):
                    cluster.kill_bookie(number)
                found = await monitor.measure()
                assert [each.tail for each in found] == [None, None]
            busy.abort()
            slow.abort()

    simulate(main)


def test_the_newest_ledger_of_a_log_is_followed_no_longer_than_the_log() -> None:
    """A monitor runs for weeks, while logs are created and deleted."""

    async def main(cluster: SimulatedCluster) -> None:
        async with (
            await cluster.client() as client,
            await cluster.client() as other,
            other.metadata_cache() as cache,
        ):
            monitor = ActivityMonitor(other, cache)
            for number in range(5):
                log = f"log-{number}"
                await (await client.open_writer(log, create=True)).close()
                await cache.follow_logs([log])
                assert [each.newest is not None for each in await monitor.measure()] == [True]
                await client.delete(log)
                while (seen := cache.snapshot).contains_log(log):
                    await cache.wait_for_change(seen)
                await monitor.measure()
                assert not [key for key in cache._unwatch if isinstance(key, int)]

    simulate(main)
