"""Logs of real bookies in pyarrow, pandas, Polars and DuckDB."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import dlog
from dlog.errors import LogNotFoundError, TrimmedError
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from ledger.errors import ConfigurationError, UnauthorizedError

pa = pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install '.[arrow]'")
scan = pytest.importorskip("dlog.arrow").scan

pytestmark = pytest.mark.integration

ENTRIES, MESSAGES = 40, 50


@pytest.fixture
def filled(cluster: Standalone, log: str) -> Iterator[list[dlog.Message]]:
    """Messages of equal sizes, and one entry of others, over two ledgers."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            for number in range(ENTRIES):
                if number == ENTRIES // 2:
                    writer.rotate()
                writer.append_many(
                    [b"%05d" % (number * MESSAGES + each) for each in range(MESSAGES)],
                    keys=[b"k%d" % (each % 5) for each in range(MESSAGES)],
                )
            writer.append_many([None, b"", b"\xff"], headers=[[(b"a", b"1")], [], []])
        yield list(client.reader(log, until="latest"))


def rows_of(messages: list[dlog.Message]) -> list[tuple[Any, ...]]:
    return [(one.id.to_bytes(), one.key, one.payload) for one in messages]


COLUMNS = ["message_id", "key", "value"]


def test_a_table_has_every_message(cluster: Standalone, log: str, filled: list[dlog.Message]) -> None:
    before = datetime.now(UTC) - timedelta(minutes=10)
    with dlog.connect(cluster.uri) as client:
        table = client.reader(log, until="latest").to_arrow(
            [*dlog.arrow.scan(cluster.uri, log).schema.names, "headers"]
        )
    assert [tuple(row[name] for name in COLUMNS) for row in table.select(COLUMNS).to_pylist()] == rows_of(
        filled
    )
    assert set(table["log"].to_pylist()) == {log}
    assert before < min(table["publish_time"].to_pylist()) <= datetime.now(UTC)
    assert table["headers"].to_pylist()[-3:] == [[{"key": "a", "value": b"1"}], [], []]
    ids = zip(*(table[name].to_pylist() for name in ("ledger_id", "entry_id", "batch_index")), strict=True)
    assert [MessageId(*each) for each in ids] == [one.id for one in filled]
    table.validate(full=True)


