"""Options of a stream, in addition to those of a batch read, checked before anything is opened. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark_connector.errors import BadOptionError
from spark_connector.options.read_options import NAMES, ReadOptions, parse_options
from spark_connector.options.values import flag_option, number_option

STREAM_NAMES = (
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "minRecordsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
)

_OF_BATCHES = ("endingId", "endingTimestamp")
_LIMIT_MAX = 2**62
_DURATION = re.compile(r"(\d{1,9})\s*(ms|s|m|h)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Options of one stream."""

    read: ReadOptions
    rows_max: int | None = None
    """Messages of a micro-batch, at most."""
    bytes_max: int | None = None
    """Payload bytes of a micro-batch, at most; a single larger entry is read all the same."""
    rows_min: int | None = None
    """Messages to wait for before a micro-batch begins."""
    delay_s_max: float = 15 * 60.0
    """How long they are waited for."""
    fail_on_data_loss: bool = True
    """False: continue after messages that were trimmed before they were read, and with a log that was created anew."""


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Check every option of a stream.

    Raises:
        BadOptionError: an option is unknown, missing or wrong; the error names it and its valid values.
    """
    given = {name.lower(): value for name, value in options.items()}
    own = {name.lower() for name in STREAM_NAMES}
    for name in _OF_BATCHES:
        if name.lower() in given:
            raise BadOptionError(
                f"option {name!r} is for batch reads: a stream has no end; stop it with a trigger (availableNow=True) "
                "or filter by message_id",
                option=name,
            )
    known = own | {name.lower() for name in NAMES}
    for name in given:
        if name not in known:
            raise BadOptionError(
                f"option {name!r} is unknown: a stream has "
                f"{', '.join(name for name in (*NAMES, *STREAM_NAMES) if name not in _OF_BATCHES)}",
                option=name,
            )
    rest = {name: value for name, value in given.items() if name not in own}
    found = StreamOptions(
        read=parse_options({"startingId": "latest"} | rest if "startingid" not in rest else rest),
        rows_max=_limit(given, "maxRecordsPerTrigger"),
        bytes_max=_limit(given, "maxBytesPerTrigger"),
        rows_min=_limit(given, "minRecordsPerTrigger"),
        delay_s_max=_duration(given, "maxTriggerDelay", 15 * 60.0),
        fail_on_data_loss=flag_option(given, "failOnDataLoss", True),
    )
    _check_together(found)
    return found


def check_names_of_any_read(options: Mapping[str, str]) -> None:
    """Check that a batch read or a stream has all of these options. Which of them it is, is not known.

    Raises:
        BadOptionError: neither has one of them, or one is only for batch reads and another one only for streams.
    """
    known = {name.lower() for name in (*NAMES, *STREAM_NAMES)}
    for name in options:
        if name.lower() not in known:
            raise BadOptionError(
                f"option {name!r} is unknown: a batch read has {', '.join(NAMES)}; a stream has these without "
                f"{' and '.join(_OF_BATCHES)}, and {', '.join(STREAM_NAMES)}",
                option=name,
            )
    given = {name.lower() for name in options}
    of_batches = [name for name in _OF_BATCHES if name.lower() in given]
    of_streams = [name for name in STREAM_NAMES if name.lower() in given]
    if of_batches and of_streams:
        raise BadOptionError(
            f"option {of_batches[0]!r} is for batch reads, and {of_streams[0]!r} for streams: leave out one of them",
            option=of_streams[0],
        )


def _check_together(found: StreamOptions) -> None:
    if found.rows_max is not None and found.bytes_max is not None:
        raise BadOptionError(
            "options 'maxRecordsPerTrigger' and 'maxBytesPerTrigger' are two limits: set one of them",
            option="maxBytesPerTrigger",
        )
    if found.rows_min is not None and found.rows_max is not None and found.rows_min > found.rows_max:
        raise BadOptionError(
            f"minRecordsPerTrigger {found.rows_min} is more than maxRecordsPerTrigger {found.rows_max}: swap them",
            option="minRecordsPerTrigger",
        )


def _limit(given: Mapping[str, str], name: str) -> int | None:
    return number_option(given, name, 1, 1, _LIMIT_MAX) if name.lower() in given else None


def _duration(given: Mapping[str, str], name: str, default_s: float) -> float:
    text = given.get(name.lower())
    if text is None:
        return default_s
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise BadOptionError(
            f"option {name!r} must be a duration like 500ms, 30s, 15m or 1h, got {text!r}", option=name
        )
    return int(found[1]) * _UNIT_S[found[2]]
