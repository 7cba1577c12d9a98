"""How long does a row take through a stream of Spark, and what does a stream cost that has nothing to do?

Latency: messages are appended at a fixed rate, whatever the stream does, and each counts from when it was due. It ends
in the driver's program, to which Spark passes the rows of a micro-batch (`foreachBatch`), or in a second log: a reader
at its tail has the message that Spark's exactly-once sink has published. The trigger is 100 ms.

Idle: processor time of Spark's Python processes, the planner of the stream above all, while nothing is appended: of one
log, and of a pattern that many logs match; with a trigger of a second, and without one, when Spark asks again as soon
as it has an answer.

Needs Java: PySpark starts a JVM.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.histogram import Summary
from benchmarks.load.paced_appends import append_paced
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from benchmarks.spark.session import spark_session
from benchmarks.usage import cpu_s, descendants
from dlog.client import LogClient, connect
from dlog.write.writer import LogWriter
from tests.helpers.processes.cluster import running_cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_PER_SECOND = 100
_PADDING = b"x" * 100
_CORES = 2
_TRIGGER, _IDLE_TRIGGER, _NO_TRIGGER = "100 milliseconds", "1 second", "0 seconds"
_WAIT_S = 60.0
_P50_TARGET_MS, _IDLE_TARGET = 300.0, 0.03
_STREAM = f"stream, trigger of {_TRIGGER}"
_PROGRAM, _LOG = "to the driver's program", "to a tail of a second log"
_PLANNER = b"python_streaming_source_runner"

Numbers = dict[int, float]
"""When each message was seen, by its number."""


async def run(options: Options) -> Report:
    report = Report("spark_stream", "How long does a row take through a stream of Spark?")
    runs = Runs()
    with tempfile.TemporaryDirectory(dir=options.directory) as found, spark_session(_CORES) as spark:
        async with (
            running_cluster(options.directory) as cluster,
            connect(cluster.uri) as client,
            connect(cluster.uri) as other,
        ):
            streams = _Streams(spark, cluster.uri, Path(found))
            for number in range(options.rounds):
                await _latency(runs, streams, client, other, options, number)
            await _idle(runs, streams, client, options)
    for way in (_PROGRAM, _LOG):
        report.add(runs.row(f"append {way}, p50", _STREAM, "ms", target=_P50_TARGET_MS))
        report.add(runs.row(f"append {way}, p99", _STREAM, "ms"))
    for trigger, target in ((_IDLE_TRIGGER, _IDLE_TARGET), (_NO_TRIGGER, None)):
        for name in _idle_sources(options):
            report.add(runs.row(_idle_case(trigger), name, "cores", target=target))
    return report


class _Streams:
    """Starts queries on one cluster, each with a checkpoint of its own."""

    def __init__(self, spark: SparkSession, uri: str, directory: Path) -> None:
        self._spark = spark
        self._options = {"metadata": uri}
        self._directory = directory

    def start(
        self,
        trigger: str,
        sink: Callable[[DataFrame], DataStreamWriter],
        **source: str,
    ) -> StreamingQuery:
        rows = self._spark.readStream.format("dlog").options(**self._options, **source).load()
        writer = sink(rows).option("checkpointLocation", tempfile.mkdtemp(dir=self._directory))
        return writer.trigger(processingTime=trigger).start()

    def to_log(self, log: str) -> Callable[[DataFrame], DataStreamWriter]:
        def sink(rows: DataFrame) -> DataStreamWriter:
            return rows.select("value").writeStream.format("dlog").options(**self._options, log=log)

        return sink


# ---- latency


async def _latency(
    runs: Runs, streams: _Streams, client: LogClient, other: LogClient, options: Options, number: int
) -> None:
    """One round of both ways, on logs of its own."""
    source, target = f"source-{number}", f"target-{number}"
    await client.create(target)
    async with client.open_writer(source, create=True) as writer:
        seen: Numbers = {}
        query = streams.start(_TRIGGER, _to_program(seen), log=source, startingId="latest")
        _add(runs, _PROGRAM, await _delays(query, writer, seen, options))
        seen = {}
        async with _followed(other, target, seen):
            query = streams.start(_TRIGGER, streams.to_log(target), log=source, startingId="latest")
            _add(runs, _LOG, await _delays(query, writer, seen, options))


async def _delays(query: StreamingQuery, writer: LogWriter, seen: Numbers, options: Options) -> Summary:
    """Milliseconds from when a message was due until it was seen. Stops the query."""
    due: Numbers = {}
    warm_up_s = options.warm_up_s * 10  # a JVM is slow in its first micro-batches

    def on_acked(number: int, due_at: float, at: float) -> None:
        due[number] = due_at

    await _begun(query)  # what comes now is after `latest`
    await append_paced(
        writer,
        per_second=_PER_SECOND,
        seconds=warm_up_s + options.seconds * 4,
        prefix=_PADDING,
        on_acked=on_acked,
    )
    await _until(lambda: due.keys() <= seen.keys(), query)
    query.stop()
    first = warm_up_s * _PER_SECOND
    return Summary.of((seen[number] - at) * 1e3 for number, at in due.items() if number >= first)


def _add(runs: Runs, way: str, found: Summary) -> None:
    runs.add(f"append {way}, p50", _STREAM, found.p50)
    runs.add(f"append {way}, p99", _STREAM, found.p99)


def _to_program(seen: Numbers) -> Callable[[DataFrame], DataStreamWriter]:
    def take(rows: DataFrame, batch: int) -> None:
        found = rows.select("value").collect()
        now = time.monotonic()
        seen.update((_number(row.value), now) for row in found)

    return lambda rows: rows.writeStream.foreachBatch(take)


def _number(value: bytes | bytearray) -> int:
    return int(value[len(_PADDING) :])


@asynccontextmanager
async def _followed(client: LogClient, log: str, seen: Numbers) -> AsyncIterator[None]:
    """Notes when a reader at the tail of the log has each message."""

    async def follow() -> None:
        async with client.reader(log) as reader:
            async for batch in reader.batches():
                now = time.monotonic()
                seen.update((_number(bytes(message.payload or b"")), now) for message in batch)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _begun(query: StreamingQuery) -> None:
    await _until(lambda: query.lastProgress is not None, query)


async def _until(happened: Callable[[], bool], query: StreamingQuery) -> None:
    give_up_at = time.monotonic() + _WAIT_S
    while not await asyncio.to_thread(happened):
        if (error := query.exception()) is not None:
            raise error
        assert time.monotonic() < give_up_at, f"it does not happen: {query.status}"
        await asyncio.sleep(0.05)


# ---- idle


def _idle_sources(options: Options) -> dict[str, dict[str, str]]:
    """Options of each contender, by its name."""
    logs = _idle_logs(options)
    return {
        "one log": {"log": logs[0]},
        f"{len(logs)} logs, named": {"logs": ",".join(logs)},
        f"{len(logs)} logs, by pattern": {"logsPattern": "idle-.*"},
    }


def _idle_logs(options: Options) -> list[str]:
    return [f"idle-{number}" for number in range(options.idle_logs)]


async def _idle(runs: Runs, streams: _Streams, client: LogClient, options: Options) -> None:
    for log in _idle_logs(options):
        async with client.open_writer(log, create=True) as writer:
            await writer.append(b"0")
    for trigger in (_IDLE_TRIGGER, _NO_TRIGGER):
        for name, source in _idle_sources(options).items():
            query = streams.start(trigger, _to_nothing, **source)
            await _begun(query)
            await asyncio.sleep(options.seconds)  # its first requests
            before_s, began = _planner_s(), time.monotonic()
            await asyncio.sleep(options.seconds * 4)
            runs.add(_idle_case(trigger), name, (_planner_s() - before_s) / (time.monotonic() - began))
            query.stop()


def _to_nothing(rows: DataFrame) -> DataStreamWriter:
    return rows.writeStream.format("noop")


def _idle_case(trigger: str) -> str:
    return "idle, without a trigger" if trigger == _NO_TRIGGER else f"idle, trigger of {trigger}"


def _planner_s() -> float:
    """Processor time of the processes in which Spark asks sources for offsets."""
    found = []
    for pid in descendants():
        with suppress(FileNotFoundError, ProcessLookupError):  # that of an earlier stream ends late
            if _PLANNER in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(cpu_s(pid))
    assert found, "there is a stream"
    return sum(found)
