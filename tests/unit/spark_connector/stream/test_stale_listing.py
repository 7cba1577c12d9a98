"""A listing that lacks a log of the checkpoint is no proof that the log was deleted: only a read of the log is."""

from __future__ import annotations

import asyncio

import pytest

from dlog.client import LogClient
from dlog.testing import SimulatedCluster, simulate
from spark_connector.cluster import Cluster
from spark_connector.errors import StreamDataLossError
from spark_connector.options.stream_options import parse_stream_options
from spark_connector.stream.followed_log import KEPT_S
from spark_connector.stream.planner import Limit, StreamPlanner


async def append(client: LogClient, log: str, *payloads: bytes) -> None:
    async with client.open_writer(log, create=True) as writer:
        await writer.append_many(list(payloads))


def planner_of(client: LogClient, fail_on_data_loss: str) -> StreamPlanner:
    given = {"metadata": "memory:x", "logsPattern": "orders-.*", "startingId": "earliest"}
    planner = StreamPlanner(parse_stream_options(given | {"failOnDataLoss": fail_on_data_loss}))
    ledgers = client.ledgers
    planner._cluster = Cluster(ledgers.store, ledgers, client.logs, ledgers.environment)
    return planner


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_restarted_stream_keeps_a_log_that_the_first_listing_lacks(
    fail_on_data_loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await append(client, "orders-a", b"0")
            await append(client, "orders-b", b"0", b"1")
            before = planner_of(client, fail_on_data_loss)
            end = await before.latest(await before.initial(), Limit())
            assert sorted(end.logs) == ["orders-a", "orders-b"]

            async def stale(namespace: str) -> list[str]:
                return ["orders-a"]

            restarted = planner_of(client, fail_on_data_loss)
            with monkeypatch.context() as patch:
                patch.setattr(client.logs, "used_names", stale)
                assert await restarted.latest(end, Limit()) == end
                await append(client, "orders-b", b"2")
                await asyncio.sleep(2 * KEPT_S)
                later = await restarted.latest(end, Limit())
            assert later.logs["orders-a"] == end.logs["orders-a"]
            [extent] = (await restarted.partitions(end, later)).partitions[0].extents
            assert extent.log == "orders-b"
            assert end.logs["orders-b"].next <= extent.start < later.logs["orders-b"].next

    simulate(main)


def test_a_log_that_was_deleted_before_the_restart_is_still_found_to_be() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await append(client, "orders-a", b"0")
            await append(client, "orders-b", b"0")
            before = planner_of(client, "true")
            end = await before.latest(await before.initial(), Limit())
            await client.delete("orders-b")
            with pytest.raises(StreamDataLossError, match=r"orders-b .* was deleted"):
                await planner_of(client, "true").latest(end, Limit())
            assert sorted((await planner_of(client, "false").latest(end, Limit())).logs) == ["orders-a"]

    simulate(main)
