"""A cluster of real bookies, logs in it, and one local Spark session for all tests of this directory."""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

from dlog.client import LogClient, connect
from dlog.demo.spark_needs import require_spark
from dlog.local.embedded import Standalone
from dlog.model import Message
from ledger.errors import ConfigurationError
from tests.helpers.log.filled_log import append_ledgers
from tests.helpers.spark import QUICK, QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

collect_ignore = ["test_kafka_parity.py"]
"""It needs a Kafka broker, and a session of its own: `make spark-kafka` names it, and then it is collected."""


@pytest.fixture(scope="session", autouse=True)
def spark_is_there() -> None:
    """Without PySpark or Java these tests are skipped."""
    try:
        require_spark()
    except ConfigurationError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def settings() -> dict[str, str]:
    """Of the session; a file that needs others runs alone."""
    return QUICK


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))
    from pyspark.sql import SparkSession

    directory = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .config(map=settings)
        .config("spark.local.dir", str(directory))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    with warnings.catch_warnings():
        # PySpark leaves the socket to its JVM to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()


@pytest.fixture(scope="session")
def on_cluster(cluster: Standalone) -> Callable[[Callable[[LogClient], Awaitable[T]]], T]:
    """Run a coroutine with a client of the cluster."""

    def run(work: Callable[[LogClient], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with await connect(cluster.uri) as client:
                return await work(client)

        return asyncio.run(connected())

    return run


async def read_all(client: LogClient, log: str) -> list[Message]:
    """The log as the SDK reads it."""
    async with client.reader(log, until="latest") as reader:
        return [message async for message in reader]


@pytest.fixture(scope="session")
def numbers(on_cluster: Callable[..., object], cluster: Standalone) -> list[Message]:
    """Log `numbers`: 4 sealed ledgers of 25 entries of 10 messages, 1,000 in all."""

    async def fill(client: LogClient) -> list[Message]:
        await append_ledgers(client, "numbers", ledgers=4, entries=25, batch=10)
        return await read_all(client, "numbers")

    found = on_cluster(fill)
    assert isinstance(found, list) and len(found) == 1000
    return found


@pytest.fixture(scope="session")
def three(on_cluster: Callable[..., object]) -> dict[str, list[bytes]]:
    """Logs `three-a`, `three-b` and `three-c` with 600, 60 and 6 messages in 4, 3 and 2 ledgers."""
    found: dict[str, list[bytes]] = {}

    async def fill(client: LogClient) -> None:
        for log, ledgers, entries, batch in (("a", 4, 15, 10), ("b", 3, 4, 5), ("c", 2, 3, 1)):
            await append_ledgers(client, f"three-{log}", ledgers=ledgers, entries=entries, batch=batch)
            found[f"three-{log}"] = [b"%d" % n for n in range(ledgers * entries * batch)]

    on_cluster(fill)
    return found
