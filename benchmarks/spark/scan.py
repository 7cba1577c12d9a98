"""How fast does Spark read a log, compared with Parquet, with a source that yields tuples, and with the SDK?

Messages of 100 random bytes without keys in eight ledgers, three bookies, E3 Qw3 Qa2, on one machine with a session of
`local[2]`, then of `local[1]`. The contenders take turns, round by round, and return rows with the same columns, which
Spark's sink `noop` drops: the log; Parquet files with the same rows; a Python source that yields a tuple from memory
for each row, of which it makes a tenth; and the floor of all sources in Python that read from another process, which
receives the bytes of the values from a bare server and yields ready record batches. `dlog.arrow.scan` reads the log
into record batches, in one process without Spark. The files, of bookies and of Parquet, are in the cache of the
operating system.

With `--kafka` Spark's own Kafka source takes turns, too: once with its own settings, in one case, because it always
makes all columns; and with settings that suit large reads, since with its own it asks the broker for the ends of the
topic after each 500 messages. A broker on the same machine has the same values in a topic
with as many partitions as the scan of the log has tasks, one copy, not compressed, in batches of about the size of the
log's entries, and sends them with its own settings. The columns are those of the source: key, value, topic, partition,
offset, timestamp and its type.

The processor time is that of all processes of a contender: Spark's, and the bookies' or the broker's.

A checksum over the values of all rows, computed by Spark, shows that all of them read the same messages.

A query of one message shows what a scan costs in addition to its rows; the memory is that of the largest of Spark's
Python processes.

Needs Java: PySpark starts a JVM.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from benchmarks.floors.read_floor import PIECE_BYTES, bare_source
from benchmarks.load.log_load import BATCH, MESSAGE_BYTES
from benchmarks.machine import settle_disk
from benchmarks.options import MIB, Options
from benchmarks.report import Report, Row
from benchmarks.rows import Runs
from benchmarks.spark.bare_rows import BareRows
from benchmarks.spark.kafka import TUNED, KafkaPeer, kafka_peer
from benchmarks.spark.session import noop, spark_session, timed
from benchmarks.spark.tuple_source import TupleSource
from benchmarks.usage import cpu_of_descendants, cpu_since, descendants, peak_resident_bytes
from dlog import arrow
from dlog.client import connect
from tests.helpers.processes.cluster import running_cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_LOG = "scanned"
_LEDGERS = 8
_DISTINCT = 100_000
"""Random messages, in turn: too many for a dictionary of Parquet, which would store each once."""
_APPENDS_AT_ONCE = 64
_TARGET, _SDK_TARGET, _OF_PARQUET = 2_000_000.0, 4_000_000.0, 0.5
_DLOG, _PARQUET, _TUPLES = "dlog", "Parquet", "tuples"
_KAFKA, _KAFKA_TUNED = "Spark's Kafka source", "Spark's Kafka source, tuned"
_FLOOR = "floor of a Python source"
_SDK = "dlog.arrow.scan, no Spark"
_ALL, _VALUE, _ONE = "all columns", "value", "a query of one message"
_COLUMNS = (_ALL, _VALUE)
_CHECKSUM = "checksum of value"
_CASES = (*_COLUMNS, _CHECKSUM)
_FEWER = 10
"""A tuple for each row takes so long that a tenth of the rows is enough."""
_DAEMON = b"pyspark.daemon"


async def run(options: Options) -> Report:
    report = Report("spark_scan", "How fast does Spark read a log?")
    runs = Runs()
    rows = options.scanned_rows // _LEDGERS * _LEDGERS
    peak_bytes = 0
    with tempfile.TemporaryDirectory(dir=options.directory) as found, kafka_peer(options) as kafka:
        files = Path(found)
        async with running_cluster(options.directory) as cluster, bare_source() as bare:
            checksum = await _fill(cluster.uri, rows // _LEDGERS)
            _copy(cluster.uri, files, rows // _LEDGERS)
            for cores in options.spark_cores:
                with spark_session(cores, kafka.settings if kafka else {}) as spark:
                    scan = _Scan(spark, cores, cluster.uri, files, rows, checksum)
                    scan.compare_with_floor(bare.port)
                    if kafka:
                        scan.compare_with(kafka)
                    settle_disk()
                    scan.warm_up()
                    for _ in range(options.rounds):
                        scan.measure(runs)
                    peak_bytes = max(peak_bytes, _peak_of_tasks())
            for _ in range(options.rounds):
                for columns in _COLUMNS:
                    runs.add(columns, _SDK, rows / timed(partial(_drain, cluster.uri, columns)))
    report.facts["spark"] = f"PySpark {version('pyspark')}"
    if kafka:
        report.facts["kafka"] = kafka.versions
    _report(report, runs, options, peak_bytes)
    return report


async def _fill(uri: str, rows_of_ledger: int) -> int:
    """Returns the sum of the checksums of all messages."""
    rng = random.Random(1)
    messages = [rng.randbytes(MESSAGE_BYTES) for _ in range(_DISTINCT)]
    checksums = list(accumulate(map(zlib.crc32, messages), initial=0))
    checksum = 0
    starts = iter(range(0, rows_of_ledger * _LEDGERS, BATCH))
    async with connect(uri) as client, client.open_writer(_LOG, create=True) as writer:

        async def append(sizes: list[int]) -> None:
            nonlocal checksum
            while sizes:
                size, start = sizes.pop(), next(starts) % (_DISTINCT - BATCH)
                checksum += checksums[start + size] - checksums[start]
                await writer.append_many(messages[start : start + size])

        for ledger in range(_LEDGERS):
            if ledger:
                await writer.rotate()
            batches, rest = divmod(rows_of_ledger, BATCH)
            sizes = [BATCH] * batches + [rest] * (rest > 0)
            await asyncio.gather(*(append(sizes) for _ in range(_APPENDS_AT_ONCE)))
    return checksum


def _copy(uri: str, files: Path, rows_of_file: int) -> None:
    """The same rows as Parquet, in as many files as there are ledgers."""
    batches = arrow.scan(uri, _LOG, batch_rows=rows_of_file)
    for number, batch in enumerate(batches):
        with pq.ParquetWriter(files / f"{number}.parquet", batches.schema) as writer:
            writer.write_batch(batch)


def _drain(uri: str, columns: str) -> None:
    for _ in arrow.scan(uri, _LOG, columns=None if columns == _ALL else [columns]):
        pass


class _Scan:
    """The contenders of one session."""

    def __init__(
        self, spark: SparkSession, cores: int, uri: str, files: Path, rows: int, checksum: int
    ) -> None:
        spark.dataSource.register(TupleSource)
        self._spark = spark
        self._cores = cores
        self._options = {"metadata": uri, "log": _LOG}
        self._files = str(files)
        self._rows = rows
        self._checksum = checksum
        self._contenders: dict[str, Callable[[str], DataFrame]] = {_DLOG: self._log, _PARQUET: self._parquet}

    def compare_with_floor(self, port: int) -> None:
        """Let the least that a Python source can do take turns, in as many tasks as the log is read with."""
        self._spark.dataSource.register(BareRows)
        source: dict[str, int | str] = {
            "port": port,
            "pieceBytes": PIECE_BYTES,
            "file": f"{self._files}/0.parquet",
        }
        tasks = self._log(_ALL).rdd.getNumPartitions()

        def rows(columns: str) -> DataFrame:
            reader = self._spark.read.format(BareRows.name()).options(rows=self._rows, tasks=tasks, **source)
            return _with_columns(reader, columns)

        self._contenders[_FLOOR] = rows

    def compare_with(self, kafka: KafkaPeer) -> None:
        """Let Spark's Kafka source take turns, with as many tasks as the log is read with."""
        kafka.fill(self._spark, self._parquet(_ALL), self._log(_ALL).rdd.getNumPartitions())
        for name, settings in ((_KAFKA_TUNED, TUNED), (_KAFKA, {})):
            self._contenders[name] = partial(self._topic, kafka, settings)

    def warm_up(self) -> None:
        """A JVM is slow in its first seconds, and starts its Python processes."""
        for name, contender in self._contenders.items():
            if _CHECKSUM in _cases_of(name):  # the others run the same code
                self._check(contender)
        noop(self._tuples())

    def measure(self, runs: Runs) -> None:
        for what in _CASES:
            for name, contender in self._contenders.items():
                if what in _cases_of(name):
                    self._time(runs, what, name, contender)
        runs.add(
            _case(_ALL, self._cores), _TUPLES, self._rows // _FEWER / timed(partial(noop, self._tuples()))
        )
        one = self._spark.read.format("dlog").options(**self._options, endingId="1:0:1").load()
        runs.add(_case(_ONE, self._cores), _DLOG, timed(partial(noop, one)) * 1e3)

    def _time(self, runs: Runs, what: str, name: str, contender: Callable[[str], DataFrame]) -> None:
        work = partial(self._check, contender) if what == _CHECKSUM else partial(noop, contender(what))
        before = cpu_of_descendants()
        runs.add(_case(what, self._cores), name, self._rows / timed(work))
        runs.add(_cpu_case(what, self._cores), name, cpu_since(before) / self._rows * 1e6)

    def _check(self, contender: Callable[[str], DataFrame]) -> None:
        from pyspark.sql import functions as f

        [found] = contender(_VALUE).agg(f.count(_VALUE), f.sum(f.crc32(_VALUE))).collect()
        assert tuple(found) == (self._rows, self._checksum), f"other messages than the log's: {found}"

    def _log(self, columns: str) -> DataFrame:
        reader = self._spark.read.format("dlog").options(**self._options)
        return _with_columns(reader, columns)

    def _parquet(self, columns: str) -> DataFrame:
        rows = self._spark.read.parquet(self._files)
        return rows if columns == _ALL else rows.select(columns)

    def _topic(self, kafka: KafkaPeer, settings: Mapping[str, str], columns: str) -> DataFrame:
        rows = kafka.rows(self._spark, settings)
        return rows if columns == _ALL else rows.select(columns)

    def _tuples(self) -> DataFrame:
        options = {"rows": self._rows // _FEWER, "tasks": self._cores}
        return self._spark.read.format(TupleSource.name()).options(**options).load()


def _with_columns(reader: DataFrameReader, columns: str) -> DataFrame:
    return (reader if columns == _ALL else reader.schema(f"{columns} binary")).load()


def _cases_of(contender: str) -> Sequence[str]:
    """Kafka's source always makes all columns, and the floor has no messages to check."""
    return {_KAFKA: (_VALUE,), _FLOOR: _COLUMNS}.get(contender, _CASES)


def _case(what: str, cores: int) -> str:
    return f"{what}, {cores} core{'s' if cores > 1 else ''}"


def _cpu_case(what: str, cores: int) -> str:
    return f"processor time for a million rows, {_case(what, cores)}"


def _peak_of_tasks() -> int:
    """The most memory, in bytes, that one of Spark's Python processes has had."""
    return max(peak_resident_bytes(pid) for pid in descendants() if _DAEMON in _command(pid))


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _report(report: Report, runs: Runs, options: Options, peak_bytes: int) -> None:
    for cores in options.spark_cores:
        for what in _CASES:
            case = _case(what, cores)
            parquet = runs.median(case, _PARQUET)
            report.add(runs.row(case, _PARQUET, "rows/s"))
            is_aimed_at = what in _COLUMNS and cores == max(options.spark_cores)
            target = max(_TARGET, _OF_PARQUET * parquet) if is_aimed_at else None
            report.add(runs.row(case, _DLOG, "rows/s", floor=parquet, target=target))
            topics = [each for each in (_KAFKA_TUNED, _KAFKA) if options.kafka and what in _cases_of(each)]
            peers = [_FLOOR, *topics] if what in _COLUMNS else topics
            for contender in peers:
                report.add(runs.row(case, contender, "rows/s", floor=parquet))
            if what == _ALL:
                report.add(runs.row(case, _TUPLES, "rows/s", floor=parquet))
            for contender in (_PARQUET, _DLOG, *peers):
                report.add(runs.row(_cpu_case(what, cores), contender, "s"))
        report.add(runs.row(_case(_ONE, cores), _DLOG, "ms"))
    for columns in _COLUMNS:
        parquet = runs.median(_case(columns, min(options.spark_cores)), _PARQUET)
        report.add(runs.row(columns, _SDK, "rows/s", floor=parquet, target=_SDK_TARGET))
    report.add(Row(contender=_DLOG, case="memory of the largest task", unit="MiB", value=peak_bytes / MIB))
