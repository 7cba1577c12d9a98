"""Streams of several logs on a real cluster, without a Spark session."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.local.embedded import Standalone
from dlog.metadata.store import LogMetadataStore
from dlog.model import MessageId
from ledger.metadata.drivers import open_store
from spark_connector import cluster as cluster_module
from spark_connector.errors import SparkSourceError
from spark_connector.stream import followed_log
from tests.helpers.log.appended import appended
from tests.helpers.log.filled_log import append_ledgers
from tests.helpers.log.unsure_store import UnsureStore
from tests.helpers.planned_batch import PlannedBatch as Batch
from tests.helpers.planned_stream import LONGER_THAN_KEPT_S, PlannedStream, through_json

pytestmark = [pytest.mark.spark, pytest.mark.integration]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]
Make = Callable[..., PlannedStream]


@pytest.fixture
def stream(cluster: Standalone) -> Iterator[Make]:
    opened: list[PlannedStream] = []

    def make(**options: object) -> PlannedStream:
        opened.append(PlannedStream(cluster.uri, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.reader.stop()


async def ids_of(client: LogClient, log: str) -> list[MessageId]:
    async with client.reader(log, until="latest") as reader:
        return [message.id async for message in reader]


def test_without_a_limit_a_batch_is_all_of_all_logs(stream: Make, three: dict[str, list[bytes]]) -> None:
    whole = stream(logsPattern="three-.")
    assert list(whole.at) == ["v", "o", "p", "g"]
    assert list(whole.at["p"]) == ["three-a", "three-b", "three-c"]
    assert whole.by_log() == three
    assert whole.batch() == []
    assert whole.reader.reportLatestOffset() == whole.at


@pytest.mark.parametrize("seed", range(6))
def test_limits_in_records_are_exact_and_no_log_starves(
    stream: Make, three: dict[str, list[bytes]], seed: int
) -> None:
    """And every micro-batch can be read again by a stream that was started anew."""
    choose = Random(seed)
    some = stream(logs="three-a,three-b,three-c", minPartitions=choose.choice((1, 5)))
    left = {log: list(values) for log, values in three.items()}
    while any(left.values()):
        rows = choose.randint(1, 150)
        start = some.at
        some.at = through_json(some.reader.latestOffset(start, ReadMaxRows(rows)))
        found = some.rows(start, some.at)
        pending = {log for log, values in left.items() if values}
        assert len(found) == min(rows, sum(map(len, left.values())))
        if rows >= len(pending):
            assert {row["log"] for row in found} == pending
        if choose.random() < 0.3:
            again = stream(logs="three-a,three-b,three-c")
            assert again.rows(start, some.at) == found
        for row in found:
            assert row["value"] == left[row["log"]].pop(0)
    assert some.latest() == some.at


def test_a_stream_goes_on_from_every_point_where_it_may_stop(
    stream: Make, three: dict[str, list[bytes]]
) -> None:
    """Spark repeats the batch that it was at, and continues after it; of the first one it has the end only."""
    some = stream(logsPattern="three-.", maxRecordsPerTrigger=97)
    points, batches = [some.at], list[list[dict[str, Any]]]()
    while (end := some.latest()) != some.at:
        batches.append(some.rows(some.at, end))
        points.append(end)
        some.at = end
    assert [len(batch) for batch in batches] == [97] * 6 + [84]
    for number, (start, end) in enumerate(pairwise(points)):
        again = stream(logsPattern="three-.", startingId="latest")
        assert again.rows(again.at if number == 0 else start, end) == batches[number]
        again.at = end
        left: dict[str, list[bytes]] = {}
        for row in (row for batch in batches[number + 1 :] for row in batch):
            left.setdefault(row["log"], []).append(row["value"])
        assert again.by_log() == left


def test_a_limit_of_one_goes_round(stream: Make, three: dict[str, list[bytes]]) -> None:
    some = stream(logsPattern="three-.", maxRecordsPerTrigger=1)
    first = [some.by_log() for _ in range(6)]
    assert first == [{f"three-{log}": [b"%d" % n]} for n in range(2) for log in "abc"]


def test_records_are_divided_in_proportion_to_what_is_pending(
    stream: Make, three: dict[str, list[bytes]]
) -> None:
    """600, 60 and 6 are pending: one message of each log, and of the rest what comes to it."""
    some = stream(logsPattern="three-.", maxRecordsPerTrigger=111)
    found = {log: len(values) for log, values in some.by_log().items()}
    assert found == {"three-a": 98, "three-b": 11, "three-c": 2}


def test_a_limit_in_bytes_is_kept_and_no_log_starves(stream: Make, on_cluster: OnCluster) -> None:
    """Entries of 1,000 bytes in one log, of 10 in the other: of 1,100 bytes the share of the latter is small."""
    on_cluster(appended("wide", *[b"w" * 1000] * 20, create=True))
    on_cluster(appended("narrow", *[b"n" * 10] * 20, create=True))
    some = stream(logs="wide,narrow", maxBytesPerTrigger=1100)
    batches = []
    while found := some.by_log():
        batches.append({log: len(values) for log, values in found.items()})
        assert len(batches) < 100
    assert all(each.get("wide", 0) <= 1 for each in batches), "two would be 2,000 bytes"
    assert (
        sum(each.get("wide", 0) for each in batches) == sum(each.get("narrow", 0) for each in batches) == 20
    )
    assert {log for each in batches[:2] for log in each} == {"wide", "narrow"}


def test_entries_larger_than_a_share_take_turns(stream: Make, on_cluster: OnCluster) -> None:
    """One fits the limit, two do not."""
    logs = ["turn-a", "turn-b", "turn-c"]
    for log in logs:
        on_cluster(appended(log, b"0" * 1000, b"1" * 1000, create=True))
    some = stream(logsPattern="turn-.", maxBytesPerTrigger=1500)
    found = [some.by_log() for _ in range(7)]
    assert [list(each) for each in found] == [[log] for log in logs * 2] + [[]]
    assert all(len(values) == 1 for each in found for values in each.values())


def test_an_entry_above_the_limit_is_read_alone(stream: Make, on_cluster: OnCluster) -> None:
    for log in ("huge-a", "huge-b"):
        on_cluster(appended(log, b"x" * 5000, b"y" * 5000, create=True))
    some = stream(logs="huge-a,huge-b", maxBytesPerTrigger=100)
    found = [some.by_log() for _ in range(5)]
    assert [{log: len(values) for log, values in each.items()} for each in found] == [
        {"huge-a": 1},
        {"huge-b": 1},
        {"huge-a": 1},
        {"huge-b": 1},
        {},
    ]


def test_a_log_that_appears_later_begins_at_its_earliest(stream: Make, on_cluster: OnCluster) -> None:
    """Although the others begin at their tails. A batch that is repeated has the same of it."""
    on_cluster(appended("grow-a", b"before", create=True))
    some = stream(logsPattern="grow-.", startingId="latest")
    assert some.by_log() == {}
    on_cluster(appended("grow-b", b"0", b"1", create=True))
    on_cluster(appended("grow-a", b"2"))
    time.sleep(LONGER_THAN_KEPT_S)
    start = some.at
    assert some.by_log() == {"grow-a": [b"2"], "grow-b": [b"0", b"1"]}
    end = some.at
    on_cluster(appended("grow-b", b"3"))
    again = stream(logsPattern="grow-.", startingId="latest")
    assert sorted(again.between(again.at, end)) == sorted(again.between(start, end)) == [b"0", b"1", b"2"]
    again.at = end
    assert again.by_log() == {"grow-b": [b"3"]}


def test_a_log_that_disappears_is_reported_or_left_out(stream: Make, on_cluster: OnCluster) -> None:
    for log in ("fade-a", "fade-b"):
        on_cluster(appended(log, b"0", create=True))
    strict, lenient = stream(logsPattern="fade-."), stream(logsPattern="fade-.", failOnDataLoss="false")
    assert strict.by_log() == lenient.by_log() == {"fade-a": [b"0"], "fade-b": [b"0"]}
    on_cluster(appended("fade-a", b"1"))
    on_cluster(appended("fade-b", b"1"))
    time.sleep(LONGER_THAN_KEPT_S)
    planned = strict.latest()
    on_cluster(lambda client: client.delete("fade-b"))
    time.sleep(LONGER_THAN_KEPT_S)
    sentence = (
        "DLOG_DATA_LOSS: log default/fade-b lacks messages that this stream has not read: it was deleted;"
    )
    with pytest.raises(SparkSourceError, match=sentence):
        strict.latest()
    with pytest.raises(SparkSourceError, match=sentence):
        strict.between(strict.at, planned)
    assert lenient.between(lenient.at, planned) == [b"1"]
    assert lenient.by_log() == {"fade-a": [b"1"]}
    assert list(lenient.at["p"]) == ["fade-a"]
    on_cluster(appended("fade-b", b"2", create=True))
    time.sleep(LONGER_THAN_KEPT_S)
    assert lenient.by_log() == {"fade-b": [b"2"]}


def test_nothing_is_kept_of_logs_that_were_deleted(stream: Make, on_cluster: OnCluster) -> None:
    some = stream(logsPattern="daily-.", failOnDataLoss="false")
    for log in ("daily-1", "daily-2", "daily-3"):
        on_cluster(appended(log, b"0", create=True))
        time.sleep(LONGER_THAN_KEPT_S)
        assert some.by_log() == {log: [b"0"]}
        on_cluster(lambda client, log=log: client.delete(log))
        time.sleep(LONGER_THAN_KEPT_S)
        assert some.by_log() == {}
    assert some.reader._serving is not None
    assert list(some.reader._serving[1]._followed) == []


def test_one_of_them_is_created_anew(stream: Make, on_cluster: OnCluster) -> None:
    for log in ("anew-a", "anew-b"):
        on_cluster(appended(log, b"0", create=True))
    strict, lenient = stream(logs="anew-a,anew-b"), stream(logs="anew-a,anew-b", failOnDataLoss="false")
    assert strict.by_log() == lenient.by_log()
    on_cluster(lambda client: client.delete("anew-b"))
    time.sleep(LONGER_THAN_KEPT_S)
    with pytest.raises(SparkSourceError, match="DLOG_NOT_FOUND: log default/anew-b does not exist"):
        lenient.latest()
    on_cluster(appended("anew-b", b"1", create=True))
    time.sleep(LONGER_THAN_KEPT_S)
    with pytest.raises(
        SparkSourceError, match=r"DLOG_DATA_LOSS: log default/anew-b .* deleted and created again"
    ):
        strict.latest()
    start = lenient.at
    assert lenient.by_log() == {"anew-b": [b"1"]}
    on_cluster(appended("anew-b", b"2"))
    again = stream(logs="anew-a,anew-b", failOnDataLoss="false")
    assert again.between(start, lenient.at) == [b"1"]


def test_one_of_them_was_trimmed(stream: Make, on_cluster: OnCluster) -> None:
    for log in ("cut-a", "cut-b"):
        on_cluster(appended(log, b"0", create=True))
    strict, lenient = stream(logsPattern="cut-."), stream(logsPattern="cut-.", failOnDataLoss="false")
    assert strict.by_log() == lenient.by_log()
    on_cluster(appended("cut-a", b"1", b"2"))
    [_, last] = on_cluster(appended("cut-b", b"1", b"2"))
    on_cluster(lambda client: client.shrink("cut-b", last))
    time.sleep(LONGER_THAN_KEPT_S)
    with pytest.raises(SparkSourceError, match=r"DLOG_DATA_LOSS: log default/cut-b .* were trimmed"):
        strict.latest()
    assert lenient.by_log() == {"cut-a": [b"1", b"2"], "cut-b": [b"2"]}


def test_what_is_there_now_ends_a_query_that_asks_for_it(stream: Make, on_cluster: OnCluster) -> None:
    """Neither messages nor logs that come later are read."""
    for log in ("now-a", "now-b"):
        on_cluster(appended(log, b"0", b"1", create=True))
    now = stream(logsPattern="now-.", maxRecordsPerTrigger=3)
    now.reader.prepareForTriggerAvailableNow()
    on_cluster(appended("now-a", b"2"))
    on_cluster(appended("now-c", b"2", create=True))
    time.sleep(LONGER_THAN_KEPT_S)
    assert sorted(now.batch() + now.batch()) == [b"0", b"0", b"1", b"1"]
    assert now.batch() == []
    later = stream(logsPattern="now-.")
    later.at = now.at
    assert later.by_log() == {"now-a": [b"2"], "now-c": [b"2"]}


def test_a_stream_may_get_further_logs_and_lose_none(stream: Make, three: dict[str, list[bytes]]) -> None:
    one = stream(log="three-b")
    one.batch()
    two = stream(logs="three-b,three-c", startingId="latest")
    two.at = one.at
    assert two.by_log() == {"three-c": three["three-c"]}
    one.at = two.at
    with pytest.raises(
        SparkSourceError, match="DLOG_BAD_OPTION: the checkpoint is of three-b, three-c, not of three-b: read"
    ):
        one.latest()
    other = stream(logsPattern="three-c")
    other.at = two.at
    with pytest.raises(SparkSourceError, match=r"not of logs that match 'three-c': read these logs, too"):
        other.latest()


def test_each_log_begins_where_it_is_told_to(
    stream: Make, three: dict[str, list[bytes]], on_cluster: OnCluster
) -> None:
    at = on_cluster(lambda client: ids_of(client, "three-b"))
    starts = {"three-a": "latest", "three-b": str(at[42]), "three-c": "earliest"}
    some = stream(logsPattern="three-.", startingId=json.dumps(starts))
    assert some.by_log() == {"three-b": three["three-b"][42:], "three-c": three["three-c"]}
    some = stream(logsPattern="three-.", startingId=json.dumps({"three-a": "latest", "three-b": "latest"}))
    with pytest.raises(SparkSourceError, match="'startingId' lacks log 'three-c', which is read"):
        some.latest()


def test_messages_of_all_logs_count_for_the_least_of_a_batch(stream: Make, on_cluster: OnCluster) -> None:
    for log in ("least-a", "least-b"):
        on_cluster(appended(log, b"0", create=True))
    some = stream(logsPattern="least-.", minRecordsPerTrigger=3, maxTriggerDelay="1h")
    assert some.by_log() == {}
    on_cluster(appended("least-b", b"1"))
    time.sleep(LONGER_THAN_KEPT_S)
    assert some.by_log() == {"least-a": [b"0"], "least-b": [b"0", b"1"]}


def test_a_stream_is_one_connection_for_all_its_logs(
    stream: Make, three: dict[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, open_store = [], cluster_module.open_store

    async def counted(*given: Any) -> Any:
        opened.append(given)
        return await open_store(*given)

    monkeypatch.setattr(cluster_module, "open_store", counted)
    some = stream(logs="three-a,three-b,three-c")
    start, some.at = some.at, some.latest()
    assert len(some.reader.partitions(start, some.at)) == 1
    assert len(opened) == 1


def test_an_idle_stream_reads_one_record_of_each_log_in_a_trigger(
    stream: Make, three: dict[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark asks where a micro-batch ends, and then where the logs end. Names of logs that are known are not read."""
    some = stream(logsPattern="three-.", startingId="latest")
    assert some.latest() == some.at
    reads = Counter[str]()
    for name in ("find", "read"):
        monkeypatch.setattr(LogMetadataStore, name, counting(reads, name, getattr(LogMetadataStore, name)))
    monkeypatch.setattr(followed_log, "KEPT_S", 0.0)
    monkeypatch.setattr(followed_log, "REPORTED_S", 60.0)
    assert some.latest() == some.at
    assert some.reader.reportLatestOffset() == some.at
    assert reads == {"read": 3}


