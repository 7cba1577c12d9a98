"""Positions on the command line: an id, `earliest`, `latest`, a time, or how long ago. Pure, but for the look-up."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from ledger.errors import ConfigurationError

if TYPE_CHECKING:
    from dlog.client import LogClient
    from dlog.model import MessageId

    Position = MessageId | str

T = TypeVar("T")

_AGO = re.compile(r"(\d{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_ID = re.compile(r"\d+:\d+:\d+")


def time_of(text: str, now_us: int) -> int | None:
    """Microseconds since 1970 if the text is a time: `10m`, `2013-01-05`, `2013-01-05T00:00+01:00`. None if it is not.

    A time without a zone is UTC, as the commands print times.
    """
    if found := _AGO.fullmatch(text):
        return now_us - int(found[1]) * _SECONDS[found[2]] * 1_000_000
    try:
        found_time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found_time.tzinfo is None:
        found_time = found_time.replace(tzinfo=UTC)
    return max(0, round(found_time.timestamp() * 1e6))


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
    """For the client, which looks times up itself."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time_us)


def check_order(start: Position, until: Position, start_text: str, until_text: str) -> None:
    """ConfigurationError: the end is before the start."""
    from dlog.model import MessageId

    if isinstance(start, MessageId) and isinstance(until, MessageId) and until < start:
        raise ConfigurationError(
            f"--until {until_text} is before --from {start_text}: message {until} comes before {start}"
        )


async def position_at(client: LogClient, log: str, time_us: int) -> MessageId:
    """The first message of the log at or after the time, its tail if there is none."""
    from dlog.read.time_seek import first_at_or_after

    ref = await client.logs.find(client.name(log))
    return await first_at_or_after(time_us, client.logs, ref, client.ledgers, client.config.password)
