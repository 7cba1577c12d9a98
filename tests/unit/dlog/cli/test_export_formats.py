"""What an export that is interrupted leaves in its output."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dlog.cli.export.formats import Source, _Guarded, write_parquet


class _InterruptedOnceBegun(pq.ParquetWriter):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        raise KeyboardInterrupt


class _Rows:
    def arrow_batches(self, columns: list[str], batch_rows: int) -> Any:
        raise AssertionError("it was interrupted before")


def test_parquet_that_is_interrupted_before_its_first_rows_is_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A writer without a reference ends its file, as a whole one without rows. The magic bytes are missing."""
    monkeypatch.setattr(pq, "ParquetWriter", _InterruptedOnceBegun)
    output, rows = BytesIO(), _Rows()
    with pytest.raises(KeyboardInterrupt) as interrupted:
        source = Source("orders", rows, None)  # type: ignore[arg-type]  # all that is used of a reader
        next(write_parquet(source, output))
    del interrupted
    assert b"PAR1" not in output.getvalue()[4:]


def test_parquet_whose_writer_is_forgotten_before_any_handler_is_no_file() -> None:
    """An interrupt between two statements: Python drops the new writer first, and then runs the handler."""
    output = BytesIO()
    writer = pq.ParquetWriter(_Guarded(output), pa.schema([("payload", pa.binary())]))
    del writer
    assert output.getvalue()
    assert b"PAR1" not in output.getvalue()[4:]


@pytest.mark.parametrize("sizes", [(4, 9, 4), (1, 1, 1, 1, 1, 1), (3,), (2, 3, 50, 1, 4, 3)])
def test_an_output_that_is_finished_has_all_bytes_in_order(sizes: tuple[int, ...]) -> None:
    output, data = BytesIO(), bytes(range(100))
    guarded, at = _Guarded(output), 0
    for size in sizes:
        assert guarded.write(data[at : at + size]) == size
        at += size
        assert output.getvalue() == data[: max(at - 4, 0)]
    guarded.finish()
    assert output.getvalue() == data[:at]


def test_nothing_is_written_once_an_output_is_dropped() -> None:
    """The end of a file would wait for a pipe that is full."""
    output = BytesIO()
    guarded = _Guarded(output)
    guarded.write(b"01234567")
    guarded.drop()
    assert guarded.write(b"89") == 2
    guarded.finish()
    assert output.getvalue() == b"0123"
