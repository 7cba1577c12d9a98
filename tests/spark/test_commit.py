"""What the driver reports of a batch, on a real cluster without a Spark session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dlog.client import LogClient, connect
from dlog.core.publication import SinkBatch
from dlog.local.embedded import Standalone
from spark_connector.errors import BadOptionError
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


@pytest.mark.parametrize("last", [1, 2])
def test_a_micro_batch_is_written_already_only_if_it_is_the_last_one_of_its_id(
    cluster: Standalone, last: int
) -> None:
    """Another query with the same id has taken the log over, and published, while the tasks of this one wrote."""
    log = f"two-queries-{last}"
    options = parse_sink_options({"metadata": cluster.uri, "log": log, "writerId": "w"}, stream=True)

    async def commit() -> list[bytes | None]:
        async with await connect(cluster.uri) as client:
            await client.create(log)

            async def write(number: int, payload: bytes) -> Callable[[], Awaitable[None]]:
                epoch, batch = await driver.begin(options), SinkBatch(writer_id="w", number=number)
                assert epoch is not None
                ledgers = await staged(client, epoch, batch, [payload])
                return lambda: driver.commit(options, epoch, batch, ledgers)

            ours = await write(1, b"ours")
            theirs = await write(last, b"theirs")
            await theirs()
            if last == 1:
                await ours()
            else:
                with pytest.raises(
                    BadOptionError, match="has batch 2 of writer id 'w', and this query is at"
                ):
                    await ours()
            return await payloads(client, log)

    assert asyncio.run(commit()) == [b"theirs"]
