"""What `dlog export` writes: each format takes a source and an output, and yields how many messages it has written.

A file has messages only, so that any program can read it: a gap goes to a function that reports it.

jsonl is what `dlog read -o json` prints, without loss. CSV has columns of text, and neither headers nor a difference
between null and empty that most programs would see. Parquet has the columns of docs/arrow.md, headers included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from io import RawIOBase
from typing import TYPE_CHECKING, BinaryIO

from dlog.cli.output import as_json, json_instant
from ledger.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

    from dlog.blocking.reader import Reader
    from dlog.core.tailing import Gap
    from dlog.read.batch import MessageBatch

_PARQUET_MAGIC_BYTES = 4
_ROW_GROUP_ROWS = 65_536
"""Rows of a row group of Parquet. With large messages it ends at 32 MiB (dlog/arrow/columns.py)."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is exported."""

    log: str
    reader: Reader
    on_gap: Callable[[Gap], None] | None
    """Gets the gaps that the reader returns; None for a reader that returns none."""


class ExportFormat(StrEnum):
    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


def check_format(form: ExportFormat, is_terminal: bool) -> None:
    """Refuse what cannot be written here, before anything is read.

    Raises:
        MissingExtraError: Parquet needs pyarrow.
        ConfigurationError: Parquet on a terminal.
    """
    if form is ExportFormat.PARQUET:
        from ledger.extras import require

        require("dlog export --to parquet", "arrow", "numpy", "pyarrow")
        if is_terminal:
            raise ConfigurationError("parquet is not text for a terminal: pass a FILE, or a pipe behind -")


def write_jsonl(source: Source, output: BinaryIO) -> Iterator[int]:
    for batch in _batches(source):
        output.write(b"".join(map(as_json, batch)))
        yield len(batch)


def write_csv(source: Source, output: BinaryIO) -> Iterator[int]:
    """Every field is quoted, except null: it is empty, without quotes.

    Raises:
        ConfigurationError: a key or a payload is not UTF-8.
    """
    output.write(b"id,time,key,payload\n")
    for batch in _batches(source):
        output.write(b"".join(_csv_rows(batch)))
        yield len(batch)


def _csv_rows(batch: MessageBatch) -> Iterator[bytes]:
    time = json_instant(batch.append_time_us) or ""
    for message in batch:
        key = _csv_field(message.key, message.id, "key")
        payload = _csv_field(message.payload, message.id, "payload")
        yield b"%b,%b,%b,%b\n" % (str(message.id).encode(), time.encode(), key, payload)


def _csv_field(value: bytes | None, message_id: object, what: str) -> bytes:
    if value is None:
        return b""
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"the {what} of message {message_id} is not UTF-8, which CSV needs: use --to parquet or --to jsonl"
        ) from error
    return b'"%b"' % value.replace(b'"', b'""')


def write_parquet(source: Source, output: BinaryIO) -> Iterator[int]:
    from pyarrow.parquet import ParquetWriter

    from dlog.arrow.read_schema import read_schema

    columns = [*read_schema().names, "headers"]
    guarded = _Guarded(output)
    try:
        writer = ParquetWriter(guarded, read_schema(columns))
        for batch in _arrow_batches(source, columns):
            writer.write_batch(batch)
            yield batch.num_rows
        writer.close()
        guarded.finish()
    except BaseException:
        guarded.drop()
        raise


def _batches(source: Source) -> Iterator[MessageBatch]:
    from dlog.core.tailing import Gap

    for item in source.reader.batch_items():
        if not isinstance(item, Gap):
            yield item
        elif source.on_gap is not None:
            source.on_gap(item)


def _arrow_batches(source: Source, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if source.on_gap is None:
        yield from source.reader.arrow_batches(columns, batch_rows=_ROW_GROUP_ROWS)
        return
    # Readers that may return gaps make no record batches.
    from dlog.arrow.columns import ArrowColumns
    from dlog.arrow.entry_columns import columns_of_batch
    from dlog.arrow.read_schema import read_schema

    rows = ArrowColumns(read_schema(columns), source.log, _ROW_GROUP_ROWS)
    for batch in _batches(source):
        yield from rows.add(columns_of_batch(batch))
    if not rows.is_empty:
        yield rows.take()


class _Guarded(RawIOBase):
    """An output whose last bytes come with `finish`, and nothing more after `drop`. Closing it leaves it open.

    A writer ends its file properly also when it is left by an exception or only forgotten, which may happen before the
    first statement of any handler. Without the last bytes of the format what was cut off does not look whole.
    """

    def __init__(self, output: BinaryIO) -> None:
        self._output: BinaryIO | None = output
        self._last = b""

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # pyarrow passes bytes
        if self._output is not None:
            whole = self._last + data
            self._output.write(memoryview(whole)[:-_PARQUET_MAGIC_BYTES])
            self._last = whole[-_PARQUET_MAGIC_BYTES:]
        return len(data)

    def finish(self) -> None:
        if self._output is not None:
            self._output.write(self._last)
        self.drop()

    def drop(self) -> None:
        self._output = None


WRITERS: dict[ExportFormat, Callable[[Source, BinaryIO], Iterator[int]]] = {
    ExportFormat.PARQUET: write_parquet,
    ExportFormat.JSONL: write_jsonl,
    ExportFormat.CSV: write_csv,
}