def counting(calls: Counter[str], name: str, method: Any) -> Any:
    async def counted(*given: Any, **named: Any) -> Any:
        calls[name] += 1
        return await method(*given, **named)

    return counted


def test_tasks_of_a_stream_keep_to_the_limit_in_messages(stream: Make, three: dict[str, list[bytes]]) -> None:
    some = stream(logsPattern="three-.", maxRecordsPerPartition=70)
    start, some.at = some.at, some.latest()
    tasks = [
        sum(batch.num_rows for batch in some.reader.read(partition))
        for partition in some.reader.partitions(start, some.at)
    ]
    assert sum(tasks) == 666 and max(tasks) <= 70


def test_a_log_that_is_being_deleted_is_none(
    cluster: Standalone, stream: Make, on_cluster: OnCluster
) -> None:
    """Bookies forget deletions, so its ledgers are kept for its grace. Its record lists none, and is no empty log."""
    for log in ("ending-a", "ending-b"):
        on_cluster(appended(log, b"0", create=True))
    named, matched = stream(log="ending-a"), stream(logsPattern="ending-.")
    left_out = stream(logsPattern="ending-.", failOnDataLoss="false")
    assert named.batch() == [b"0"] and matched.by_log() == left_out.by_log()

    async def begin_to_delete() -> None:
        store = UnsureStore(await open_store(cluster.uri))
        store.forgetful = True
        async with LogClient(store, config=LogConfig()) as client:
            await client.start()
            async with client.open_writer("ending-a") as writer:
                await writer.append(b"1")
                writer.abort()
            assert await client.delete("ending-a") is False

    asyncio.run(begin_to_delete())
    time.sleep(LONGER_THAN_KEPT_S)
    sentence = "DLOG_NOT_FOUND: log default/ending-a is being deleted"
    for options in ({}, {"startingTimestamp": "0"}):
        with pytest.raises(SparkSourceError, match=sentence):
            Batch(cluster.uri, log="ending-a", **options)
    assert Batch(cluster.uri, logsPattern="ending-.").by_log() == {"ending-b": [b"0"]}
    with pytest.raises(SparkSourceError, match=sentence):
        named.latest()
    with pytest.raises(
        SparkSourceError, match=r"DLOG_DATA_LOSS: log default/ending-a lacks .* it was deleted"
    ):
        matched.latest()
    assert left_out.by_log() == {}
    assert list(left_out.at["p"]) == ["ending-b"]


