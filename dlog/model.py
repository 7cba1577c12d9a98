"""Immutable values of the log: message id, message, log record. Pure."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import eq
from typing import NamedTuple, overload

from ledger.arguments import require_fields, require_type
from ledger.errors import ConfigurationError, InvalidNameError
from ledger.field_docs import with_field_docs
from ledger.model import LedgerId

_BINARY = struct.Struct(">qqi")
_TEXT = re.compile(r"([0-9]{1,19}):([0-9]{1,19}):([0-9]{1,10})")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_AGE_S_MAX = 1000 * 366 * 86_400
_I64_MAX = 2**63 - 1
_I32_MAX = 2**31 - 1
_INT = {int}


class MessageId(NamedTuple):
    """Position of a message: ledger, entry, index within the entry's batch. Compares as a tuple.

    Its text, `str(id)`, has the form `17:420:3`. An id need not exist to be compared or to start from
    (docs/log-semantics.md#rule-2).
    """

    ledger_id: int
    entry_id: int
    batch_index: int = 0

    def to_bytes(self) -> bytes:
        """20 bytes, big-endian; for ids of messages they sort as the ids do."""
        return _BINARY.pack(*self)

    @classmethod
    def from_bytes(cls, data: bytes) -> MessageId:
        """The id that `to_bytes` encoded.

        Raises:
            InvalidNameError: not 20 bytes.
            ConfigurationError: not a bytes-like object.
        """
        require_type("a binary message id", data, bytes, bytearray, memoryview)
        if len(data) != _BINARY.size:
            raise InvalidNameError(f"a binary message id has {_BINARY.size} bytes, got {len(data)}")
        return cls(*_BINARY.unpack(data))

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read `ledger:entry:batch`, for example `17:420:3`, or the text of NO_MESSAGE.

        Raises:
            InvalidNameError: another form, or a number out of range.
            ConfigurationError: not a str.
        """
        require_type("a message id in text", text, str)
        match = _TEXT.fullmatch(text)
        if match is not None:
            found = cls(*(int(group) for group in match.groups()))
            if _is_in_range(found):
                return found
        if text == str(NO_MESSAGE):
            return NO_MESSAGE
        raise InvalidNameError(
            f"message id {text!r} is not valid: write LEDGER:ENTRY:BATCH, for example 17:420:3"
        )

    @classmethod
    def of(cls, value: MessageId | str) -> MessageId:
        """The id itself, or the id that a text gives. Every function that takes an id uses it.

        A number of it may be negative, though no message has such an id: `position_of` refuses that.

        Raises:
            InvalidNameError: the text is not a valid message id, or a number is out of range.
            ConfigurationError: neither a MessageId nor a str, or a number of it is not a whole one.
        """
        require_type("a message id", value, MessageId, str)
        if not isinstance(value, MessageId):
            return cls.parse(value)
        if not set(map(type, value)) <= _INT:
            for number in value:
                require_type("a number of a message id", number, int)
        if not _is_in_range(MessageId(*(max(0, number) for number in value))):
            raise _out_of_range(value)
        return value

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.batch_index}"


EARLIEST_ID = MessageId(0, 0, 0)
"""At or below every message id: where a log begins."""
NO_MESSAGE = MessageId(-1, -1, 0)
"""Below every message id: what a conditional first append expects as the last one, and after which everything comes."""


def position_of(value: MessageId | str) -> MessageId:
    """The id that a reader, a cursor or a trim is placed at, or NO_MESSAGE.

    Raises:
        InvalidNameError: the text is not a valid message id, or a number is out of range.
        ConfigurationError: neither a MessageId nor a str, or a number of it is not a whole one.
    """
    found = MessageId.of(value)
    if not _is_in_range(found) and found != NO_MESSAGE:
        raise _out_of_range(found)
    return found


