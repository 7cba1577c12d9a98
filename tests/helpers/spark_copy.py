"""A query that copies one log into another, and can be started again; and rows that stop it where a test wants."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlog.client import LogClient
from tests.helpers.log.producer import read_all
from tests.helpers.log.sink import ledgers_made_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

OnCluster = Callable[[Callable[[LogClient], Any]], Any]

WAIT_S = 60.0


class Copy:
    """A query that copies one log into another, and can be started again."""

    def __init__(
        self,
        spark: SparkSession,
        uri: str,
        on_cluster: OnCluster,
        name: str,
        checkpoint: Path,
        reading: dict[str, str] | None = None,
        **options: object,
    ) -> None:
        """`reading`: options of the source; the others are the sink's."""
        self._spark = spark
        self.uri = uri
        self._on_cluster = on_cluster
        self.source, self.target = f"{name}-source", f"{name}-target"
        self.checkpoint = checkpoint
        self._reading = reading or {}
        self._options = options
        self._appended = 0
        self.passing: Callable[[DataFrame], DataFrame] = lambda rows: rows
        """What happens to the rows on their way."""
        on_cluster(lambda client: client.create(self.target))
        on_cluster(lambda client: client.create(self.source))

    def feed(self, count: int = 10) -> None:
        """Append messages to the source; a micro-batch has all that is there."""
        values = [b"%d" % number for number in range(self._appended, self._appended + count)]
        self._appended += count

        async def append(client: LogClient) -> None:
            async with client.open_writer(self.source) as writer:
                for first in range(0, count, 1000):
                    await writer.append_many(values[first : first + 1000])

        self._on_cluster(append)

    def options_of_source(self, reading: dict[str, str]) -> None:
        """For the next start."""
        self._reading = reading

    def start(self, **trigger: Any) -> StreamingQuery:
        rows = (
            self._spark.readStream.format("dlog")
            .options(metadata=self.uri, log=self.source, startingId="earliest", includeHeaders="true")
            .options(**self._reading)
            .load()
            .select("key", "value", "headers")
        )
        writer = (
            self.passing(rows)
            .writeStream.format("dlog")
            .option("metadata", self.uri)
            .option("log", self.target)
        )
        for name, value in self._options.items():
            writer = writer.option(name, str(value))
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    def run(self) -> str:
        """Copy what is there now; returns the query's id."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(120)
        return str(query.id)

    def forget_commit(self, batch: int) -> None:
        """As after a crash between the sink's commit and Spark's: Spark runs the batch again."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def values(self) -> list[int]:
        return [
            int(message.payload) for message in self._on_cluster(lambda client: read_all(client, self.target))
        ]

    def all(self) -> list[int]:
        return list(range(self._appended))

    def record(self) -> Any:
        return self._on_cluster(lambda client: client.describe(self.target)).record

    def ledgers(self) -> set[int]:
        """Of the target, listed or not."""
        found = self._on_cluster(lambda client: ledgers_made_for(client, self.target))
        assert isinstance(found, set)
        return found

    def listed(self) -> set[int]:
        return {one.ledger_id for one in self.record().ledgers}


class Interruptions:
    """What tasks of a query look at for each row, since they run elsewhere: files in a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._failing = directory / "fail"
        self._holding = directory / "hold"
        self._held = directory / "held"

    def fail_at(self, number: int | None) -> None:
        """From now on the task that comes to this row fails."""
        if number is None:
            self._failing.unlink()
        else:
            self._failing.write_bytes(b"%d" % number)

    def hold(self) -> None:
        """From now on tasks wait at each row."""
        self._holding.touch()

    def wait_until_held(self) -> None:
        _wait(self._held.exists)

    def release(self) -> None:
        self._holding.unlink()
        self._held.unlink(missing_ok=True)

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        failing, holding, held = self._failing, self._holding, self._held

        def look(value: bytes) -> bytes:
            if failing.exists() and failing.read_bytes() == value:
                raise RuntimeError("the row is to fail")
            if holding.exists():
                held.touch()
                _wait(lambda: not holding.exists())
            return value

        return rows.withColumn("value", f.udf(look, "binary", useArrow=False)("value"))


def _wait(happened: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < give_up_at, "it does not happen"
        time.sleep(0.02)
