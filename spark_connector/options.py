"""Options of the Spark source, checked before anything is opened. Pure.

Those of streams only: `stream_options.py`.

Spark's option names ignore case, so they are compared in lower case and named in messages as documented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeVar

from dlog.model import MessageId, check_log_name
from ledger.digits import whole_number
from ledger.errors import InvalidNameError
from spark_connector.errors import BadOptionError

StartingBound = MessageId | Literal["earliest", "latest"]
"""First id, inclusive."""

EndingBound = MessageId | Literal["latest"]
"""End, exclusive; `latest` is the tail at planning time."""

T = TypeVar("T")

_MILLISECONDS_MAX = 2**62 // 1000

NAMES = (
    "metadata",
    "namespace",
    "log",
    "path",
    "startingId",
    "endingId",
    "startingTimestamp",
    "endingTimestamp",
    "includeHeaders",
    "minPartitions",
    "targetPartitionBytes",
    "batchRows",
    "readTimeoutMs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of one batch read."""

    metadata: str
    log: str
    namespace: str = "default"
    starting: StartingBound = "earliest"
    ending: EndingBound = "latest"
    starting_time_us: int | None = None
    """The first message appended at or after it is where the read begins, whatever `starting` is."""
    ending_time_us: int | None = None
    """The first message appended at or after it is not read any more, whatever `ending` is."""
    include_headers: bool = False
    partitions_min: int = 1
    partition_bytes: int = 64 * 1024 * 1024
    """A Spark task has a fixed cost of some 50 ms; with 64 MiB that is less than a tenth of its work."""
    batch_rows: int = 8192
    """The fastest of the sizes measured, 1,024 to 65,536 rows."""
    read_timeout_ms: int = 60_000
    """How long a task waits for one read before the query fails."""


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Check every option that batch reads and streams have.

    Raises:
        BadOptionError: an option is unknown, missing or wrong; the error names it and its valid values.
    """
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given)
    starting = _starting(given.get("startingid", "earliest"))
    ending = _ending(given.get("endingid", "latest"))
    if isinstance(starting, MessageId) and isinstance(ending, MessageId) and starting > ending:
        raise BadOptionError(
            f"startingId {starting} is after endingId {ending}: swap them",
            option="startingId",
        )
    starting_time_us, ending_time_us = _time(given, "startingTimestamp"), _time(given, "endingTimestamp")
    if starting_time_us is not None and ending_time_us is not None and starting_time_us > ending_time_us:
        raise BadOptionError(
            f"startingTimestamp {given['startingtimestamp']} is after endingTimestamp {given['endingtimestamp']}: swap "
            "them",
            option="startingTimestamp",
        )
    return ReadOptions(
        metadata=_required(given, "metadata", "the address that `dlog standalone` prints"),
        log=_log(given),
        namespace=_name("namespace", given.get("namespace", "default")),
        starting=starting,
        ending=ending,
        starting_time_us=starting_time_us,
        ending_time_us=ending_time_us,
        include_headers=flag_option(given, "includeHeaders", False),
        partitions_min=number_option(given, "minPartitions", 1, 1, 100_000),
        partition_bytes=number_option(given, "targetPartitionBytes", 64 * 1024 * 1024, 1, 2**40),
        batch_rows=number_option(given, "batchRows", 8192, 1, 1_000_000),
        read_timeout_ms=number_option(given, "readTimeoutMs", 60_000, 1, 24 * 3600 * 1000),
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = {name.lower() for name in NAMES}
    for name in given:
        if name not in known:
            raise BadOptionError(
                f"option {name!r} is unknown, or is not for batch reads, which have {', '.join(NAMES)}",
                option=name,
            )


def _required(given: Mapping[str, str], name: str, what: str) -> str:
    value = given.get(name.lower(), "")
    if not value:
        raise BadOptionError(f"option {name!r} is missing: set it to {what}", option=name)
    return value


def _log(given: Mapping[str, str]) -> str:
    if "log" in given and "path" in given and given["log"] != given["path"]:
        both = f"'log' ({given['log']!r}) and 'path' ({given['path']!r})"
        raise BadOptionError(f"options {both} name two logs: set only one of them", option="log")
    alias = {"log": given.get("log") or given.get("path", "")}
    return _name("log", _required(alias, "log", "the name of the log to read"))


def _name(option: str, value: str) -> str:
    return _convert(option, value, check_log_name)


def _starting(value: str) -> StartingBound:
    if value == "earliest":
        return "earliest"
    if value == "latest":
        return "latest"
    return _convert("startingId", value, MessageId.parse, "or use earliest or latest")


def _ending(value: str) -> EndingBound:
    if value == "latest":
        return "latest"
    return _convert("endingId", value, MessageId.parse, "or use latest")


def _time(given: Mapping[str, str], name: str) -> int | None:
    """Microseconds since 1970."""
    text = given.get(name.lower())
    if text is None:
        return None
    if (milliseconds := whole_number(text.strip(), _MILLISECONDS_MAX)) is not None:
        return milliseconds * 1000
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise BadOptionError(
            f"option {name!r} must be a time like 2013-01-05T12:30 (UTC, or with a zone like +01:00), or milliseconds "
            f"since 1970, got {text!r}",
            option=name,
        ) from error
    return max(0, round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1e6))


def _convert(option: str, value: str, parse: Callable[[str], T], otherwise: str = "") -> T:
    try:
        return parse(value)
    except InvalidNameError as error:
        tail = f", {otherwise}" if otherwise else ""
        raise BadOptionError(f"option {option!r}: {error}{tail}", option=option) from error


def number_option(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    number = whole_number(text.strip().replace("_", ""), most)
    if number is None or number < least:
        raise BadOptionError(
            f"option {name!r} must be a whole number from {least} to {most}, got {text!r}", option=name
        )
    return number


def flag_option(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise BadOptionError(f"option {name!r} must be true or false, got {text!r}", option=name)
    return text.lower() == "true"
