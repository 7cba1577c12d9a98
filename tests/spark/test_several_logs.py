"""Batches of several logs, and limits of their tasks, on a real cluster and without a Spark session."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from dlog.client import LogClient, connect
from dlog.local.embedded import Standalone
from dlog.model import Message, MessageId
from spark_connector.errors import SparkSourceError
from spark_connector.read import planning
from tests.helpers.log.appended import appended
from tests.helpers.planned_batch import PlannedBatch as Batch
from tests.helpers.planned_stream import PlannedStream

pytestmark = [pytest.mark.spark, pytest.mark.integration]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]


def test_logs_are_named_or_matched(cluster: Standalone, three: dict[str, list[bytes]]) -> None:
    named = Batch(cluster.uri, logs="three-c,three-a")
    assert named.by_log() == {log: three[log] for log in ("three-a", "three-c")}
    assert Batch(cluster.uri, logsPattern="three-.").by_log() == three
    assert Batch(cluster.uri, logsPattern="three-[bc]").by_log().keys() == {"three-b", "three-c"}


def test_a_pattern_that_matches_no_log_reads_nothing(cluster: Standalone, on_cluster: OnCluster) -> None:
    """As Kafka's subscribePattern. The name of a log that was deleted is no log."""
    on_cluster(appended("once-there", b"0", create=True))
    on_cluster(lambda client: client.delete("once-there"))
    for pattern in ("once-there", "once", "never-there-.*"):
        assert Batch(cluster.uri, logsPattern=pattern).partitions == []


def test_a_log_that_disappears_while_a_pattern_is_planned_is_left_out(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch, on_cluster: OnCluster
) -> None:
    for log in ("going-a", "going-b"):
        on_cluster(appended(log, b"0", create=True))
    read_extents = planning.readable_extents

    async def late(logs: Any, ref: Any, *given: Any, **named: Any) -> Any:
        if ref.name.name == "going-b":
            async with await connect(cluster.uri) as client:
                await client.delete("going-b")
        return await read_extents(logs, ref, *given, **named)

    monkeypatch.setattr(planning, "readable_extents", late)
    assert Batch(cluster.uri, logsPattern="going-.").by_log() == {"going-a": [b"0"]}
    on_cluster(appended("going-b", b"0", create=True))
    with pytest.raises(SparkSourceError, match="DLOG_NOT_FOUND: log default/going-b"):
        Batch(cluster.uri, logs="going-a,going-b")


def test_small_logs_share_a_task(cluster: Standalone, three: dict[str, list[bytes]]) -> None:
    batch = Batch(cluster.uri, logsPattern="three-.")
    assert len(batch.partitions) == 1
    assert len(Batch(cluster.uri, logsPattern="three-.", minPartitions=6).partitions) >= 6


def test_each_log_has_its_own_bounds(
    cluster: Standalone, three: dict[str, list[bytes]], on_cluster: OnCluster
) -> None:
    at = on_cluster(lambda client: ids_of(client, "three-a"))
    found = Batch(
        cluster.uri,
        logsPattern="three-.",
        startingId=json.dumps({"three-a": str(at[123]), "three-b": "earliest", "three-c": "latest"}),
        endingId=json.dumps({"three-a": str(at[456]), "three-b": "latest", "three-c": "latest"}),
    )
    assert found.by_log() == {"three-a": three["three-a"][123:456], "three-b": three["three-b"]}


def test_a_time_in_a_log_without_messages_is_its_tail(cluster: Standalone, on_cluster: OnCluster) -> None:
    on_cluster(lambda client: client.create("never-written"))
    assert Batch(cluster.uri, log="never-written", startingTimestamp=0).rows == []
    assert Batch(cluster.uri, log="never-written", startingId="0:0:0").rows == []
    stream = PlannedStream(cluster.uri, log="never-written", startingId="0:0:0")
    on_cluster(appended("never-written", b"first"))
    assert stream.batch() == [b"first"]


