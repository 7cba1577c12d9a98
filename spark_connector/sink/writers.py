"""What Spark calls of a write, in three places: before the tasks, in each task, and after them.

PySpark makes a new object in a process of its own for each of them, and pickles what one needs of another:

    batch     writer() takes the log over; Spark pickles the writer and calls write() in tasks, commit() in the end
    stream    streamWriter() for each micro-batch, likewise; commit() is called on another object, which Spark gets from
              a data source that it had pickled, so what it needs comes with the messages of the tasks
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connector.errors import BadOptionError, NotSupportedError, spark_errors
from spark_connector.options.sink_options import SinkOptions, parse_sink_options
from spark_connector.options.tables import check_write_options
from spark_connector.sink.schema import check_sink_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dlog.core.publication import SinkBatch, StagedLedger
    from dlog.sink.epoch import SinkEpoch

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
"""Local properties of a stream's tasks: no interface of Spark, so tests/spark pins them."""


@dataclass
class WrittenByTask(WriterCommitMessage):
    """What a task has written. `writer_id` and `epoch` are those of the batch, the same in each message."""

    ledgers: tuple[StagedLedger, ...]
    epoch: SinkEpoch | None
    writer_id: str | None


class DlogWriter(DataSourceArrowWriter):
    """Writes one DataFrame. `epoch` is None if nothing is to be published: by one writer, or written before."""

    def __init__(self, options: SinkOptions, epoch: SinkEpoch | None) -> None:
        self._options = options
        self._epoch = epoch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with spark_errors():
            return _write(iterator, self._options, self._epoch, self._options.batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with spark_errors():
            _commit(messages, self._options, self._options.batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with spark_errors():
            _abort(messages, self._options)


class DlogStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream. `epoch` is None where Spark only commits or aborts."""

    def __init__(self, options: SinkOptions, epoch: SinkEpoch | None) -> None:
        self._options = options
        self._epoch = epoch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with spark_errors():
            if not self._options.exactly_once:
                return _write(iterator, self._options, None, None)
            writer_id, number = _this_batch(self._options)
            epoch = self._epoch
            if epoch is None:
                raise NotSupportedError(
                    f"this writer of log {self._options.log} has not taken the log over, since it was made for a "
                    "commit: write with one that Spark makes for the tasks of a micro-batch"
                )
            batch = None if number is None else _numbered(writer_id, number)
            if batch is not None and _is_replay(epoch, batch):
                return WrittenByTask((), None, writer_id)  # the rows are in the log
            return _write(iterator, self._options, epoch, batch, writer_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with spark_errors():
            written = _written(messages)
            writer_id = written[0].writer_id if written else None
            _commit(messages, self._options, None if writer_id is None else _numbered(writer_id, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with spark_errors():
            _abort(messages, self._options)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DlogWriter:
    """Check the query, and take its log over.

    Raises:
        SparkSourceError: something of it is wrong; nothing was changed.
    """
    import asyncio

    with spark_errors():
        found = _checked(options, schema, overwrite, stream=False)
        return DlogWriter(found, asyncio.run(_begin(found)))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool, *, begins: bool
) -> DlogStreamWriter:
    """`begins`: before the tasks of a micro-batch, for which the log is taken over; else after them."""
    import asyncio

    with spark_errors():
        found = _checked(options, schema, overwrite, stream=True)
        return DlogStreamWriter(found, asyncio.run(_begin(found)) if begins else None)


def _checked(options: Mapping[str, str], schema: StructType, overwrite: bool, *, stream: bool) -> SinkOptions:
    check_write_options(options)
    found = parse_sink_options(options, stream=stream)
    if overwrite:
        raise NotSupportedError(
            "a log cannot be overwritten, it only grows: "
            + ("use outputMode('append') or 'update'" if stream else "use mode('append'), or another log")
        )
    check_sink_schema(schema)
    return found


async def _begin(options: SinkOptions) -> SinkEpoch | None:
    from spark_connector.sink.driver import begin, check_log

    if options.exactly_once:
        return await begin(options)
    await check_log(options)
    return None


# ---- in a task


def _write(
    rows: Iterator[pa.RecordBatch],
    options: SinkOptions,
    epoch: SinkEpoch | None,
    batch: SinkBatch | None,
    writer_id: str | None = None,
) -> WrittenByTask:
    from pyspark import TaskContext

    from spark_connector.sink.task import append_rows, stage_rows

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    if not options.exactly_once:
        append_rows(rows, options, partition)
        return WrittenByTask((), None, None)
    if epoch is None:
        return WrittenByTask((), None, writer_id)
    return WrittenByTask(stage_rows(rows, options, epoch, batch, partition), epoch, writer_id)


def _is_replay(epoch: SinkEpoch, batch: SinkBatch) -> bool:
    """Whether the log has the micro-batch already.

    Raises:
        BadOptionError: it has another one under this number.
    """
    from spark_connector.sink.replays import check_replay

    check_replay(str(epoch.ref), epoch.marks, batch)
    return epoch.has(batch.writer_id, batch.number)


def _this_batch(options: SinkOptions) -> tuple[str, int | None]:
    """The sink's id, and the number of the micro-batch if Spark says it before the commit.

    Raises:
        BadOptionError: there is no id.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    found = {
        name: None if context is None else context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID)
    }
    writer_id = options.writer_id or found[_QUERY_ID]
    if not writer_id:
        raise BadOptionError(
            "this version of Spark does not give the id of the query to its tasks: set option 'writerId' to a text of "
            "this query only",
            option="writerId",
        )
    number = found[_BATCH_ID]
    return writer_id, None if number is None else int(number)


# ---- after the tasks


def _commit(
    messages: Sequence[WriterCommitMessage | None], options: SinkOptions, batch: SinkBatch | None
) -> None:
    import asyncio

    from spark_connector.sink.driver import commit

    written = _written(messages)
    staged = [one for each in written for one in each.ledgers]
    epochs = {each.epoch for each in written if each.epoch is not None}
    if not staged:
        return
    assert len(epochs) == 1, "the tasks of a batch write in one epoch"
    asyncio.run(commit(options, epochs.pop(), batch, staged))


def _abort(messages: Sequence[WriterCommitMessage | None], options: SinkOptions) -> None:
    """Spark also calls it after a commit that has failed, which may have published all the same."""
    import asyncio

    from spark_connector.sink.driver import abort

    written = _written(messages)
    staged = [one for each in written for one in each.ledgers]
    for epoch in {each.epoch for each in written if each.epoch is not None}:
        asyncio.run(abort(options, epoch, staged))


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenByTask]:
    """None is in the place of a task that has failed."""
    return [message for message in messages if isinstance(message, WrittenByTask)]


def _numbered(writer_id: str, number: int) -> SinkBatch:
    from dlog.core.publication import SinkBatch

    return SinkBatch(writer_id=writer_id, number=number)
