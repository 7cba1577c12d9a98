"""Errors of logs, and the base classes of all errors (ledger/errors.py).

The base class says what the caller can do:

    ConfigurationError     fix the call
    UnavailableError       nothing happened: try again later
    OutcomeUnknownError    it may have happened: read before repeating it
    OwnershipLostError     stop: another client owns the log
    NotFoundError          it does not exist
    CorruptionError        stored bytes are wrong or missing

Facts are attributes of the error, None if unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger.errors import (
    ConfigurationError,
    ContendedError,
    CorruptionError,
    LogStoreError,
    MissingExtraError,
    NotFoundError,
    OutcomeUnknownError,
    OwnershipLostError,
    UnavailableError,
)

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from dlog.model import LogState, MessageId, Owner

# ---- fix the call


class MessageTooLargeError(ConfigurationError):
    """The message or batch does not fit into an entry of `entry_bytes_max` bytes. It was not appended."""

    entry_bytes: int
    entry_bytes_max: int


class AppendRejectedError(ConfigurationError):
    """The append was not sent, so it is certainly absent: the batch is empty, or the log does not end at `expected`.

    Also: an append of the same producer before it was cancelled.
    """

    expected: MessageId | None = None
    tail: MessageId | None = None
    """The last message that the writer knows of, NO_MESSAGE if the log has none."""


class TooManyProducersError(ConfigurationError):
    """The log has `limit` producers, the most that it can have; the append of another one was not sent."""

    log: str
    limit: int


class TooManySinksError(ConfigurationError):
    """The log remembers the last batches of `limit` sinks, all of them in use; nothing was published."""

    log: str
    limit: int


class LogExistsError(ConfigurationError):
    """A log of this name already exists."""

    log: str


class ShrinkRefusedError(ConfigurationError):
    """The id is above `limit`, the highest that the log may be trimmed to (docs/log-semantics.md#rule-33)."""

    requested: MessageId
    limit: MessageId


class LogSealedError(ConfigurationError):
    """The log is sealed or being deleted and accepts no writer."""

    log: str
    state: LogState


class ForkedError(ConfigurationError):
    """A client, writer or reader was used in a process that was forked from the one that opened it."""

    made_in: int


class TrimmedError(ConfigurationError):
    """Messages at `requested` were trimmed; the log begins at `earliest` (docs/log-semantics.md#rule-28)."""

    requested: MessageId
    earliest: MessageId


class UnknownPositionError(ConfigurationError):
    """The position is above the tail of the log, whose last ledger is `last`."""

    requested: MessageId
    last: int | None = None


# ---- try later


class RecordTooLargeError(UnavailableError):
    """The log's metadata would exceed its size limit; nothing was changed."""

    record_bytes: int
    record_bytes_max: int


class QueueFullError(UnavailableError):
    """The writer's buffer is full; the append was not sent."""

    queued_bytes: int
    queued_bytes_max: int


class TakeoverContendedError(UnavailableError):
    """The log's metadata changed during every attempt, but no other client took the log over. Try again."""

    log: str
    rounds: int


class RotationFailedError(UnavailableError):
    """The log's owner was asked to rotate and could not, for the reason in the message. It will try again."""

    log: str
    owner: Owner | None = None


class StagingBarredError(UnavailableError):
    """A sink's ledgers have ids that the log no longer accepts, or were deleted; nothing was published. Write the batch
    again."""

    log: str
    batch: int | None = None


class StandaloneError(UnavailableError):
    """The local cluster could not be started, or one of its bookies keeps failing."""

    directory: Path | None = None
    log_file: Path | None = None


class AppendAbortedError(UnavailableError):
    """The append was not sent, so it is certainly absent: the writer was closed or has failed."""

    log: str | None = None


# ---- it may have happened


class AppendIndeterminateError(OutcomeUnknownError):
    """The append was in flight when the writer failed: it is at `message_id` or nowhere."""

    message_id: MessageId
    message_count: int


class AppendsFailedError(OutcomeUnknownError):
    """`count` appends failed and their outcomes were not read. Raised by `flush` and `close`."""

    log: str
    count: int
    first: BaseException


class TakeoverTimeoutError(OutcomeUnknownError):
    """The takeover did not end within `takeover_timeout_s`; it may have happened."""

    log: str


class OwnerUnresponsiveError(OutcomeUnknownError):
    """The log's owner has not answered a request, or not done what it was asked. It may still do it."""

    log: str
    owner: Owner | None = None


class CallTimeoutError(OutcomeUnknownError, TimeoutError):
    """A call did not end within its `timeout_s`: it may have happened, or may still happen. An append goes on.

    `pending`: the append, whose `result()` still gets the outcome; None for other calls.
    """

    timeout_s: float
    pending: Future[Any] | None = None


# ---- ownership


class WriterDeposedError(OwnershipLostError):
    """Another writer took the log over, or it was sealed or deleted."""

    log: str
    epoch: int | None = None
    owner: Owner | None = None


class TakeoverLostError(OwnershipLostError):
    """Another client took the log over first (docs/log-semantics.md#rule-22)."""

    log: str
    epoch: int
    owner: Owner | None = None


class CursorMovedError(OwnershipLostError):
    """Another reader has taken the cursor over, or it was set: it is at `position` now."""

    log: str
    cursor: str
    position: MessageId


# ---- proved absence


class LogNotFoundError(NotFoundError):
    """The log does not exist or is being deleted."""

    log: str


class CursorNotFoundError(NotFoundError):
    """The log has no such cursor, or it was removed."""

    log: str
    cursor: str


# ---- wrong bytes


class DataLossError(CorruptionError):
    """An entry of the log is missing on all bookies, or a ledger does not exist or has damaged metadata."""

    log: str | None = None
    first: MessageId | int | None = None
    last: int | None = None
    resume_at: MessageId | None = None
    ledger_id: int | None = None


class EntryFormatError(CorruptionError):
    """An entry's envelope or messages cannot be decoded."""

    ledger_id: int | None = None
    entry_id: int | None = None
    magic: int | None = None
    attr: int | None = None


class RecordFormatError(CorruptionError):
    """A log's metadata value cannot be decoded."""

    key: str | None = None
    newer_version: int | None = None
    """Its version, if it is intact and a later release has written it: it must not be replaced."""


class HistoryPageError(CorruptionError):
    """A page of the log's ledger list, with the ledgers from `first` to `last`, is missing or damaged."""

    log: str
    key: str
    first: int
    last: int
    messages: int
    """A lower bound: a ledger whose messages were not counted counts as one message."""
    newer_version: int | None = None
    """Its version, if it is intact and a later release has written it."""


__all__ = [
    "LogStoreError",
    "ConfigurationError",
    "UnavailableError",
    "OutcomeUnknownError",
    "OwnershipLostError",
    "NotFoundError",
    "CorruptionError",
    "MissingExtraError",
    "MessageTooLargeError",
    "AppendRejectedError",
    "TooManyProducersError",
    "TooManySinksError",
    "LogExistsError",
    "ShrinkRefusedError",
    "LogSealedError",
    "ForkedError",
    "TrimmedError",
    "UnknownPositionError",
    "RecordTooLargeError",
    "ContendedError",
    "QueueFullError",
    "TakeoverContendedError",
    "RotationFailedError",
    "StagingBarredError",
    "StandaloneError",
    "AppendAbortedError",
    "AppendIndeterminateError",
    "AppendsFailedError",
    "TakeoverTimeoutError",
    "OwnerUnresponsiveError",
    "CallTimeoutError",
    "WriterDeposedError",
    "TakeoverLostError",
    "CursorMovedError",
    "LogNotFoundError",
    "CursorNotFoundError",
    "DataLossError",
    "EntryFormatError",
    "RecordFormatError",
    "HistoryPageError",
]
