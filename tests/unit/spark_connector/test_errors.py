"""What Spark shows of an error: the sentence with its token comes before every traceback."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pyspark.sql.datasource
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.util import handle_worker_exception

from dlog.errors import LogNotFoundError, TrimmedError
from ledger.errors import LogStoreError, MetadataUnavailableError, UnauthorizedError
from spark_connector.errors import BadOptionError, PartitionDataLossError, SparkSourceError, spark_errors
from spark_connector.source import DlogDataSource
from tests.helpers.spark import needs_pyspark

VALUE = StructType([StructField("value", BinaryType())])


def shown(raise_it: object) -> list[str]:
    """The lines that a worker of Spark sends to the JVM for this error."""
    sent = io.BytesIO()
    try:
        with spark_errors():
            fail_deep_inside(raise_it)
    except SparkSourceError as error:
        handle_worker_exception(error, sent)
    return sent.getvalue()[8:].decode().splitlines()


def fail_deep_inside(error: object) -> None:
    assert isinstance(error, LogStoreError)
    try:
        raise OSError("of the system")
    except OSError as cause:
        raise error from cause


@pytest.mark.parametrize(
    ("error", "token"),
    [
        (BadOptionError("option 'log' is missing;\ngive it", option="log"), "DLOG_BAD_OPTION"),
        (LogNotFoundError("log a/b does not exist"), "DLOG_NOT_FOUND"),
        (TrimmedError("startingId 1:0:0 was trimmed away"), "DLOG_DATA_LOSS"),
        (PartitionDataLossError("messages are gone"), "DLOG_DATA_LOSS"),
        (MetadataUnavailableError("no ZooKeeper answered"), "DLOG_UNAVAILABLE"),
        (LogStoreError("anything else"), "DLOG_FAILED"),
    ],
)
@pytest.mark.parametrize("simplified", [True, False])
def test_the_sentence_is_the_first_line(
    monkeypatch: pytest.MonkeyPatch, error: LogStoreError, token: str, simplified: bool
) -> None:
    """The place where it was raised follows, for who repairs it. Spark simplifies tracebacks unless told otherwise."""
    if simplified:
        monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")
    lines = shown(error)
    assert lines[0] == f"{token}: {' '.join(str(error).split())}"
    assert any("in fail_deep_inside" in line for line in lines[1:])
    assert lines[-1].startswith(f"spark_connector.errors.SparkSourceError: {token}: ")


@pytest.mark.parametrize(
    "error",
    [
        UnauthorizedError("bookie b1 refuses this client", ledger_id=7, bookie_id="b1"),
        UnauthorizedError("ZooKeeper does not accept the credential of ?auth_file"),
    ],
)
def test_an_error_of_authorization_without_a_wrong_password_keeps_its_sentence(error: LogStoreError) -> None:
    """What a log with a password is reported as: tests/spark/test_plan_and_read.py."""
    assert shown(error)[0] == f"DLOG_BAD_OPTION: {error}"


WRITERS = [
    lambda source, overwrite: source.writer(VALUE, overwrite),
    lambda source, overwrite: source.streamWriter(VALUE, overwrite),
]


@needs_pyspark("4.1", "logs are written")
@pytest.mark.parametrize("write", WRITERS, ids=["batch", "stream"])
def test_overwriting_is_refused_by_us(write: Callable[[DlogDataSource, bool], object]) -> None:
    """Not by the class of Spark that lacks a method, nor by what Spark does after that."""
    source = DlogDataSource({"metadata": "memory:x", "log": "orders"})
    with pytest.raises(
        SparkSourceError, match=r"^DLOG_NOT_SUPPORTED: a log cannot be overwritten, it only grows: "
    ):
        write(source, True)


@pytest.mark.parametrize("write", WRITERS, ids=["batch", "stream"])
def test_a_pyspark_that_cannot_write_is_refused_in_a_sentence(
    write: Callable[[DlogDataSource, bool], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = DlogDataSource({"metadata": "memory:x", "log": "orders"})
    monkeypatch.delattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter", raising=False)
    with pytest.raises(
        SparkSourceError, match=r"^DLOG_NOT_SUPPORTED: writing to a log needs PySpark 4.1 or newer"
    ):
        write(source, False)


def test_a_pyspark_without_limits_of_streams_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PySpark 4.0 and 4.1 lack a module. The reader is made all the same, since Spark wants to stop it later."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.delitem(sys.modules, "spark_connector.stream.reader", raising=False)
    stream = DlogDataSource({"metadata": "memory:x", "log": "orders"}).streamReader(StructType())
    for attempt in (
        stream.initialOffset,
        lambda: stream.latestOffset({}, None),
        lambda: stream.partitions({}, {}),
        lambda: stream.read(None),
    ):
        with pytest.raises(SparkSourceError, match=r"^DLOG_NOT_SUPPORTED: .* needs PySpark 4\.2 or newer"):
            attempt()


@pytest.mark.parametrize("other", [{}, {"maxRecordsPerTrigger": "5"}, {"endingId": "latest"}])
def test_the_error_of_an_unknown_option_does_not_guess_what_reads(other: dict[str, str]) -> None:
    """Spark asks for the schema before it asks for a batch or a stream."""
    source = DlogDataSource({"metadata": "memory:x", "log": "orders", "colour": "red"} | other)
    with pytest.raises(SparkSourceError, match="DLOG_BAD_OPTION: option 'colour' is unknown: ") as raised:
        source.schema()
    assert "not for" not in str(raised.value)
    assert "batchRows" in str(raised.value) and "failOnDataLoss" in str(raised.value)


@pytest.mark.parametrize("of_batch", ["endingId", "endingTimestamp"])
@pytest.mark.parametrize("of_stream", ["failOnDataLoss", "maxRecordsPerTrigger"])
def test_an_option_of_batches_next_to_one_of_streams_is_refused_whatever_reads(
    of_batch: str, of_stream: str
) -> None:
    """A batch read with `failOnDataLoss`, as Kafka's source has it, is not refused with 'a stream has no end'."""
    source = DlogDataSource({"metadata": "memory:x", "log": "orders", of_batch: "x", of_stream: "x"})
    with pytest.raises(SparkSourceError) as raised:
        source.schema()
    assert str(raised.value) == (
        f"DLOG_BAD_OPTION: option '{of_batch}' is for batch reads, and '{of_stream}' for streams: leave out one of "
        "them"
    )
