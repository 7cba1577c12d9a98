"""What Spark calls of a stream. Lives in a process of its own on the driver, from the first call to the query's end.

Spark pickles the reader before its first call, so the connection, and the thread that serves it, are made then.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from dlog.blocking.loop_thread import LoopThread
from spark_connector.errors import NotSupportedError, spark_errors
from spark_connector.options.stream_options import StreamOptions, parse_stream_options
from spark_connector.options.tables import read_options
from spark_connector.read.log_partition import LogPartition, read_log_partition
from spark_connector.read.schema import check_schema
from spark_connector.stream.offsets import parse_offset
from spark_connector.stream.planner import Limit, StreamPlanner

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")


class DlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of one or several logs. Offsets: `offsets.py`.

    The constructor never fails: Spark would then fail to stop a reader that does not exist, and show that.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._given = dict(options)
        self._schema = schema
        self._checked: StreamOptions | None = None
        self._serving: tuple[LoopThread, StreamPlanner] | None = None

    # ---- offsets

    def initialOffset(self) -> dict[str, Any]:
        with spark_errors():
            planner = self._planner()
            return self._run(planner.initial).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        with spark_errors():
            options = self._options()
        if options.rows_max is not None:
            return ReadMaxRows(options.rows_max)
        if options.bytes_max is not None:
            return ReadMaxBytes(options.bytes_max)
        return ReadAllAvailable() if options.rows_min is None else ReadMinRows(options.rows_min)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with spark_errors():
            planner = self._planner()
            return self._run(planner.latest, parse_offset(start), self._limit(limit)).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        with spark_errors():
            planner = self._planner()
            return self._run(planner.tail).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        with spark_errors():
            planner = self._planner()
            self._run(planner.stop_at_tail)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the log keeps what was read until it is trimmed."""

    def stop(self) -> None:
        """Close the connection. Spark 4.3 never calls it: it ends the process."""
        if self._serving is not None:
            (thread, planner), self._serving = self._serving, None
            thread.run(planner.close)
            thread.close()

    # ---- partitions

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with spark_errors():
            planner = self._planner()
            plan = self._run(planner.partitions, parse_offset(start), parse_offset(end))
        return [LogPartition(plan.uri, partition) for partition in plan.partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with spark_errors():
            options = self._options()
        return read_log_partition(options.read, self._schema, partition)

    # ---- inside

    def _options(self) -> StreamOptions:
        if self._checked is None:
            options = parse_stream_options(read_options(self._given, self._schema))
            check_schema(self._schema, options.read.include_headers, options.read.include_producer)
            self._checked = options
        return self._checked

    def _planner(self) -> StreamPlanner:
        if self._serving is None:
            planner = StreamPlanner(self._options())  # before the thread, which an error would leave running
            self._serving = LoopThread("dlog-stream"), planner
        return self._serving[1]

    def _run(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        assert self._serving is not None, "_planner() comes first"
        return self._serving[0].run(work, *args, **kwargs)

    def _limit(self, limit: ReadLimit) -> Limit:
        """What Spark asks for: it may be less than the options say, as for a query that runs once."""
        match limit:
            case ReadAllAvailable():
                return Limit()
            case ReadMaxRows():
                return Limit(rows_max=limit.max_rows, rows_min=self._options().rows_min)
            case ReadMaxBytes():
                return Limit(bytes_max=limit.max_bytes, rows_min=self._options().rows_min)
            case ReadMinRows():
                return Limit(rows_min=limit.min_rows)
        raise NotSupportedError(
            f"Spark asks for {type(limit).__name__}, a kind of limit that this source does not know"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Sent to the process that serves the stream, and with each task."""
        return {**self.__dict__, "_serving": None}