def _out_of_range(message_id: MessageId) -> InvalidNameError:
    return InvalidNameError(
        f"message id {message_id} is out of range: ledger and entry are 0 to {_I64_MAX}, the batch index is 0 to "
        f"{_I32_MAX}"
    )


def _is_in_range(message_id: MessageId) -> bool:
    """Whether the formats have such an id."""
    ledger_id, entry_id, batch_index = message_id
    return 0 <= ledger_id <= _I64_MAX and 0 <= entry_id <= _I64_MAX and 0 <= batch_index <= _I32_MAX


def next_id(message_id: MessageId) -> MessageId:
    """The smallest id above this one."""
    ledger_id, entry_id, batch_index = message_id
    if batch_index < _I32_MAX:
        return MessageId(ledger_id, entry_id, batch_index + 1)
    return MessageId(ledger_id, entry_id + 1, 0) if entry_id < _I64_MAX else MessageId(ledger_id + 1, 0, 0)


Header = tuple[bytes, bytes]
"""Key and value of one message header."""


class MessageIds(Sequence[MessageId]):
    """The ids of one entry's messages, as a sequence. Costs the same for one message and for ten thousand."""

    __slots__ = ("entry_id", "ledger_id", "message_count")

    def __init__(self, ledger_id: int, entry_id: int, message_count: int) -> None:
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.message_count = message_count

    def __len__(self) -> int:
        return self.message_count

    @overload
    def __getitem__(self, index: int) -> MessageId: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageId]: ...
    def __getitem__(self, index: int | slice) -> MessageId | list[MessageId]:
        found = range(self.message_count)[index]
        if isinstance(found, range):
            return [MessageId(self.ledger_id, self.entry_id, i) for i in found]
        return MessageId(self.ledger_id, self.entry_id, found)

    def __eq__(self, other: object) -> bool:
        """As a tuple and as a list of the same ids; another kind of sequence, as a text, is never equal."""
        if isinstance(other, MessageIds | tuple | list):
            return len(self) == len(other) and all(map(eq, self, other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"MessageIds({self.ledger_id}:{self.entry_id}:0..{self.message_count - 1})"


@dataclass(frozen=True, slots=True)
class Appended:
    """The outcome of an append of a producer: all its messages are durable in the log, each of them once."""

    sequence: int
    """Of the last message of the call."""
    message_id: MessageId | None
    """Of that message. None if it was appended before, and the producer's last entry does not have it."""
    new: int
    """Number of messages that this call has appended, the last ones; the others were in the log before."""

    @property
    def new_ids(self) -> Sequence[MessageId]:
        """The ids of the new messages."""
        if not self.new or self.message_id is None:
            return ()
        return MessageIds(self.message_id.ledger_id, self.message_id.entry_id, self.new)


class Message(NamedTuple):
    """One message as a reader returns it.

    A `payload` of None is a tombstone. A `key` of None differs from an empty one. `append_time_us` is the writer's
    wall clock in microseconds since 1970; it never decreases along one writer. A tuple, because a reader builds it six
    times as fast as any other immutable object.
    """

    id: MessageId
    payload: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    append_time_us: int = 0


def check_log_name(name: str) -> str:
    """Return `name` if it is a valid name of a log or namespace.

    Raises:
        InvalidNameError: not 1 to 200 letters, digits, `.`, `_` or `-`, or the name is `.` or `..`.
        ConfigurationError: not a str.
    """
    require_type("a name", name, str)
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidNameError(
            f"name {name[:80]!r} is not valid: use 1 to 200 letters, digits, '.', '_' or '-', "
            "and not '.' or '..'"
        )
    return name


class LogState(StrEnum):
    """What may be done with a log: ACTIVE takes writers and readers, SEALED readers only, DELETING neither."""

    ACTIVE = "active"
    SEALED = "sealed"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of a log: one writer instance, and how an operator finds its process."""

    instance: str
    name: str = ""
    host: str = ""
    process_id: int = 0
    started_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SealFacts:
    """What is known of a ledger once its seal is recorded; it never changes afterwards (docs/log-semantics.md#i10).

    `message_count` is -1 if the messages were not counted: the ledger was sealed by a takeover that could not read its
    last entry, or that entry is of a release that did not count messages. If it was not read, `byte_count` is what a
    bookie claimed, and may be 0. `last_entry` is -1 for an empty ledger. A time of 0 is unknown; times are in
    microseconds.
    """

    last_entry: int
    message_count: int
    byte_count: int
    first_append_us: int = 0
    last_append_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLedger:
    """One ledger of the log's list. `seal` is None until the record itself holds the seal.

    `keep_until_us` is the earliest wall-clock time, in microseconds, at which the ledger may be deleted after it has
    left the list: a takeover sets it for every ledger whose seal the record did not hold
    (docs/log-semantics.md#rule-25).
    """

    ledger_id: LedgerId
    epoch: int
    created_us: int
    seal: SealFacts | None = None
    keep_until_us: int = 0
    location: str = ""
    """Where the entries are, if no longer on bookies. Always empty so far."""

    @property
    def known_empty(self) -> bool:
        """Whether the recorded seal proves that the ledger has no entry."""
        return self.seal is not None and self.seal.last_entry < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRef:
    """Where a page of a log's history is, and what its ledgers have in common, so that most of them need not be read.

    A page never changes, and its name is used once. At level 0 it lists ledgers, above it pages of the level below.
    """

    name: str
    level: int
    first_id: int
    """Of the first ledger below it."""
    last_id: int
    """Of the last one."""
    ledgers: int
    """Number of ledgers below it."""
    message_count: int
    """Of the ledgers that were counted."""
    uncounted: int
    """Number of the other ledgers."""
    byte_count: int
    last_append_us: int
    """Newest append time below it; 0 if one of the ledgers that have entries does not know its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDelete:
    """An unlisted ledger that may be deleted once `not_before_us` (wall clock, microseconds) has passed."""

    ledger_id: LedgerId
    not_before_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkMark:
    """The last batch that an exactly-once sink has published."""

    writer_id: str
    batch: int
    time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A named position in a log, stored with the log: where its consumer continues (docs/log-semantics.md#rule-35)."""

    name: str
    position: MessageId
    """The next message. All before it are acknowledged."""
    properties: tuple[tuple[str, str], ...] = ()
    """What the consumer stored with it, sorted by name."""
    updated_us: int = 0
    """When it was changed last, by the clock of its consumer, in microseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCursor:
    """What the metadata store has of a cursor.

    `holder`: a random number of whoever changed it last, who alone may move it. `cursor`: None once it is removed; the
    value stays, since the version of one that is created anew would begin again (docs/log-semantics.md#rule-5).
    """

    holder: int
    cursor: Cursor | None


class RequestKind(StrEnum):
    """What another client asks of a log's owner."""

    ANSWER = "answer"
    """Only to answer, which shows that it runs."""
    ROTATE = "rotate"
    HAND_OVER = "hand over"


class RequestState(StrEnum):
    """How far a request to a log's owner is."""

    OPEN = "open"
    SEEN = "seen"
    """The owner has read it."""
    DONE = "done"
    FAILED = "failed"
    """The owner could not do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRequest:
    """A request to the owner of a log in one epoch; an owner in another epoch ignores it.

    A record names an owner that may long have stopped. Only its answer shows that it runs.
    """

    kind: RequestKind
    epoch: int
    nonce: int
    """Random; of this request only."""
    requester: Owner
    state: RequestState = RequestState.OPEN
    reason: str = ""
    """Why it failed."""


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What of a log is kept. Without a limit everything is. Whole ledgers go, never the newest one.

    A ledger is trimmed once each rule that is set lets it go.

    Raises:
        ConfigurationError: a value has the wrong type or is not positive.
    """

    max_age_s: float | None = None
    """A ledger may go once its last message is older, by the clocks of the writer and of the program that trims."""

    max_bytes: int | None = None
    """A ledger may go while the ledgers after it hold at least this many bytes of entries."""

    max_messages: int | None = None
    """The same in messages. A ledger whose messages were not counted counts as none."""

    keep_unread: bool = False
    """A ledger may go once every cursor of the log is beyond it; without any cursor this has no say."""

    def __post_init__(self) -> None:
        require_fields(self)
        for name in ("max_age_s", "max_bytes", "max_messages"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigurationError(
                    f"{name} must be positive, got {value}: leave it out to keep everything, or delete the log"
                )
        if self.max_age_s is not None and self.max_age_s > _AGE_S_MAX:
            raise ConfigurationError(
                f"max_age_s must be at most {_AGE_S_MAX} s, which are 1,000 years, got {self.max_age_s}"
            )
        for name in ("max_bytes", "max_messages"):
            if (getattr(self, name) or 0) > _I64_MAX:
                raise ConfigurationError(f"{name} must be at most {_I64_MAX}, got {getattr(self, name)}")

    @property
    def keeps_everything(self) -> bool:
        """Whether no rule is set."""
        return self == Retention()


RECORD_VERSION = 3

GRACE_US = 7 * 86_400 * 1_000_000
"""Seven days: the grace of a log that was created without one, or before records had one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMetadata:
    """A log's record: the value that every change of the log compares and sets (docs/log-semantics.md#rule-1).

    `ledgers` is the newest part of the ledger list in message order, `pages` refers to what is before it;
    `dlog/ledger_list` walks both. `last_ledger_id` is the highest ledger id ever listed or barred, `trim_before` the id
    below which every message is trimmed.
    """

    log_uuid: str
    instance_id: str
    epoch: int = 0
    owner: Owner | None = None
    ledgers: tuple[ListedLedger, ...] = ()
    last_ledger_id: int = -1
    trim_before: MessageId = EARLIEST_ID
    trimmed_end: MessageId = EARLIEST_ID
    """Just after the last message of all trimmed ledgers; the end of a listed one is in its seal."""
    pending_delete: tuple[PendingDelete, ...] = ()
    sinks: tuple[SinkMark, ...] = ()
    state: LogState = LogState.ACTIVE
    nonce: int = 0
    grace_us: int = GRACE_US
    """How long a ledger whose writer may be paused is kept after it left the list, where bookies forget deletions."""
    pages: tuple[PageRef, ...] = ()
    """Pages of older ledgers, ascending. A ledger in them below `first_id` has left the list."""
    first_id: int = 0
    deleted_below: int = 0
    """Of the ledgers in pages that have left the list, those below it are deleted."""
    format_version: int = RECORD_VERSION
    """An older one until the next takeover: records had no grace in version 1 and no pages in version 2."""

    @property
    def ledger_ids(self) -> tuple[LedgerId, ...]:
        """Ids of the newest listed ledgers, increasing."""
        return tuple(listed.ledger_id for listed in self.ledgers)

    @property
    def tail(self) -> ListedLedger | None:
        """The last listed ledger; None if there is none. It is never in a page."""
        return self.ledgers[-1] if self.ledgers else None

    def find_recent(self, ledger_id: int) -> ListedLedger | None:
        """The ledger of this id; None if it is not among the newest listed ones."""
        return next((listed for listed in self.ledgers if listed.ledger_id == ledger_id), None)


class NameState(StrEnum):
    """Whether a name refers to a log."""

    ACTIVE = "active"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameNode:
    """What a log's name refers to: the current incarnation, or the last one.

    Source: docs/log-semantics.md#rule-5.
    """

    log_uuid: str
    state: NameState


DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """A log's address: namespace and name. str() gives `namespace/name`.

    Raises:
        InvalidNameError: one of them is not a valid name.
    """

    namespace: str
    name: str

    def __post_init__(self) -> None:
        check_log_name(self.namespace)
        check_log_name(self.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
