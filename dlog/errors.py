"""The log's errors, and those of ledgers that its users meet: leaves of one tree (ledger/errors.py).

The base class tells what to do: ConfigurationError: fix the call; UnavailableError: nothing happened, try later;
OutcomeUnknownError: it may have happened, read first; OwnershipLostError: stop; NotFoundError: absence is proved;
CorruptionError: wrong bytes. Facts are attributes of the error, None if unknown.
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
    from pathlib import Path

    from dlog.blocking.pending import Pending
    from dlog.model import LogState, MessageId, Owner

# ---- fix the call


class MessageTooLargeError(ConfigurationError):
    """The message or batch exceeds `entry_bytes_max` and was not sent."""

    entry_bytes: int
    entry_bytes_max: int


class AppendRejectedError(ConfigurationError):
    """The append was not sent and is certainly absent: empty batch, or failed condition."""

    expected: MessageId | None = None
    tail: MessageId | None = None


class LogExistsError(ConfigurationError):
    """A log of this name exists."""

    log: str


class ShrinkRefusedError(ConfigurationError):
    """The id is above what may be trimmed (docs/log-semantics.md#rule-33)."""

    requested: MessageId
    limit: MessageId


class LogSealedError(ConfigurationError):
    """The log is sealed or being deleted and takes no writer."""

    log: str
    state: LogState


class ForkedError(ConfigurationError):
    """An object was used in a process forked from the one that opened it."""

    made_in: int


class TrimmedError(ConfigurationError):
    """Messages at the position were trimmed (docs/log-semantics.md#rule-28)."""

    requested: MessageId
    earliest: MessageId


class UnknownPositionError(ConfigurationError):
    """The position is in a ledger above the last one of the log."""

    requested: MessageId
    last: int | None = None


# ---- try later


class RecordTooLargeError(UnavailableError):
    """The log's record would exceed its size limit; nothing was written."""

    record_bytes: int
    record_bytes_max: int


class QueueFullError(UnavailableError):
    """The writer's buffer is full; the append was not sent."""

    queued_bytes: int
    queued_bytes_max: int


class TakeoverContendedError(UnavailableError):
    """The log's record changed during every attempt; no other client won. Try again."""

    log: str
    rounds: int


class StandaloneError(UnavailableError):
    """The local cluster could not be started, or one of its bookies keeps failing."""

    directory: Path | None = None
    log_file: Path | None = None


class AppendAbortedError(UnavailableError):
    """The append was not sent and is certainly absent: the writer was closed or gave up."""

    log: str | None = None


# ---- it may have happened


class AppendIndeterminateError(OutcomeUnknownError):
    """The append was in flight; it is at `message_id` or nowhere."""

    message_id: MessageId
    message_count: int


class AppendsFailedError(OutcomeUnknownError):
    """Appends failed and their outcomes were not read; from `flush` and `close`."""

    log: str
    count: int
    first: BaseException


class TakeoverTimeoutError(OutcomeUnknownError):
    """The takeover took longer than `takeover_timeout_s`; it may have happened."""

    log: str


class CallTimeoutError(OutcomeUnknownError, TimeoutError):
    """A call did not end within its `timeout_s`: it may have happened, or may still happen. An append goes on.

    `pending`: the append, whose `result()` still gets the outcome; None for other calls.
    """

    timeout_s: float
    pending: Pending[Any] | None = None


# ---- ownership


class WriterDeposedError(OwnershipLostError):
    """A new writer, a seal or a delete took the log over."""

    log: str
    epoch: int | None = None
    owner: Owner | None = None


class TakeoverLostError(OwnershipLostError):
    """Another client took the log over first (docs/log-semantics.md#rule-22)."""

    log: str
    epoch: int
    owner: Owner | None = None


# ---- proved absence


class LogNotFoundError(NotFoundError):
    """No such log, or it is being deleted."""

    log: str


# ---- wrong bytes


class DataLossError(CorruptionError):
    """A ledger or entry that the log still lists cannot be found."""

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
    "StandaloneError",
    "AppendAbortedError",
    "AppendIndeterminateError",
    "AppendsFailedError",
    "TakeoverTimeoutError",
    "CallTimeoutError",
    "WriterDeposedError",
    "TakeoverLostError",
    "LogNotFoundError",
    "DataLossError",
    "EntryFormatError",
    "RecordFormatError",
]
