"""Frozen values of the log: message id, message, log record. Pure."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ledger.arguments import require_type
from ledger.errors import InvalidNameError
from ledger.model import LedgerId

_BINARY = struct.Struct(">qqi")
_TEXT = re.compile(r"(\d{1,19}):(\d{1,19}):(\d{1,10})")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


class MessageId(NamedTuple):
    """Where a message is: ledger, entry, index within the entry's batch. Compares as a tuple.

    An id need not exist to be compared or to start from (docs/log-semantics.md#rule-2).
    """

    ledger_id: int
    entry_id: int
    batch_index: int = 0

    def to_bytes(self) -> bytes:
        """20 bytes, big-endian; they sort as the id does."""
        return _BINARY.pack(*self)

    @classmethod
    def from_bytes(cls, data: bytes) -> MessageId:
        require_type("a binary message id", data, bytes, bytearray, memoryview)
        if len(data) != _BINARY.size:
            raise InvalidNameError(f"a binary message id has {_BINARY.size} bytes, got {len(data)}")
        return cls(*_BINARY.unpack(data))

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read `ledger:entry:batch`, for example `17:420:3`."""
        require_type("a message id in text", text, str)
        match = _TEXT.fullmatch(text)
        if match is not None:
            found = cls(*(int(group) for group in match.groups()))
            if found.ledger_id < 2**63 and found.entry_id < 2**63 and found.batch_index < 2**31:
                return found
        raise InvalidNameError(
            f"message id {text!r} is not valid: write ledger:entry:batch, for example 17:420:3"
        )

    @classmethod
    def of(cls, value: MessageId | str) -> MessageId:
        """An id, or the id that a text means: what every function takes where an id is meant."""
        require_type("a message id", value, MessageId, str)
        return value if isinstance(value, MessageId) else cls.parse(value)

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.batch_index}"


EARLIEST_ID = MessageId(0, 0, 0)
NO_MESSAGE = MessageId(-1, -1, 0)
"""The tail of a log that has no message: what a conditional first append expects."""

Header = tuple[bytes, bytes]


class Message(NamedTuple):
    """One message as a reader returns it.

    A `payload` of None is a tombstone; a None key differs from an empty one. A tuple, because a reader
    builds it six times as fast as any other immutable object.
    """

    id: MessageId
    payload: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    append_time_us: int = 0


def check_log_name(name: str) -> str:
    """Raise InvalidNameError unless `name` may be a log's (or namespace's) name."""
    require_type("a name", name, str)
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidNameError(
            f"name {name[:80]!r} is not valid: use 1 to 200 letters, digits, '.', '_' or '-', "
            "and not '.' or '..'"
        )
    return name


class LogState(StrEnum):
    ACTIVE = "active"
    SEALED = "sealed"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds the log: an instance, and how an operator finds it."""

    instance: str
    name: str = ""
    host: str = ""
    process_id: int = 0
    started_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SealFacts:
    """What is known of a ledger once its seal is recorded; never changes afterwards (docs/log-semantics.md#i10).

    A `message_count` of -1 means not counted: the ledger was sealed by a takeover, whose owner saw only its
    first and last entry. A time of 0 means unknown.
    """

    last_entry: int
    message_count: int
    byte_count: int
    first_append_us: int = 0
    last_append_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLedger:
    """One ledger of the log's list. `seal` is None until the record itself says that it is sealed.

    `keep_until_us` is the earliest wall-clock time at which the ledger may be deleted once it has left the
    list: a takeover sets it for every ledger whose seal the record did not hold (docs/log-semantics.md#rule-25).
    """

    ledger_id: LedgerId
    epoch: int
    created_us: int
    seal: SealFacts | None = None
    keep_until_us: int = 0

    @property
    def known_empty(self) -> bool:
        return self.seal is not None and self.seal.last_entry < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDelete:
    """A ledger out of the list that may be deleted once `not_before_us` (wall clock) has passed."""

    ledger_id: LedgerId
    not_before_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkMark:
    """The last batch that an exactly-once sink has published."""

    writer_id: str
    batch: int
    time_us: int


RECORD_VERSION = 2

GRACE_US = 7 * 86_400 * 1_000_000
"""Seven days: the grace of a log whose creator asked for none, and of one made before records had one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMetadata:
    """The value that every change of a log compares and sets (docs/log-semantics.md#rule-1)."""

    log_uuid: str
    instance_id: str
    epoch: int = 0
    owner: Owner | None = None
    ledgers: tuple[ListedLedger, ...] = ()
    last_ledger_id: int = -1
    trim_before: MessageId = EARLIEST_ID
    trimmed_end: MessageId = EARLIEST_ID
    """Behind the last message of all ledgers that were trimmed away; a listed one's seal tells where it ends."""
    pending_delete: tuple[PendingDelete, ...] = ()
    sinks: tuple[SinkMark, ...] = ()
    state: LogState = LogState.ACTIVE
    nonce: int = 0
    grace_us: int = GRACE_US
    """How long a ledger whose writer may be asleep outlives its place in the list, where bookies forget deletions."""
    format_version: int = RECORD_VERSION
    """1 until the next takeover of a log made before records had a grace of their own."""

    @property
    def ledger_ids(self) -> tuple[LedgerId, ...]:
        return tuple(listed.ledger_id for listed in self.ledgers)

    @property
    def tail(self) -> ListedLedger | None:
        return self.ledgers[-1] if self.ledgers else None

    def find(self, ledger_id: int) -> ListedLedger | None:
        return next((listed for listed in self.ledgers if listed.ledger_id == ledger_id), None)


class NameState(StrEnum):
    ACTIVE = "active"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameNode:
    """What a log's name stands for: the incarnation that it names now, or named last.

    Source: docs/log-semantics.md#rule-5.
    """

    log_uuid: str
    state: NameState


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """A log's address: namespace and name."""

    namespace: str
    name: str

    def __post_init__(self) -> None:
        check_log_name(self.namespace)
        check_log_name(self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