def test_a_pattern_without_logs_waits_for_the_first_one(stream: Make, on_cluster: OnCluster) -> None:
    some = stream(logsPattern="first-of-all-.")
    assert some.at == {"v": 1, "o": {}, "p": {}, "g": {}}
    assert some.latest() == some.at
    on_cluster(appended("first-of-all-1", b"0", create=True))
    time.sleep(LONGER_THAN_KEPT_S)
    assert some.by_log() == {"first-of-all-1": [b"0"]}


def test_the_end_of_a_long_log_is_found_without_its_list(
    stream: Make, on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark asks for it after each micro-batch."""

    async def fill(client: LogClient) -> None:
        await append_ledgers(client, "many-ledgers", ledgers=12, entries=1, batch=1)

    on_cluster(fill)
    some = stream(log="many-ledgers", startingId="latest")
    from dlog.ledger_list.ledger_list import LedgerList

    walked, walk = [], LedgerList.walk

    async def counted(listed: LedgerList, *given: int) -> Any:
        async for each in walk(listed, *given):
            walked.append(each)
            yield each

    monkeypatch.setattr(LedgerList, "walk", counted)
    assert some.reader.reportLatestOffset() == some.at
    assert 0 < len(walked) < 3
    assert some.reader.latestOffset(some.at, ReadAllAvailable()) == some.at
    assert len(walked) < 6
