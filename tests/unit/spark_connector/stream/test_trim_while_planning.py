"""A trim while a micro-batch is planned takes ledgers that were found a moment ago: what is left is planned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.model import MessageId
from dlog.testing import SimulatedCluster, simulate
from ledger.errors import LedgerNotFoundError
from spark_connector.cluster import Cluster
from spark_connector.errors import PartitionDataLossError, StreamDataLossError
from spark_connector.options.stream_options import parse_stream_options
from spark_connector.stream.planner import Limit, StreamPlanner

LOG = "orders"
LIMITS: list[dict[str, str]] = [
    {},
    {"maxRecordsPerTrigger": "3"},
    {"maxBytesPerTrigger": "60"},
    {"minRecordsPerTrigger": "1"},
    {"maxRecordsPerPartition": "3"},
]

Scene = Callable[[LogClient, StreamPlanner, Limit, MessageId], Awaitable[None]]


def play(scene: Scene, **given: str) -> None:
    """With a stream over four ledgers of four messages, and the id of the only one in the ledger after them."""
    options = parse_stream_options({"metadata": "memory:x", "log": LOG, "startingId": "earliest"} | given)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=LogConfig(deletion_grace_s=0.0)) as client:
            async with client.open_writer(LOG, create=True) as writer:
                for _ in range(4):
                    await writer.append_many([b"old"] * 4)
                    await writer.rotate()
                last = await writer.append(b"last")
            planner = StreamPlanner(options)
            ledgers = client.ledgers
            planner._cluster = Cluster(ledgers.store, ledgers, client.logs, ledgers.environment)
            limit = Limit(rows_max=options.rows_max, bytes_max=options.bytes_max, rows_min=options.rows_min)
            await scene(client, planner, limit, last)

    simulate(main)


def trimmed_after(planner: StreamPlanner, step: str, client: LogClient, before: MessageId) -> None:
    """The log's owner trims below `before` once the planner has done this step for the first time."""
    done = getattr(planner, step)

    async def then_trimmed(*given: Any) -> object:
        found = await done(*given)
        setattr(planner, step, done)
        await client.shrink(LOG, before)
        await client.collect(LOG)
        return found

    setattr(planner, step, then_trimmed)


@pytest.mark.parametrize("options", LIMITS, ids=str)
def test_a_trim_before_the_limit_is_found_is_passed_over(options: dict[str, str]) -> None:
    async def scene(client: LogClient, planner: StreamPlanner, limit: Limit, last: MessageId) -> None:
        start = await planner.initial()
        trimmed_after(planner, "_pending", client, last)
        end = await planner.latest(start, limit)
        plan = await planner.partitions(start, end)
        assert end.logs[LOG].next > last
        [partition] = plan.partitions
        [extent] = partition.extents
        assert (extent.start, extent.end) == (MessageId(last.ledger_id, 0, 0), end.logs[LOG].next)

    play(scene, failOnDataLoss="false", **options)


@pytest.mark.parametrize("options", LIMITS, ids=str)
def test_a_trim_before_the_partitions_are_cut_is_passed_over(options: dict[str, str]) -> None:
    async def scene(client: LogClient, planner: StreamPlanner, limit: Limit, last: MessageId) -> None:
        start = await planner.initial()
        end = await planner.latest(start, Limit())
        trimmed_after(planner, "_parts", client, last)
        await planner.partitions(start, end)

    play(scene, failOnDataLoss="false", **options)


def test_a_trim_while_a_micro_batch_is_planned_is_reported_if_that_is_wanted() -> None:
    async def scene(client: LogClient, planner: StreamPlanner, limit: Limit, last: MessageId) -> None:
        start = await planner.initial()
        trimmed_after(planner, "_pending", client, last)
        with pytest.raises(StreamDataLossError, match="were trimmed"):
            await planner.latest(start, limit)

    play(scene, failOnDataLoss="true", maxRecordsPerTrigger="3")


def test_a_ledger_that_is_missing_is_reported_whatever_the_options_are() -> None:
    async def scene(client: LogClient, planner: StreamPlanner, limit: Limit, last: MessageId) -> None:
        start = await planner.initial()
        await client.ledgers.delete((await client.describe(LOG)).record.ledgers[0].ledger_id)
        with pytest.raises(PartitionDataLossError) as raised:
            await planner.latest(start, limit)
        assert isinstance(raised.value.__cause__, LedgerNotFoundError)

    play(scene, failOnDataLoss="false", maxRecordsPerTrigger="3")
