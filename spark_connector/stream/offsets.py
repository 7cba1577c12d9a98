"""How far a stream has come: what Spark keeps in the query's checkpoint. Pure.

    {"v": 1, "o": {log: [ledger, entry, batch]}, "p": {log: [ledger, entry, batch]}, "g": {log: uuid}}

`o` is where the stream began, `p` the id after the last message that was read, `g` the incarnation of the log.
Spark writes the end of a batch ahead of it, but never where the first batch began: so every end says where that was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlog.model import MessageId
from spark_connector.errors import OffsetFormatError

VERSION = 1

_FIELDS = ("v", "o", "p", "g")
_MOST = (2**63 - 1, 2**63 - 1, 2**31 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Of one log."""

    origin: MessageId
    next: MessageId
    """Exclusive end of what was read. It may lie behind the last message of a sealed ledger."""
    log_uuid: str


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Of all logs of a stream, by name."""

    logs: Mapping[str, LogPosition]

    def to_json(self) -> dict[str, Any]:
        """What Spark stores as JSON: fields and logs in one order, so that equal offsets are equal texts."""
        names = sorted(self.logs)
        return {
            "v": VERSION,
            "o": {name: list(self.logs[name].origin) for name in names},
            "p": {name: list(self.logs[name].next) for name in names},
            "g": {name: self.logs[name].log_uuid for name in names},
        }


def parse_offset(found: object) -> StreamOffset:
    """What `to_json` made.

    Raises:
        OffsetFormatError: a newer version wrote it, or another program.
    """
    if not isinstance(found, dict) or "v" not in found:
        raise _foreign(found)
    if found["v"] != VERSION:
        raise OffsetFormatError(
            f"the checkpoint has offsets of version {found['v']!r}, this dlog reads version {VERSION}: use the version "
            "of dlog that wrote it, or start with a new checkpoint"
        )
    if set(found) != set(_FIELDS):
        raise _foreign(found)
    origins, ends, uuids = (found[name] for name in _FIELDS[1:])
    if not all(isinstance(each, dict) and each.keys() == origins.keys() for each in (origins, ends, uuids)):
        raise _foreign(found)
    return StreamOffset(
        {
            name: LogPosition(
                origin=_id(origins[name], found),
                next=_id(ends[name], found),
                log_uuid=_uuid(uuids[name], found),
            )
            for name in ends
        }
    )


def first_start(start: StreamOffset, end: StreamOffset) -> StreamOffset:
    """Where a batch begins, in the logs that its end has.

    The first batch begins where its end says, since `start` was determined anew; so does a log that was not there
    before, or is another one now.
    """
    return StreamOffset(
        {name: _started(start.logs.get(name), position) for name, position in end.logs.items()}
    )


def _started(start: LogPosition | None, end: LogPosition) -> LogPosition:
    if start is None or start.next == start.origin or start.log_uuid != end.log_uuid:
        return LogPosition(origin=end.origin, next=end.origin, log_uuid=end.log_uuid)
    return start


def _id(value: object, found: object) -> MessageId:
    if not isinstance(value, list) or len(value) != 3:
        raise _foreign(found)
    for number, most in zip(value, _MOST, strict=True):
        if type(number) is not int or not 0 <= number <= most:
            raise _foreign(found)
    return MessageId(*value)


def _uuid(value: object, found: object) -> str:
    if not isinstance(value, str):
        raise _foreign(found)
    return value


def _foreign(found: object) -> OffsetFormatError:
    return OffsetFormatError(
        f"the checkpoint holds {str(found)[:200]!r}, which is no offset of a log: use a checkpoint of this query, or a "
        "new one"
    )
