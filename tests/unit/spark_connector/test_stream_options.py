"""Options of a stream: defaults, limits that exclude each other, and a sentence for each mistake."""

from __future__ import annotations

import pytest

from dlog.model import MessageId
from spark_connector.errors import BadOptionError
from spark_connector.options import parse_options
from spark_connector.stream_options import STREAM_NAMES, StreamOptions, parse_stream_options

BASE = {"metadata": "sqlite:///m.db", "log": "orders"}


def parsed(**options: str) -> StreamOptions:
    return parse_stream_options(BASE | options)


def test_a_stream_begins_at_the_tail_unless_told_otherwise() -> None:
    assert parsed().read.starting == "latest"
    assert parsed(startingId="earliest").read.starting == "earliest"
    assert parsed(STARTINGID="1:2:3").read.starting == MessageId(1, 2, 3)


def test_defaults_have_no_limit_and_fail_on_data_loss() -> None:
    found = parsed()
    assert (found.rows_max, found.bytes_max, found.rows_min) == (None, None, None)
    assert (found.fail_on_data_loss, found.delay_s_max) == (True, 900.0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("3s", 3.0), ("15m", 900.0), ("2h", 7200.0), (" 5 s ", 5.0)]
)
def test_a_delay_is_a_duration(text: str, seconds: float) -> None:
    assert parsed(maxTriggerDelay=text).delay_s_max == seconds


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"endingId": "latest"}, "'endingId' is for batch reads"),
        ({"endingTimestamp": "2013-01-05"}, "'endingTimestamp' is for batch reads"),
        ({"maxRecordsPerTrigger": "0"}, "'maxRecordsPerTrigger' must be a whole number from 1"),
        ({"maxRecordsPerTrigger": "many"}, "'maxRecordsPerTrigger' must be a whole number from 1"),
        ({"maxBytesPerTrigger": "-1"}, "'maxBytesPerTrigger' must be a whole number from 1"),
        ({"minRecordsPerTrigger": "1.5"}, "'minRecordsPerTrigger' must be a whole number from 1"),
        ({"maxTriggerDelay": "soon"}, "'maxTriggerDelay' must be a duration like 500ms"),
        ({"maxTriggerDelay": "-1s"}, "'maxTriggerDelay' must be a duration like 500ms"),
        ({"failOnDataLoss": "maybe"}, "'failOnDataLoss' must be true or false"),
        ({"maxRecordsPerTrigger": "1", "maxBytesPerTrigger": "1"}, "are two limits: set one of them"),
        ({"maxRecordsPerTrigger": "5", "minRecordsPerTrigger": "6"}, "minRecordsPerTrigger 6 is more than"),
        ({"maxRowsPerTrigger": "1"}, "'maxrowspertrigger' is unknown: a stream has metadata"),
    ],
)
def test_a_mistake_has_its_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadOptionError, match=sentence):
        parsed(**options)


@pytest.mark.parametrize("name", STREAM_NAMES)
def test_a_batch_read_has_none_of_them(name: str) -> None:
    with pytest.raises(BadOptionError, match="is unknown, or is not for batch reads"):
        parse_options(BASE | {name: "1"})
