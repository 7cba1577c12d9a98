"""A read from a time begins in the log as it is when the time is looked up, whatever happens to the log next to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from dlog.client import connect
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from spark_connector.read import planning
from spark_connector.stream.followed_log import FollowedLog
from tests.helpers.log.appended import appended
from tests.helpers.planned_batch import PlannedBatch
from tests.helpers.planned_stream import PlannedStream

pytestmark = [pytest.mark.spark, pytest.mark.integration]


def test_a_stream_begins_in_a_ledger_that_is_newer_than_the_tail_it_has_read(
    cluster: Standalone, on_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster(appended("newer-ledger", b"one", create=True))
    time.sleep(0.01)
    since_ms = time.time_ns() // 1_000_000
    look_up = FollowedLog.at_time

    async def after_a_takeover(followed: FollowedLog, *given: Any) -> MessageId:
        async with await connect(cluster.uri) as client:
            await appended("newer-ledger", b"two")(client)
        return await look_up(followed, *given)

    monkeypatch.setattr(FollowedLog, "at_time", after_a_takeover)
    stream = PlannedStream(cluster.uri, log="newer-ledger", startingTimestamp=since_ms)
    assert stream.batch() == [b"two"]


def test_a_batch_begins_after_what_was_trimmed_since_its_time_was_looked_up(
    cluster: Standalone, on_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for payload in (b"one", b"two"):
        on_cluster(appended("trimmed-since", payload, create=payload == b"one"))
    look_up = planning.first_at_or_after

    async def before_a_trim(*given: Any) -> MessageId:
        found = await look_up(*given)
        async with (
            await connect(cluster.uri) as client,
            client.reader("trimmed-since", until="latest") as reader,
        ):
            *_, last = [message.id async for message in reader]
            await client.shrink("trimmed-since", last)
        return found

    monkeypatch.setattr(planning, "first_at_or_after", before_a_trim)
    batch = PlannedBatch(cluster.uri, log="trimmed-since", startingTimestamp=0)
    assert [row["value"] for row in batch.rows] == [b"two"]


def test_a_batch_from_a_time_to_come_has_nothing_that_is_appended_while_it_is_planned(
    cluster: Standalone, on_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster(appended("time-to-come", b"one", create=True))
    look_up = planning.first_at_or_after

    async def before_an_append(*given: Any) -> MessageId:
        found = await look_up(*given)
        async with await connect(cluster.uri) as client:
            await appended("time-to-come", b"two")(client)
        return found

    monkeypatch.setattr(planning, "first_at_or_after", before_an_append)
    in_an_hour_ms = time.time_ns() // 1_000_000 + 3_600_000
    assert PlannedBatch(cluster.uri, log="time-to-come", startingTimestamp=in_an_hour_ms).rows == []


def test_a_stream_from_a_time_to_come_begins_at_the_tail(
    cluster: Standalone, on_cluster: Callable[..., Any]
) -> None:
    on_cluster(appended("stream-to-come", b"one", create=True))
    in_an_hour_ms = time.time_ns() // 1_000_000 + 3_600_000
    stream = PlannedStream(cluster.uri, log="stream-to-come", startingTimestamp=in_an_hour_ms)
    on_cluster(appended("stream-to-come", b"two"))
    assert stream.batch() == [b"two"]