async def test_the_same_for_asyncio(cluster: Standalone, log: str, filled: list[dlog.Message]) -> None:
    async with dlog.aio.connect(cluster.uri) as client:
        async with client.reader(log, until="latest") as reader:
            whole = await reader.to_arrow(COLUMNS)
        parts = []
        async with client.reader(log, until="latest") as reader:
            async for batch in reader.arrow_batches(COLUMNS, batch_rows=64):
                parts.append(batch)
    assert [batch.num_rows for batch in parts] == [64] * (len(filled) // 64) + [len(filled) % 64]
    assert pa.Table.from_batches(parts).equals(whole)
    assert [tuple(row.values()) for row in whole.to_pylist()] == rows_of(filled)


def with_pandas(stream: Any) -> list[tuple[Any, ...]]:
    pytest.importorskip("pandas", reason="pandas is missing: pip install '.[dev]'")
    import pandas

    frame: pandas.DataFrame = stream.read_pandas()
    frame = frame.astype(object).where(frame.notna(), None)
    return list(frame.itertuples(index=False, name=None))


def with_polars(stream: Any) -> list[tuple[Any, ...]]:
    pytest.importorskip("polars", reason="Polars is missing: pip install '.[dev]'")
    import polars

    return list(polars.from_arrow(stream).rows())


def with_duckdb(stream: Any) -> list[tuple[Any, ...]]:
    pytest.importorskip("duckdb", reason="DuckDB is missing: pip install '.[dev]'")
    import duckdb

    return list(duckdb.connect().execute("select * from stream").fetchall())


@pytest.mark.parametrize("reads", [with_pandas, with_polars, with_duckdb])
def test_each_library_reads_a_log_in_one_line(
    cluster: Standalone, log: str, filled: list[dlog.Message], reads: Callable[[Any], list[tuple[Any, ...]]]
) -> None:
    """Null keys and tombstones stay null, and differ from empty ones."""
    assert reads(scan(cluster.uri, log, columns=COLUMNS)) == rows_of(filled)
    with dlog.connect(cluster.uri) as client:
        table = client.reader(log, until="latest").to_arrow(COLUMNS)
    assert reads(table.to_reader()) == rows_of(filled)


@pytest.mark.parametrize("reads", [with_pandas, with_polars, with_duckdb])
def test_each_library_reads_a_log_without_messages(
    cluster: Standalone, log: str, reads: Callable[[Any], list[tuple[Any, ...]]]
) -> None:
    """As a job does that begins where the one before ended, and finds nothing new."""
    with dlog.connect(cluster.uri) as client:
        client.create(log)
    assert reads(scan(cluster.uri, log)) == []
    assert reads(scan(cluster.uri, log, columns=[*COLUMNS, "headers", "producer_id", "sequence"])) == []


def test_duckdb_aggregates_times_and_numbers(
    cluster: Standalone, log: str, filled: list[dlog.Message]
) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is missing: pip install '.[dev]'")
    import duckdb

    stream = scan(cluster.uri, log)
    assert stream is not None  # DuckDB finds it by its name
    found = duckdb.connect().execute(
        "select key, count(*), min(epoch_us(publish_time)) from stream where key is not null group by key order by key"
    )
    keys = [b"k%d" % number for number in range(5)]
    first = filled[0].append_time_us
    assert found.fetchall() == [(key, ENTRIES * MESSAGES // 5, first) for key in keys]


def test_a_scan_has_a_range(cluster: Standalone, log: str, filled: list[dlog.Message]) -> None:
    def payloads(**said: Any) -> list[bytes | None]:
        found: list[bytes | None] = (
            scan(cluster.uri, log, columns=["value"], **said).read_all()["value"].to_pylist()
        )
        return found

    expected = [one.payload for one in filled]
    assert payloads(last=5) == expected[-5:]
    assert payloads(start=filled[60].id, until=filled[70].id) == expected[60:70]
    assert payloads(after=filled[60].id, until=str(filled[70].id)) == expected[61:70]
    assert payloads(start="latest") == []


def clients() -> int:
    return sum(thread.name == "dlog client" for thread in threading.enumerate())


def ends(count: int) -> bool:
    give_up_at = time.monotonic() + 20
    while clients() != count and time.monotonic() < give_up_at:
        time.sleep(0.01)
    return clients() == count


def test_a_scan_has_a_password(cluster: Standalone, log: str) -> None:
    with (
        dlog.connect(cluster.uri, config=dlog.LogConfig(password=b"secret")) as client,
        client.open_writer(log, create=True) as writer,
    ):
        writer.append(b"x")
    assert scan(cluster.uri, log, password=b"secret").read_all()["value"].to_pylist() == [b"x"]
    for wrong in ({}, {"password": b"another"}):
        with pytest.raises(UnauthorizedError):
            scan(cluster.uri, log, **wrong).read_all()


@pytest.mark.usefixtures("filled")
def test_the_client_of_a_scan_ends_with_it(cluster: Standalone, log: str) -> None:
    """Read to its end, refused, or dropped before, in the middle, or in another thread."""
    before = clients()
    assert scan(cluster.uri, log).read_all().num_rows and clients() == before
    with pytest.raises(LogNotFoundError):
        scan(cluster.uri, "missing")
    with pytest.raises(ConfigurationError, match="column 'offset' is unknown"):
        scan(cluster.uri, log, columns=["offset"])
    with pytest.raises(ConfigurationError, match="policy 'gap'"):
        scan(cluster.uri, log, on_trimmed="gap")
    with pytest.raises(ConfigurationError, match="a scan needs an end: leave out until=None"):
        scan(cluster.uri, log, until=None)  # would wait for messages without end
    assert clients() == before
    unread = scan(cluster.uri, log)
    half = scan(cluster.uri, log, batch_rows=10)
    assert half.read_next_batch().num_rows == 10
    assert clients() == before + 2
    del unread, half
    gc.collect()
    assert ends(before)
    elsewhere = [scan(cluster.uri, log)]
    thread = threading.Thread(target=elsewhere.clear)
    thread.start()
    thread.join()
    assert ends(before)


def test_an_error_while_a_scan_is_read_is_that_of_the_reader(
    cluster: Standalone, log: str, filled: list[dlog.Message]
) -> None:
    stream = scan(cluster.uri, log, filled[0].id, columns=["value"])
    with dlog.connect(cluster.uri) as client:
        client.shrink(log, filled[-1].id)
    before = clients()
    trimmed = scan(cluster.uri, log, filled[0].id)
    with pytest.raises(TrimmedError):
        trimmed.read_all()
    assert ends(before)
    del stream
