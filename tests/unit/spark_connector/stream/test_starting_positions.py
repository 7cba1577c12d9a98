"""`startingId` must fit the logs when a stream begins, and not when it is started again."""

from __future__ import annotations

import json

import pytest

from dlog.client import LogClient
from dlog.core.tailing import Gap
from dlog.errors import UnknownPositionError
from dlog.testing import SimulatedCluster, simulate
from spark_connector.cluster import Cluster
from spark_connector.errors import BadOptionError
from spark_connector.options.stream_options import parse_stream_options
from spark_connector.stream.planner import Limit, StreamPlanner


async def append(client: LogClient, log: str, *payloads: bytes) -> None:
    async with client.open_writer(log, create=True) as writer:
        await writer.append_many(list(payloads))


def planner_of(client: LogClient, starting: str, **logs: str) -> StreamPlanner:
    given = {"metadata": "memory:x", "failOnDataLoss": "false", "startingId": starting}
    planner = StreamPlanner(parse_stream_options(given | (logs or {"logsPattern": "orders-.*"})))
    ledgers = client.ledgers
    planner._cluster = Cluster(ledgers.store, ledgers, client.logs, ledgers.environment)
    return planner


def positions(**starts: str) -> str:
    return json.dumps({f"orders-{log}": position for log, position in starts.items()})


def test_the_first_micro_batch_is_repeated_although_other_logs_exist_by_then() -> None:
    """Spark has logged where it ends, and asks anew where the stream begins: one log has come, one was deleted."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await append(client, "orders-a", b"0", b"1")
            await append(client, "orders-b", b"0")
            starting = positions(a="earliest", b="latest")
            before = planner_of(client, starting)
            end = await before.latest(await before.initial(), Limit())
            await append(client, "orders-c", b"0")
            await client.delete("orders-b")

            restarted = planner_of(client, starting)
            start = await restarted.initial()
            [partition] = (await restarted.partitions(start, end)).partitions
            assert [(part.log, part.end) for part in partition.extents] == [
                ("orders-a", end.logs["orders-a"].next)
            ]
            later = await restarted.latest(end, Limit())
            assert sorted(later.logs) == ["orders-a", "orders-c"]
            [partition] = (await restarted.partitions(end, later)).partitions
            assert [part.log for part in partition.extents] == ["orders-c"]

    simulate(main)


def test_a_log_that_is_new_and_empty_by_then_is_read_from_its_beginning() -> None:
    """The ledger of `startingId` was one of the deleted log."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await append(client, "orders-a", b"0", b"1")
            async with client.reader("orders-a", until="latest") as reader:
                first = str((await anext(reader)).id)
            before = planner_of(client, first, log="orders-a")
            end = await before.latest(await before.initial(), Limit())
            await client.delete("orders-a")
            await client.create("orders-a")

            restarted = planner_of(client, first, log="orders-a")
            assert not (await restarted.partitions(await restarted.initial(), end)).partitions
            later = await restarted.latest(end, Limit())
            assert later.logs["orders-a"].log_uuid != end.logs["orders-a"].log_uuid

            fresh = planner_of(client, first, log="orders-a")
            with pytest.raises(UnknownPositionError, match="is in a ledger that log orders-a does not have"):
                await fresh.latest(await fresh.initial(), Limit())

    simulate(main)


@pytest.mark.parametrize(
    ("starts", "sentence"),
    [
        ({"a": "earliest"}, "'startingId' lacks log 'orders-b', which is read"),
        (
            {"a": "latest", "b": "latest", "c": "latest"},
            "has a position for log 'orders-c', which is not read",
        ),
    ],
)
def test_a_stream_does_not_begin_with_other_logs(starts: dict[str, str], sentence: str) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await append(client, "orders-a", b"0")
            await append(client, "orders-b", b"0")
            planner = planner_of(client, positions(**starts))
            start = await planner.initial()
            for _ in range(2):
                with pytest.raises(BadOptionError, match=sentence):
                    await planner.latest(start, Limit())

    simulate(main)


def test_a_stream_begins_after_a_last_ledger_that_is_lost() -> None:
    """At the position of a reader that has passed it, as of `resume_at`."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await append(client, "orders-a", b"0", b"1")
            [lost] = await client.list_ledgers("orders-a")
            await client.ledgers.delete(lost.ledger_id)
            async with client.reader("orders-a", until="latest", on_data_loss="gap") as reader:
                assert [type(item) async for item in reader.items()] == [Gap]
                after = reader.position
            planner = planner_of(client, str(after), log="orders-a")
            start = await planner.initial()
            assert await planner.latest(start, Limit()) == start
            await append(client, "orders-a", b"2")
            planner = planner_of(client, str(after), log="orders-a")
            end = await planner.latest(await planner.initial(), Limit())
            [partition] = (await planner.partitions(start, end)).partitions
            [part] = partition.extents
            assert part.ledger_id > lost.ledger_id and part.messages in (None, 1)

    simulate(main)
