"""Positions on the command line: an id, `earliest`, `latest`, a time, or how long ago. The last two functions ask."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from dlog.cli.options import administer
from dlog.cli.waiting import until_available
from ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from dlog.client import LogClient
    from dlog.model import MessageId
    from dlog.read.range import AtTime

    Position = MessageId | str
    WantedPosition = MessageId | AtTime | str

T = TypeVar("T")

_AGO = re.compile(r"([0-9]{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EPOCH = datetime.fromtimestamp(0, UTC)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_ID = re.compile(r"[0-9]+:[0-9]+:[0-9]+")


def time_of(text: str, now_us: int) -> int | None:
    """Microseconds since 1970 if the text is a time: `10m`, `2013-01-05`, `2013-01-05T00:00+01:00`. None if it is not.

    A time without a zone is UTC, as the commands print times.
    """
    if found := _AGO.fullmatch(text):
        return max(0, now_us - int(found[1]) * _SECONDS[found[2]] * 1_000_000)
    try:
        found_time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found_time.tzinfo is None:
        found_time = found_time.replace(tzinfo=UTC)
    return max(0, (found_time - _EPOCH) // timedelta(microseconds=1))


def position_of(text: str, now_us: int, at_time: Callable[[int], T]) -> MessageId | str | T:
    """What a reader takes as its start or end; a time, in microseconds since 1970, is what `at_time` makes of it.

    Raises:
        ConfigurationError: it is none of the forms.
    """
    from dlog.model import MessageId

    if text in ("earliest", "latest"):
        return text
    if _ID.fullmatch(text):
        return MessageId.parse(text)
    time_us = time_of(text, now_us)
    if time_us is None:
        raise ConfigurationError(
            f"{text!r} is no position: use an id LEDGER:ENTRY:BATCH like 17:420:3, a time like 2013-01-05T12:30, how "
            "long ago like 10m (s, m, h, d), earliest or latest"
        )
    return at_time(time_us)


def as_datetime(time_us: int) -> datetime:
    """For the client, which looks times up itself. A time that a zone puts after the last datetime is that one."""
    return _EPOCH + timedelta(microseconds=min(time_us, _LAST_US))


def check_order(start: Position, until: Position, start_text: str, until_text: str) -> None:
    """ConfigurationError: of two ids the end is before the start."""
    from dlog.model import MessageId

    if isinstance(start, MessageId) and isinstance(until, MessageId) and until < start:
        raise ConfigurationError(
            f"--until {until_text} is before --from {start_text}: message {until} comes before {start}"
        )


def check_times(start_text: str, until_text: str, now_us: int) -> None:
    """ConfigurationError: the words or times alone show that the end is before the start."""
    start, until = _time_rank(start_text, now_us), _time_rank(until_text, now_us)
    if until_text == "earliest" != start_text or (start is not None and until is not None and until < start):
        raise ConfigurationError(
            f"--until {until_text} is before --from {start_text}: nothing is between them"
        )


def _time_rank(text: str, now_us: int) -> float | None:
    """A number that orders words and times; None for an id. The future is where the log ends now."""
    if text in ("earliest", "latest"):
        return -1 if text == "earliest" else math.inf
    time_us = time_of(text, now_us)
    return math.inf if time_us is not None and time_us >= now_us else time_us


def bounds_of(
    log: str, start: str, until: str, metadata: str, namespace: str, *, accept_loss: bool = False
) -> tuple[Position, Position]:
    """Both positions; the cluster is asked only for times and ids. `accept_loss`: as of `Places`.

    Raises:
        ConfigurationError: one has no known form, or the end is before the start.
        The errors of `range_of`; UnavailableError once that has failed for as long as a reader waits.
    """
    from dlog.model import MessageId
    from dlog.read.config import ReaderConfig
    from dlog.read.range import AtTime

    now_us = time.time_ns() // 1000
    wanted = position_of(start, now_us, AtTime), position_of(until, now_us, AtTime)
    check_times(start, until, now_us)
    if isinstance(wanted[0], AtTime | MessageId) or isinstance(wanted[1], AtTime | MessageId):
        timeout_s = ReaderConfig().unavailable_timeout_s  # as long as the reader that takes them

        async def find(client: LogClient) -> tuple[Position, Position]:
            return await until_available(
                lambda: range_of(client, log, *wanted, accept_loss), client.ledgers.environment, timeout_s
            )

        found = administer(metadata, namespace, find)
    else:
        found = wanted[0], wanted[1]
    check_order(*found, start, until)
    # Another trim may come before the read: the earliest message is the one that is earliest then.
    return start if start == "earliest" else found[0], found[1]


async def range_of(
    client: LogClient, log: str, start: WantedPosition, until: WantedPosition, accept_loss: bool
) -> tuple[Position, Position]:
    """Both positions as a reader takes them. An end above the tail is the tail, so that a read never waits.

    If the end is an id, the start is one, too, so that their order shows.

    Raises:
        LogNotFoundError: no such log.
        UnknownPositionError: the start is above the tail.
        ReadError, DataLossError: the tail, or the position of a time, cannot be determined.
    """
    from dlog.model import MessageId
    from dlog.read.places import Places
    from dlog.read.range import AtTime

    ref = await client.logs.find(client.name(log))
    places = Places(client.logs, ref, client.ledgers, client.config.password, accept_loss=accept_loss)
    if isinstance(until, MessageId):
        if await places.is_above_tail(until):
            until = "latest"
        elif start == "latest":
            start = await places.tail()
        elif start == "earliest":
            start = (await places.record()).trim_before
    # A start above an end below the tail is refused as such.
    if isinstance(start, MessageId) and not isinstance(until, MessageId):
        await places.require_not_above_tail(start)
    found_start = await places.find(start) if isinstance(start, AtTime) else start
    found_until = await places.find(until, is_end=True) if isinstance(until, AtTime) else until
    return found_start, found_until
