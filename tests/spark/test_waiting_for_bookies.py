"""A write that finds too few bookies waits for them within `writeTimeoutMs`, as a read does. No Spark session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dlog.client import connect
from spark_connector.options.sink_options import SinkOptions, parse_sink_options
from spark_connector.sink import driver
from spark_connector.sink.task import append_rows, stage_rows
from tests.helpers.log.scripted_log import payloads
from tests.helpers.processes.cluster import Cluster, forked_cluster

pytestmark = [pytest.mark.spark, pytest.mark.integration]

DOWN_S = 0.5
"""Longer than a write needs that does not wait, or fails."""


def rows() -> list[pa.RecordBatch]:
    return [pa.record_batch({"value": pa.array([b"a row"], pa.binary())})]


def options_of(cluster: Cluster, **options: str) -> SinkOptions:
    return parse_sink_options({"metadata": cluster.uri, "log": "orders", **options}, stream=True)


async def during_a_restart(cluster: Cluster, work: Callable[[], Any]) -> Any:
    """What `work` returns, which begins while two of three bookies are down."""
    for index in (0, 1):
        cluster.bookies[index].kill()
    working = asyncio.ensure_future(asyncio.to_thread(work))
    await asyncio.sleep(DOWN_S)
    assert not working.done(), working.exception()
    for index in (0, 1):
        await cluster.restart(index)
    return await working


async def test_a_batch_begins_once_the_ledger_of_the_last_writer_can_be_recovered(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, await connect(cluster.uri) as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"before")
        writer.abort()
        epoch = await during_a_restart(cluster, lambda: asyncio.run(driver.begin(options_of(cluster))))
        assert epoch.epoch == 2


async def test_a_task_writes_once_there_are_bookies_for_its_ledger(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, await connect(cluster.uri) as client:
        await client.create("orders")
        options = options_of(cluster)
        epoch = await driver.begin(options)
        assert epoch is not None
        staged = await during_a_restart(cluster, lambda: stage_rows(rows(), options, epoch, None, 0))
        await driver.commit(options, epoch, None, staged)
        assert await payloads(client, "orders") == [b"a row"]


async def test_so_does_an_ordinary_writer(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, await connect(cluster.uri) as client:
        await client.create("orders")
        options = options_of(cluster, exactlyOnce="false")
        await during_a_restart(cluster, lambda: append_rows(rows(), options, 0))
        assert await payloads(client, "orders") == [b"a row"]
