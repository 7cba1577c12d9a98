"""A log as a stream of record batches that owns its client: what pandas, Polars and DuckDB read in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from dlog.arrow.read_schema import read_schema
from dlog.blocking.client import Client, connect
from dlog.blocking.reader import Reader
from dlog.config import LogConfig
from dlog.core.tailing import OnMissing
from dlog.model import DEFAULT_NAMESPACE
from dlog.read.config import ReaderConfig
from dlog.read.range import Where
from ledger.errors import ConfigurationError


def scan(
    uri: str | None,
    log: str,
    start: Where | None = None,
    *,
    after: Where | None = None,
    until: Where = "latest",
    last: int | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = 8192,
    namespace: str = DEFAULT_NAMESPACE,
    password: bytes = b"",
    on_trimmed: OnMissing | str = OnMissing.FAIL,
    on_data_loss: OnMissing | str = OnMissing.FAIL,
    config: ReaderConfig | None = None,
) -> pa.RecordBatchReader:
    """The messages of a log as a `pyarrow.RecordBatchReader`, which can be read once.

        dlog.arrow.scan(uri, "orders").read_pandas()

    Connects to the cluster at `uri`; None is the one that DLOG_METADATA names. On return the end of the range is fixed.
    The range and the policies are those of `Client.reader`, `columns` and `batch_rows` those of `Reader.arrow_batches`,
    `password` is that of `LogConfig`.
    The client closes when everything is read, when reading raises, and when the result is dropped.

    Raises:
        MissingExtraError: pyarrow is not installed.
        ConfigurationError: an argument is wrong, `until` is None, or a policy is `gap`.
        LogNotFoundError: no such log, or it is being deleted.
        UnauthorizedError: `password` is not that of the log's ledgers; perhaps only while it is read.
        MetadataUnavailableError: there is no cluster at `uri`, or the metadata store cannot be reached.
        ReadError, DataLossError: the end of the log cannot be determined.
        While it is read: the errors of iterating over a reader.
    """
    schema = read_schema(columns)
    if until is None:  # of a reader it means that it has no end
        raise ConfigurationError(
            "a scan needs an end: leave out until=None, or follow the log with arrow_batches() of a reader"
        )
    if OnMissing.GAP in (on_trimmed, on_data_loss):
        raise ConfigurationError(
            "a scan has only rows, and policy 'gap' also returns gaps: iterate over "
            "dlog.connect(uri).reader(log, ...).batch_items()"
        )
    client = connect(uri, namespace, config=LogConfig(password=password))
    try:
        reader = client.reader(
            log,
            start,
            after=after,
            until=until,
            last=last,
            on_trimmed=on_trimmed,
            on_data_loss=on_data_loss,
            config=config,
        )
        return pa.RecordBatchReader.from_batches(schema, _Batches(client, reader, columns, batch_rows))
    except BaseException:
        client.close()
        raise


class _Batches:
    """An iterator of record batches. Closes the client at its end."""

    def __init__(
        self, client: Client, reader: Reader, columns: Sequence[str] | None, batch_rows: int
    ) -> None:
        self._batches = _at_least_one(
            reader.arrow_batches(columns, batch_rows=batch_rows), read_schema(columns)
        )
        reader.open()
        self._client = client

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except BaseException:  # the end, too
            self._client.close()
            raise

    def __del__(self) -> None:
        # Dropped in any thread, perhaps in the client's own.
        if (client := getattr(self, "_client", None)) is not None:
            client.abandon()


def _at_least_one(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches, or one without rows: Polars takes the schema of a stream from its first batch."""
    first = next(batches, None)
    yield pa.RecordBatch.from_pylist([], schema) if first is None else first
    yield from batches
