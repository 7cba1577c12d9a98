"""Where a read begins and ends, as options say it: words, ids, ids for each log, times. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal, TypeVar

from dlog.model import NO_MESSAGE, MessageId
from ledger.digits import whole_number
from ledger.errors import InvalidNameError
from spark_connector.errors import BadOptionError
from spark_connector.options.log_choice import LogChoice, NamedLogs
from spark_connector.options.values import converted

StartingBound = MessageId | Literal["earliest", "latest"]
"""First id, inclusive."""

EndingBound = MessageId | Literal["latest"]
"""End, exclusive; `latest` is the tail at planning time."""

Starting = StartingBound | Mapping[str, StartingBound]
"""Of all logs, or of each log by name."""
Ending = EndingBound | Mapping[str, EndingBound]

B = TypeVar("B", StartingBound, EndingBound)

_STARTING: Mapping[str, StartingBound] = {"earliest": "earliest", "latest": "latest"}
_ENDING: Mapping[str, EndingBound] = {"latest": "latest"}
_EXAMPLE = '{"orders": "17:0:0", "bills": "latest"}'
_MILLISECONDS_MAX = 2**62 // 1000


def starting_option(given: Mapping[str, str], choice: LogChoice) -> Starting:
    """`startingId`.

    Raises:
        BadOptionError: it is wrong, or does not fit the logs that are read.
    """
    return _bounds("startingId", given.get("startingid", "earliest"), _STARTING, choice)


def ending_option(given: Mapping[str, str], choice: LogChoice) -> Ending:
    """`endingId`, likewise."""
    return _bounds("endingId", given.get("endingid", "latest"), _ENDING, choice)


def bound_of(bounds: B | Mapping[str, B], log: str) -> B:
    """The bound of one of the logs that are read."""
    return bounds[log] if isinstance(bounds, Mapping) else bounds


def check_logs(option: str, bounds: Starting | Ending, logs: Iterable[str]) -> None:
    """Check that bounds which are given for each log are given for exactly these.

    Raises:
        BadOptionError: one is missing, or is not read.
    """
    if not isinstance(bounds, Mapping):
        return
    read = sorted(logs)
    for log in read:
        if log not in bounds:
            raise BadOptionError(
                f"option {option!r} lacks log {log!r}, which is read: give a position for each of {', '.join(read)}",
                option=option,
            )
    for log in bounds:
        if log not in read:
            raise BadOptionError(
                f"option {option!r} has a position for log {log!r}, which is not read: leave it out; "
                + (f"logs that are read: {', '.join(read)}" if read else "no log is read"),
                option=option,
            )


def check_order(starting: Starting, ending: Ending, choice: LogChoice) -> None:
    """Check that no log's start is after its end, where both are ids.

    Raises:
        BadOptionError: one is.
    """
    for log in _with_both(starting, ending, choice):
        first, end = bound_of(starting, log), bound_of(ending, log)
        if isinstance(first, MessageId) and isinstance(end, MessageId) and first > end:
            where = "" if _is_one(choice) else f" of log {log!r}"
            raise BadOptionError(
                f"startingId {first}{where} is after endingId {end}: swap them", option="startingId"
            )


def _with_both(starting: Starting, ending: Ending, choice: LogChoice) -> Iterable[str]:
    if isinstance(choice, NamedLogs):
        return choice.names
    if isinstance(starting, Mapping) and isinstance(ending, Mapping):
        return sorted(set(starting) & set(ending))
    return ()  # an id of all logs was refused


def time_option(given: Mapping[str, str], name: str) -> int | None:
    """A time, in microseconds since 1970.

    Raises:
        BadOptionError: it is none.
    """
    text = given.get(name.lower())
    if text is None:
        return None
    if (milliseconds := whole_number(text.strip(), _MILLISECONDS_MAX)) is not None:
        return milliseconds * 1000
    try:
        found = datetime.fromisoformat(text.strip())
        return max(0, round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1e6))
    except (ValueError, OverflowError) as error:
        raise BadOptionError(
            f"option {name!r} must be a time like 2013-01-05T12:30 (UTC, or with a zone like +01:00), or milliseconds "
            f"since 1970, got {text!r}",
            option=name,
        ) from error


def _is_one(choice: LogChoice) -> bool:
    return isinstance(choice, NamedLogs) and len(choice.names) == 1


def _bounds(option: str, text: str, words: Mapping[str, B], choice: LogChoice) -> B | Mapping[str, B]:
    if text.lstrip().startswith("{"):
        found = _by_log(option, text, words)
        if isinstance(choice, NamedLogs):
            check_logs(option, found, choice.names)
        return found
    bound = _bound(option, text, words)
    if isinstance(bound, MessageId) and not _is_one(choice):
        raise BadOptionError(
            f"option {option!r} is the id {text}, which is of one log, but several may be read: give a position for "
            f"each as JSON, like {_EXAMPLE}",
            option=option,
        )
    return bound


def _bound(option: str, text: str, words: Mapping[str, B]) -> B:
    if text in words:
        return words[text]
    return converted(option, text, _id, f"or use {' or '.join(words)}")


def _id(text: str) -> MessageId:
    """Of a message: not NO_MESSAGE, of which offsets know nothing."""
    found = MessageId.parse(text)
    if found == NO_MESSAGE:
        raise InvalidNameError(f"{text!r} is the id of no message")
    return found


def _by_log(option: str, text: str, words: Mapping[str, B]) -> dict[str, B]:
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise BadOptionError(
            f"option {option!r} is not valid JSON ({error}): write a position for each log, like {_EXAMPLE}",
            option=option,
        ) from error
    found: dict[str, B] = {}
    for log, value in pairs:
        if log in found:
            raise BadOptionError(f"option {option!r} has log {log!r} twice: give one position", option=option)
        if not isinstance(value, str):
            raise BadOptionError(
                f"option {option!r} has {json.dumps(value)[:80]} for log {log!r}: write it as a text, like {_EXAMPLE}",
                option=option,
            )
        found[log] = _bound(option, value, words)
    return found
