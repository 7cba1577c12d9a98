"""Each option's good values, and the sentence that each wrong one gets."""

from __future__ import annotations

import pytest

from dlog.model import MessageId
from spark_connector.errors import BadOptionError, SparkSourceError, spark_errors
from spark_connector.options import ReadOptions, parse_options

GOOD = {"metadata": "sqlite:////data/meta.db", "log": "orders"}


def test_two_options_are_enough() -> None:
    assert parse_options(GOOD) == ReadOptions(metadata="sqlite:////data/meta.db", log="orders")


def test_names_ignore_case_and_path_is_a_log() -> None:
    options = parse_options({"METADATA": "memory:m", "Path": "orders", "STARTINGID": "1:2:3"})
    assert (options.log, options.starting) == ("orders", MessageId(1, 2, 3))


def test_words_and_ids_bound_a_read() -> None:
    options = parse_options({**GOOD, "startingId": "latest", "endingId": "7:0:0"})
    assert (options.starting, options.ending) == ("latest", MessageId(7, 0, 0))


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0", 0),
        ("1357388100123", 1_357_388_100_123_000),
        ("2013-01-05", 1_357_344_000_000_000),
        (" 2013-01-05T12:15:00.000001 ", 1_357_388_100_000_001),
        ("2013-01-05T13:15+01:00", 1_357_388_100_000_000),
        ("1950-01-01", 0),
    ],
)
def test_a_time_is_text_in_utc_or_milliseconds(text: str, microseconds: int) -> None:
    options = parse_options({**GOOD, "startingTimestamp": text, "endingTimestamp": text})
    assert (options.starting_time_us, options.ending_time_us) == (microseconds, microseconds)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"metadata": ""},
            "option 'metadata' is missing: set it to the address that `dlog standalone` prints",
        ),
        ({"log": ""}, "option 'log' is missing: set it to the name of the log to read"),
        ({"log": "a/b"}, "option 'log': name 'a/b' is not valid"),
        ({"path": "other"}, "options 'log' ('orders') and 'path' ('other') name two logs"),
        ({"namespace": ".."}, "option 'namespace': name '..' is not valid"),
        ({"startingId": "7"}, "option 'startingId': message id '7' is not valid"),
        ({"startingId": "Earliest"}, "or use earliest or latest"),
        ({"endingId": "earliest"}, "or use latest"),
        ({"startingId": "2:0:0", "endingId": "1:0:0"}, "startingId 2:0:0 is after endingId 1:0:0"),
        ({"startingTimestamp": "noon"}, "option 'startingTimestamp' must be a time like 2013-01-05T12:30"),
        ({"endingTimestamp": "-1"}, "option 'endingTimestamp' must be a time like 2013-01-05T12:30"),
        (
            {"startingTimestamp": "2013-01-06", "endingTimestamp": "2013-01-05"},
            "startingTimestamp 2013-01-06 is after endingTimestamp 2013-01-05",
        ),
        ({"includeHeaders": "yes"}, "option 'includeHeaders' must be true or false, got 'yes'"),
        (
            {"minPartitions": "7" * 5000},
            "option 'minPartitions' must be a whole number from 1 to 100000, got '77",
        ),
        ({"minPartitions": "0"}, "option 'minPartitions' must be a whole number from 1 to 100000, got '0'"),
        ({"targetPartitionBytes": "64MiB"}, "option 'targetPartitionBytes' must be a whole number"),
        ({"batchRows": "-1"}, "got '-1'"),
        ({"readTimeoutMs": "²"}, "got '²'"),
        (
            {"startingOffsets": "x"},
            "option 'startingoffsets' is unknown, or is not for batch reads, which have metadata",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_limit(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadOptionError) as caught:
        parse_options({**GOOD, **wrong})
    assert sentence in str(caught.value)


def test_errors_reach_spark_with_a_token() -> None:
    with pytest.raises(SparkSourceError) as caught, spark_errors():
        parse_options({})
    assert str(caught.value).startswith("DLOG_BAD_OPTION: option 'metadata' is missing")
    assert caught.value.token == "DLOG_BAD_OPTION"
