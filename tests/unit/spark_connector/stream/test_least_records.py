"""`minRecordsPerTrigger`: how long messages are waited with for more."""

from __future__ import annotations

import asyncio

from dlog.config import LogConfig
from dlog.testing import SimulatedCluster, simulate
from spark_connector.cluster import Cluster
from spark_connector.options.stream_options import parse_stream_options
from spark_connector.stream.planner import Limit, StreamPlanner

LOG = "orders"
TEN = Limit(rows_min=10)


def test_messages_that_were_trimmed_do_not_count_in_the_delay_of_later_ones() -> None:
    options = parse_stream_options(
        {"metadata": "memory:x", "log": LOG, "startingId": "earliest", "failOnDataLoss": "false"}
        | {"minRecordsPerTrigger": "10", "maxTriggerDelay": "1m"}
    )

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=LogConfig(deletion_grace_s=0.0)) as client:
            planner = StreamPlanner(options)
            ledgers = client.ledgers
            planner._cluster = Cluster(ledgers.store, ledgers, client.logs, ledgers.environment)
            async with client.open_writer(LOG, create=True) as writer:
                last = await writer.append(b"too few")
                start = await planner.initial()
                assert await planner.latest(start, TEN) == start
                await client.shrink(LOG, last._replace(entry_id=last.entry_id + 1))
                await asyncio.sleep(1)
                moved = await planner.latest(start, TEN)
                assert moved.logs[LOG].next > last
                await asyncio.sleep(3600)
                await writer.append(b"too few again")
                assert await planner.latest(moved, TEN) == moved
                await asyncio.sleep(61)
                assert await planner.latest(moved, TEN) != moved

    simulate(main)
