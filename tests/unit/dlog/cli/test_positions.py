"""Positions as they are written on a command line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dlog.cli.positions import as_datetime, check_order, check_times, position_of, time_of
from dlog.model import MessageId
from ledger.errors import ConfigurationError

NOW_US = 1_357_000_000_000_000
AT = MessageId(9, 9, 9)


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("10m", NOW_US - 600_000_000),
        ("0s", NOW_US),
        ("36h", NOW_US - 36 * 3_600_000_000),
        ("2d", NOW_US - 2 * 86_400_000_000),
        ("2013-01-05T00:00", 1_357_344_000_000_000),
        ("2013-01-05", 1_357_344_000_000_000),
        ("2013-01-05T01:00+01:00", 1_357_344_000_000_000),
        ("2013-01-05T00:00:00.000001Z", 1_357_344_000_000_001),
        ("1960-01-01", 0),
        ("999999999d", 0),
        ("\uff11m", None),
        ("10 m", None),
        ("m", None),
        ("-5m", None),
        ("17:420:3", None),
        ("earliest", None),
        ("2013-13-05", None),
    ],
)
def test_times(text: str, time_us: int | None) -> None:
    assert time_of(text, NOW_US) == time_us


@pytest.mark.parametrize("text", ["9999-12-31T23:59-12:00", "9999-12-31T23:59:59.999999-23:59"])
def test_a_time_after_the_last_datetime_is_the_last_one(text: str) -> None:
    found = position_of(text, NOW_US, as_datetime)
    assert found == datetime.max.replace(tzinfo=UTC)


def test_only_a_time_is_looked_up() -> None:
    asked: list[int] = []

    def at_time(time_us: int) -> MessageId:
        asked.append(time_us)
        return AT

    assert position_of("17:420:3", NOW_US, at_time) == MessageId(17, 420, 3)
    assert position_of("earliest", NOW_US, at_time) == "earliest"
    assert position_of("latest", NOW_US, at_time) == "latest"
    assert asked == []
    assert position_of("10m", NOW_US, at_time) == AT
    assert asked == [NOW_US - 600_000_000]
    for wrong in ("", "yesterday", "17:420", "1:2:3:4", "10y", "\u0661:\u0662:\u0663"):
        with pytest.raises(ConfigurationError, match="is no position: use an id LEDGER"):
            position_of(wrong, NOW_US, at_time)


def test_the_end_must_not_be_before_the_start() -> None:
    check_order(MessageId(1, 0, 0), MessageId(1, 0, 0), "a", "b")
    check_order("earliest", MessageId(1, 0, 0), "a", "b")
    check_order(MessageId(1, 0, 0), "latest", "a", "b")
    with pytest.raises(
        ConfigurationError, match=r"--until 1h is before --from 10m: message 1:0:0 comes before 1:0:1"
    ):
        check_order(MessageId(1, 0, 1), MessageId(1, 0, 0), "10m", "1h")


@pytest.mark.parametrize(
    ("start", "until"),
    [
        ("1h", "2h"),
        ("2013-01-02", "2013-01-01"),
        ("latest", "earliest"),
        ("latest", "1h"),
        ("2999-01-01", "1h"),
        ("1h", "earliest"),
        ("1:0:0", "earliest"),
    ],
)
def test_words_and_times_show_by_themselves_that_the_end_is_before_the_start(start: str, until: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"--until {until} is before --from {start}: nothing is between them"
    ):
        check_times(start, until, NOW_US)


@pytest.mark.parametrize(
    ("start", "until"),
    [
        ("2h", "1h"),
        ("1h", "1h"),
        ("earliest", "earliest"),
        ("earliest", "1960-01-01"),
        ("latest", "latest"),
        ("latest", "2999-01-01"),
        ("1:0:0", "1h"),
        ("latest", "1:0:0"),
    ],
)
def test_what_can_be_a_range_is_left_to_the_log(start: str, until: str) -> None:
    check_times(start, until, NOW_US)