def test_a_time_is_one_for_all_logs(cluster: Standalone, on_cluster: OnCluster) -> None:
    for log in ("timed-a", "timed-b"):
        on_cluster(appended(log, b"old", create=True))
    time.sleep(0.01)
    now_ms = time.time_ns() // 1_000_000
    for log in ("timed-a", "timed-b"):
        on_cluster(appended(log, b"new"))
    since = Batch(cluster.uri, logs="timed-a,timed-b", startingTimestamp=now_ms)
    assert since.by_log() == {"timed-a": [b"new"], "timed-b": [b"new"]}
    until = Batch(cluster.uri, logs="timed-a,timed-b", endingTimestamp=now_ms)
    assert until.by_log() == {"timed-a": [b"old"], "timed-b": [b"old"]}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"logs": "three-a,nothing"}, "DLOG_NOT_FOUND: log default/nothing does not exist"),
        (
            {"logsPattern": "three-.", "startingId": '{"three-a": "latest", "three-c": "latest"}'},
            "DLOG_BAD_OPTION: option 'startingId' lacks log 'three-b', which is read: give a position for each of "
            "three-a, three-b, three-c",
        ),
        (
            {"logsPattern": "three-a", "endingId": '{"three-a": "latest", "three-b": "latest"}'},
            "DLOG_BAD_OPTION: option 'endingId' has a position for log 'three-b', which is not read",
        ),
        (
            {"logs": "three-a,three-b", "startingId": '{"three-a": "earliest", "three-b": "9999999:0:0"}'},
            "DLOG_BAD_OPTION: startingId 9999999:0:0 is in a ledger that log three-b does not have",
        ),
    ],
)
def test_the_log_that_is_wrong_is_named(
    cluster: Standalone, three: dict[str, list[bytes]], options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SparkSourceError) as caught:
        Batch(cluster.uri, **options)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("most", [1, 7, 10, 33, 250, 999, 10**6])
def test_no_task_returns_more_messages_than_the_limit(
    cluster: Standalone, numbers: list[Message], most: int
) -> None:
    """Entries of ten messages: a task may begin and end inside one."""
    low, high = 13, 20 if most == 1 else 987
    batch = Batch(
        cluster.uri,
        log="numbers",
        startingId=numbers[low].id,
        endingId=numbers[high].id,
        maxRecordsPerPartition=most,
    )
    assert max(map(len, batch.tasks)) <= most
    assert [row["value"] for row in batch.rows] == [message.payload for message in numbers[low:high]]
    if most == 10**6:
        assert len(batch.tasks) == 1


def test_the_limit_holds_over_several_logs_and_with_other_limits(
    cluster: Standalone, three: dict[str, list[bytes]]
) -> None:
    batch = Batch(
        cluster.uri,
        logsPattern="three-.",
        maxRecordsPerPartition=50,
        minPartitions=20,
        targetPartitionBytes=900,
    )
    assert len(batch.tasks) >= 20
    assert all(0 < len(task) <= 50 for task in batch.tasks)
    assert batch.by_log() == three


def test_producers_are_columns_on_request(cluster: Standalone, on_cluster: OnCluster) -> None:
    """Null for what an ordinary append added."""

    async def fill(client: LogClient) -> None:
        async with client.open_writer("produced", create=True) as writer:
            await writer.append(b"plain")
            producer = await writer.producer("import")
            await producer.append_many([b"one", b"two"], first_sequence=1)
            await producer.append(b"nine", sequence=9)

    on_cluster(fill)
    rows = Batch(cluster.uri, log="produced", includeProducer="true").rows
    assert [(row["value"], row["sequence"]) for row in rows] == [
        (b"plain", None),
        (b"one", 1),
        (b"two", 2),
        (b"nine", 9),
    ]
    ids = [row["producer_id"] for row in rows]
    assert ids[0] is None and len(set(ids[1:])) == 1 and len(ids[1]) == 16
    assert "producer_id" not in Batch(cluster.uri, log="produced").rows[0]


async def ids_of(client: LogClient, log: str) -> list[MessageId]:
    async with client.reader(log, until="latest") as reader:
        return [message.id async for message in reader]
