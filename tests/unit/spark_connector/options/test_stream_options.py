"""Options of a stream: defaults, limits that exclude each other, and a sentence for each mistake."""

from __future__ import annotations

import pytest

from dlog.model import MessageId
from spark_connector.errors import BadOptionError, SparkSourceError, spark_errors
from spark_connector.options.log_choice import NamedLogs
from spark_connector.options.read_options import parse_options
from spark_connector.options.stream_options import STREAM_NAMES, StreamOptions, parse_stream_options

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


def test_a_stream_of_several_logs_begins_at_their_tails() -> None:
    found = parse_stream_options({"metadata": "m", "logs": "a,b"})
    assert (found.read.logs, found.read.starting) == (NamedLogs(("a", "b")), "latest")


WRONG: list[tuple[dict[str, str], str]] = [
    (
        {"endingId": "latest"},
        "option 'endingId' is for batch reads: a stream has no end; stop it with a trigger",
    ),
    ({"endingTimestamp": "2013-01-05"}, "option 'endingTimestamp' is for batch reads: a stream has no end"),
    *(
        ({name: text}, f"option {name!r} must be a whole number from 1 to 4611686018427387904, got {text!r}")
        for name in ("maxRecordsPerTrigger", "maxBytesPerTrigger", "minRecordsPerTrigger")
        for text in ("", "0", "-1", "1.5", "many", "10MB")
    ),
    *(
        (
            {"maxTriggerDelay": text},
            "option 'maxTriggerDelay' must be a duration like 500ms, 30s, 15m or 1h, got",
        )
        for text in ("", "soon", "-1s", "5", "1.5s", "1 day", "9999999999s")
    ),
    *(
        ({"failOnDataLoss": text}, f"option 'failOnDataLoss' must be true or false, got {text!r}")
        for text in ("", "maybe", "0")
    ),
    (
        {"maxRecordsPerTrigger": "1", "maxBytesPerTrigger": "1"},
        "options 'maxRecordsPerTrigger' and 'maxBytesPerTrigger' are two limits: set one of them",
    ),
    (
        {"maxRecordsPerTrigger": "5", "minRecordsPerTrigger": "6"},
        "minRecordsPerTrigger 6 is more than maxRecordsPerTrigger 5: swap them",
    ),
    ({"maxRowsPerTrigger": "1"}, "option 'maxrowspertrigger' is unknown: a stream has metadata"),
    ({"logs": "bills"}, "options 'log' and 'logs' each say which logs are read: set only one of them"),
    ({"startingId": '{"orders": "x"}'}, "option 'startingId': message id 'x' is not valid"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_a_mistake_has_its_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(SparkSourceError) as caught, spark_errors():
        parsed(**options)
    assert str(caught.value).startswith(f"DLOG_BAD_OPTION: {sentence}")


def test_every_option_of_streams_has_wrong_values_in_the_table() -> None:
    assert set(STREAM_NAMES) <= {name for wrong, _ in WRONG for name in wrong}


@pytest.mark.parametrize("name", STREAM_NAMES)
def test_a_batch_read_has_none_of_them(name: str) -> None:
    with pytest.raises(BadOptionError, match="is unknown, or is not for batch reads"):
        parse_options(BASE | {name: "1"})
