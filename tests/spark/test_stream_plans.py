"""What a stream plans, asked as Spark asks, on a real cluster and without a session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import dlog
from dlog.client import LogClient
from dlog.local.embedded import Standalone
from dlog.model import Message, MessageId
from ledger.client import LedgerClient
from ledger.model import EntryId
from ledger.reading.read_handle import ReadHandle
from spark_connector.errors import SparkSourceError
from tests.helpers.log.appended import appended
from tests.helpers.planned_stream import LONGER_THAN_KEPT_S, through_json
from tests.helpers.planned_stream import PlannedStream as Stream

pytestmark = [pytest.mark.spark, pytest.mark.integration]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]


@pytest.fixture
def stream(cluster: Standalone) -> Iterator[Callable[..., Stream]]:
    opened: list[Stream] = []

    def make(log: str, **options: object) -> Stream:
        opened.append(Stream(cluster.uri, log=log, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.reader.stop()


def payloads(numbers: list[Message]) -> list[bytes | None]:
    return [message.payload for message in numbers]


def test_without_a_limit_a_batch_is_all_there_is(
    stream: Callable[..., Stream], numbers: list[Message]
) -> None:
    whole = stream("numbers")
    assert whole.batch() == payloads(numbers)
    assert whole.batch() == []
    assert whole.reader.reportLatestOffset() == whole.at


def test_a_stream_may_begin_at_a_time(stream: Callable[..., Stream], numbers: list[Message]) -> None:
    time_us = numbers[640].append_time_us
    text = datetime.fromtimestamp(time_us / 1e6, UTC).isoformat()
    assert stream("numbers", startingTimestamp=text).batch() == [
        message.payload for message in numbers if message.append_time_us >= time_us
    ]


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_limits_batches_are_the_log(
    stream: Callable[..., Stream], numbers: list[Message], seed: int
) -> None:
    choose = Random(seed)
    first = choose.randrange(1000)
    some = stream("numbers", startingId=numbers[first].id, minPartitions=choose.choice((1, 5)))
    found: list[bytes] = []
    while len(found) < 1000 - first:
        rows = choose.randint(1, 400)
        start = some.at
        some.at = through_json(some.reader.latestOffset(start, ReadMaxRows(rows)))
        batch = some.between(start, some.at)
        assert len(batch) == min(rows, 1000 - first - len(found))
        found += batch
    assert found == payloads(numbers)[first:]
    assert some.latest() == some.at


def test_a_limit_in_bytes_ends_a_batch_at_an_entry(
    stream: Callable[..., Stream], numbers: list[Message]
) -> None:
    """Entries of ten messages; those of the first ledger have some 110 bytes. One entry is read, however large."""
    sizes = {}
    for limit in (1, 2500, 10**9):
        some = stream("numbers", maxBytesPerTrigger=limit)
        batches = [some.batch() for _ in range(3)]
        assert [each for batch in batches for each in batch] == payloads(numbers)[: sum(map(len, batches))]
        sizes[limit] = [len(batch) for batch in batches]
    assert sizes[1] == [10, 10, 10]
    assert all(size % 10 == 0 and 20 < size < 500 for size in sizes[2500])
    assert sizes[10**9] == [1000, 0, 0]


def test_spark_may_ask_for_all_whatever_the_options_say(
    stream: Callable[..., Stream], numbers: list[Message]
) -> None:
    some = stream("numbers", maxRecordsPerTrigger=7)
    assert len(some.batch()) == 7
    end = some.reader.latestOffset(some.at, ReadAllAvailable())
    assert len(some.between(some.at, end)) == 993


def test_the_first_batch_begins_where_its_end_says(
    stream: Callable[..., Stream], on_cluster: OnCluster
) -> None:
    """After a restart `latest` is another id, and Spark has only the end of the batch it has to repeat."""
    on_cluster(appended("origins", b"before", create=True))
    first = stream("origins", startingId="latest")
    on_cluster(appended("origins", b"0", b"1"))
    time.sleep(LONGER_THAN_KEPT_S)
    end = first.latest()
    on_cluster(appended("origins", b"2"))
    again = stream("origins", startingId="latest")
    assert again.at != first.at
    assert again.between(again.at, end) == [b"0", b"1"]
    again.at = end
    assert again.batch() == [b"2"]


def test_what_is_there_now_ends_a_query_that_asks_for_it(
    stream: Callable[..., Stream], on_cluster: OnCluster
) -> None:
    on_cluster(appended("available", b"0", b"1", b"2", create=True))
    now = stream("available", maxRecordsPerTrigger=2, minRecordsPerTrigger=2)
    now.reader.prepareForTriggerAvailableNow()
    on_cluster(appended("available", b"3"))
    assert [now.batch(), now.batch(), now.batch()] == [[b"0", b"1"], [b"2"], []]


def test_too_few_messages_wait_until_there_are_enough_or_the_delay_has_passed(
    stream: Callable[..., Stream], on_cluster: OnCluster
) -> None:
    on_cluster(appended("few", b"0", create=True))
    few = stream("few", minRecordsPerTrigger=2, maxTriggerDelay="400ms")
    began = time.monotonic()
    assert few.batch() == []
    while not (found := few.batch()):
        time.sleep(0.02)
    assert found == [b"0"] and time.monotonic() - began > 0.4
    on_cluster(appended("few", b"1", b"2", b"3"))
    time.sleep(LONGER_THAN_KEPT_S)
    assert few.batch() == [b"1", b"2", b"3"]


def test_what_was_trimmed_before_it_was_read_is_reported_or_passed_over(
    stream: Callable[..., Stream], on_cluster: OnCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """What is passed over is in the driver's log, once however often Spark asks."""
    on_cluster(appended("trimmed", b"0", b"1", create=True))
    strict, lenient = stream("trimmed"), stream("trimmed", failOnDataLoss="false")
    assert strict.batch() == lenient.batch() == [b"0", b"1"]
    [_, _, last] = on_cluster(appended("trimmed", b"2", b"3", b"4"))
    time.sleep(LONGER_THAN_KEPT_S)
    end = strict.latest()
    on_cluster(lambda client: client.shrink("trimmed", last))
    time.sleep(LONGER_THAN_KEPT_S)
    sentence = (
        "DLOG_DATA_LOSS: log default/trimmed lacks messages that this stream has not read: messages from"
    )
    with pytest.raises(SparkSourceError, match=sentence):
        strict.latest()
    with pytest.raises(SparkSourceError, match=sentence):
        strict.between(strict.at, end)
    assert lenient.between(lenient.at, end) == [b"4"]
    assert lenient.latest() == lenient.latest()
    assert lenient.batch() == [b"4"]
    [warning] = caplog.messages
    assert warning.startswith(
        "log default/trimmed lacks messages that this stream has not read: messages from "
    )
    assert warning.endswith(" were trimmed; the stream goes on without them, since failOnDataLoss=false")


