"""What the driver reports of a batch whose time runs out, on a real cluster without a Spark session."""

from __future__ import annotations

import asyncio

import pytest

from dlog.client import LogClient, connect
from dlog.local.embedded import Standalone
from spark_connector.options.sink_options import parse_sink_options
from spark_connector.sink import driver
from tests.helpers.log.scripted_log import payloads
from tests.helpers.log.sink import staged

pytestmark = [pytest.mark.spark, pytest.mark.integration]


def test_a_batch_is_committed_though_trimming_takes_longer_than_its_time(
    cluster: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = "trimmed-slowly"
    options = parse_sink_options(
        {"metadata": cluster.uri, "log": log, "writeTimeoutMs": "2000"}, stream=False
    )

    async def slowly(_: LogClient, __: str) -> None:
        await asyncio.sleep(60)

    async def commit() -> list[bytes | None]:
        async with await connect(cluster.uri) as client:
            await client.create(log)
            epoch = await driver.begin(options)
            assert epoch is not None
            ledgers = await staged(client, epoch, None, [b"one"])
            monkeypatch.setattr(LogClient, "apply_retention", slowly)
            await driver.commit(options, epoch, None, ledgers)
            return await payloads(client, log)

    assert asyncio.run(commit()) == [b"one"]
