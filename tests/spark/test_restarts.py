"""A query from one log into another that is stopped and started again at each point where Spark may have to repeat.

Spark writes down what a micro-batch reads (`offsets/N`), runs it, lets the sink commit, and writes down that it is
done (`commits/N`). What kill -9 does at random points: test_forced_restarts.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dlog
from dlog.client import LogClient, connect
from dlog.local.embedded import Standalone
from tests.helpers.log.appended import appended
from tests.helpers.spark import first_said, needs_pyspark
from tests.helpers.spark_copy import Copy, Interruptions, OnCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    needs_pyspark("4.2", "streams are read"),
]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("zookeeper", marks=pytest.mark.nightly)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A cluster whose bookies may be killed."""
    metadata = None
    if request.param == "zookeeper":
        zookeeper = request.getfixturevalue("zookeeper")
        metadata = f"zk+hierarchical://{zookeeper.address}{zookeeper.new_root()}"
    with dlog.standalone(tmp_path_factory.mktemp("store"), metadata=metadata, restart=False) as cluster:
        yield cluster


@pytest.fixture
def on_store(store: Standalone) -> OnCluster:
    def run(work: Callable[[LogClient], Any]) -> Any:
        async def connected() -> Any:
            async with await connect(store.uri) as client:
                return await work(client)

        return asyncio.run(connected())

    return run


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """A task writes what it has with each batch of rows that Spark passes to it."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, 500)
    yield
    spark.conf.unset(name)


def run_without_a_bookie(it: Copy, stop: Interruptions, store: Standalone) -> None:
    """One more micro-batch, during which one of three bookies is killed; it is back afterwards."""
    it.feed()
    stop.hold()
    query = it.start(availableNow=True)
    stop.wait_until_held()
    store.kill(0)  # the task has rows, and its ledger is not open yet
    stop.release()
    assert query.awaitTermination(120)
    store.restart(0)


def test_no_row_is_lost_or_doubled_wherever_the_query_stops(
    spark: SparkSession, store: Standalone, on_store: OnCluster, tmp_path: Path, small_batches: None
) -> None:
    """One query through all of them; each batch has what it had when it was planned, and the next one the rest."""
    it = Copy(spark, store.uri, on_store, "restarts", tmp_path / "checkpoint", reading={"minPartitions": "2"})
    stop = Interruptions(tmp_path / "interruptions")
    it.passing = stop

    def batches() -> int:
        [mark] = it.record().sinks
        return int(mark.batch) + 1

    def written_down(of: str) -> int:
        return sum(path.name.isdigit() for path in (it.checkpoint / of).iterdir())

    def fails_at(number: int) -> None:
        before = it.values()
        stop.fail_at(number)
        assert "the row is to fail" in str(whole_failure(it.run))
        stop.fail_at(None)
        assert it.values() == before, "nothing of a batch that failed"
        assert (written_down("offsets"), written_down("commits")) == (batches() + 1, batches())

    it.feed()
    it.run()
    assert (it.values(), batches()) == (it.all(), 1)

    it.feed()
    fails_at(10)  # planned, and no row was read
    it.feed()
    it.run()
    assert (it.values(), batches()) == (it.all(), 3), "the planned batch, then what came later"

    it.feed(4_000)
    fails_at(60)  # the first task has written nothing, the other one perhaps all it has
    fails_at(4_029)  # both have written
    it.feed()
    it.run()
    assert (sorted(it.values()), batches()) == (it.all(), 5)

    for batch in (4, 3):  # the sink has committed, and Spark has not written that down
        it.forget_commit(batch)
    it.run()
    assert (sorted(it.values()), batches()) == (it.all(), 5)

    before = it.record()
    it.run()  # all was written down
    assert it.record() == before

    run_without_a_bookie(it, stop, store)
    assert (sorted(it.values()), batches()) == (it.all(), 6)

    on_store(lambda client: client.admin.sweep(age_s=-1, staging_age_s=-1))
    assert it.ledgers() == it.listed()
    assert sorted(it.values()) == it.all()


def test_what_is_missing_at_a_restart_is_reported_or_passed_over(
    spark: SparkSession, cluster: Standalone, on_cluster: OnCluster, tmp_path: Path
) -> None:
    """A batch was planned, and before it was read its messages were trimmed, or another log has the name."""
    it = Copy(spark, cluster.uri, on_cluster, "loss", tmp_path / "checkpoint")
    stop = Interruptions(tmp_path / "interruptions")
    it.passing = stop
    it.feed()
    it.run()

    def trim() -> None:
        [last] = on_cluster(appended(it.source, b"1000"))
        on_cluster(lambda client: client.shrink(it.source, last))

    def create_again() -> None:
        on_cluster(lambda client: client.delete(it.source))
        on_cluster(appended(it.source, b"2000", create=True))

    def loses(lose: Callable[[], None], reported: str, left: int) -> None:
        copied = it.values()
        it.options_of_source({})
        it.feed()
        stop.fail_at(it.all()[-10])
        first_said(it.run)
        stop.fail_at(None)
        lose()
        said = first_said(it.run)
        assert "DLOG_DATA_LOSS: log default/" in said
        assert reported in said
        assert it.values() == copied
        it.options_of_source({"failOnDataLoss": "false"})
        it.run()
        assert it.values() == [*copied, left]

    loses(trim, "were trimmed", 1000)
    loses(create_again, "deleted and created again", 2000)


def whole_failure(attempt: Callable[[], object]) -> str:
    """With the traceback: the error is that of a row, and not of the source."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        attempt()
    return str(caught.value)