def test_a_trim_of_what_was_read_is_no_loss(stream: Callable[..., Stream], on_cluster: OnCluster) -> None:
    on_cluster(appended("read-first", b"0", b"1", create=True))
    some = stream("read-first")
    assert some.batch() == [b"0", b"1"]
    [next_one] = on_cluster(appended("read-first", b"2"))
    on_cluster(lambda client: client.shrink("read-first", next_one))
    time.sleep(LONGER_THAN_KEPT_S)
    assert some.batch() == [b"2"]


def test_a_trim_of_what_was_read_is_no_loss_before_the_seal_is_recorded(
    cluster: Standalone, stream: Callable[..., Stream]
) -> None:
    """A writer that has rotated records the seal at its next change of the list; a new stream may begin there, too."""
    with dlog.connect(cluster.uri) as client, client.open_writer("rotated", create=True) as writer:
        read = [b"%d" % number for number in range(3)]
        writer.append_many(read)
        some = stream("rotated")
        assert some.batch() == read
        writer.rotate()
        client.shrink("rotated", writer.append(b"3"))
        time.sleep(LONGER_THAN_KEPT_S)
        end = MessageId(*some.at["p"]["rotated"])
        assert some.batch() == [b"3"]
        assert stream("rotated", startingId=end).batch() == [b"3"]


