"""The same with real processes: bookies that are killed, stopped and cut off.

pytest examples/testing
"""

from __future__ import annotations

import asyncio

import dlog
from dlog.testing import RealCluster


def test_one_bookie_of_three_may_be_lost(dlog_cluster: RealCluster) -> None:
    with dlog.connect(dlog_cluster.uri) as client, client.open_writer("orders", create=True) as writer:
        writer.append(b"to all")
        dlog_cluster.kill(0)
        writer.append(b"to two")
        dlog_cluster.restart(0)
        read = [message.payload for message in client.reader("orders", until="latest")]
    assert read == [b"to all", b"to two"]


def test_an_append_waits_out_a_partition(dlog_cluster: RealCluster) -> None:
    async def append_meanwhile() -> None:
        async with (
            dlog.aio.connect(dlog_cluster.uri) as client,
            client.open_writer("orders", create=True) as writer,
        ):
            await writer.append(b"before")
            dlog_cluster.partition(0, 1)
            append = asyncio.create_task(writer.append(b"during"))
            await asyncio.sleep(0.5)
            assert not append.done()
            dlog_cluster.heal()
            await append

    asyncio.run(append_meanwhile())