def test_a_log_that_was_created_anew_is_another_one(
    stream: Callable[..., Stream], on_cluster: OnCluster, caplog: pytest.LogCaptureFixture
) -> None:
    on_cluster(appended("reborn", b"old", create=True))
    strict, lenient = stream("reborn"), stream("reborn", failOnDataLoss="false")
    assert strict.batch() == lenient.batch() == [b"old"]
    on_cluster(lambda client: client.delete("reborn"))
    time.sleep(LONGER_THAN_KEPT_S)
    with pytest.raises(SparkSourceError, match="DLOG_NOT_FOUND: log default/reborn does not exist"):
        strict.latest()
    on_cluster(appended("reborn", b"new", create=True))
    time.sleep(LONGER_THAN_KEPT_S)
    with pytest.raises(
        SparkSourceError, match=r"DLOG_DATA_LOSS: log default/reborn .* deleted and created again"
    ):
        strict.latest()
    assert lenient.batch() == [b"new"]
    assert [text for text in caplog.messages if "reborn lacks messages" in text] == [
        "log default/reborn lacks messages that this stream has not read: it was deleted and created again; the stream "
        "goes on without them, since failOnDataLoss=false"
    ]


def test_a_checkpoint_of_another_stream_is_refused(
    stream: Callable[..., Stream], on_cluster: OnCluster
) -> None:
    on_cluster(appended("mine", b"0", create=True))
    on_cluster(appended("theirs", b"0", create=True))
    mine, theirs = stream("mine"), stream("theirs")
    mine.at = theirs.at
    with pytest.raises(SparkSourceError, match="DLOG_BAD_OPTION: the checkpoint is of theirs, not of mine"):
        mine.latest()
    mine.at = {"offset": 17}
    with pytest.raises(SparkSourceError, match="DLOG_BAD_OPTION: the checkpoint holds"):
        mine.latest()


def test_a_moment_ago_is_recent_enough(stream: Callable[..., Stream], numbers: list[Message]) -> None:
    """Without a trigger Spark asks as often as it can."""
    some = stream("numbers")
    some.batch()
    began = time.monotonic()
    for _ in range(1000):
        assert some.latest() == some.at
    assert time.monotonic() - began < 5


def test_what_one_look_has_found_another_one_that_asks_other_bookies_reads_too(
    stream: Callable[..., Stream], on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest LAC reaches one bookie after the other, so planning and tasks may see a lower one than the end."""

    async def fill(client: LogClient) -> None:
        async with client.open_writer("uneven", create=True) as writer:
            for value in (b"0", b"1", b"2"):
                await writer.append(value)
            writer.abort()  # its ledger stays open

    on_cluster(fill)
    some = stream("uneven")
    end, open_ledger = some.latest(), LedgerClient.open

    async def knows_less(client: LedgerClient, *given: Any) -> ReadHandle:
        handle = await open_ledger(client, *given)
        handle._lac = EntryId(handle._lac - 1)
        return handle

    monkeypatch.setattr(LedgerClient, "open", knows_less)
    assert some.between(some.at, end) == [b"0", b"1", b"2"]


def test_a_micro_batch_of_which_messages_are_missing_is_data_loss(
    stream: Callable[..., Stream], on_cluster: OnCluster
) -> None:
    """A metadata store from a backup, for example: the ledger is closed before the end of the batch."""
    on_cluster(appended("shortened", b"0", b"1", create=True))
    some = stream("shortened", failOnDataLoss="false")
    end = some.latest()
    end["p"]["shortened"][1] += 1
    with pytest.raises(SparkSourceError, match="DLOG_DATA_LOSS: log default/shortened ends at"):
        some.between(some.at, end)
