"""Leaves that the log adds to the one error tree (ledger/errors.py)."""

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

# ---- fix the call


class MessageTooLargeError(ConfigurationError):
    """The message or batch exceeds `entry_bytes_max`; never sent (facts: entry_bytes, entry_bytes_max)."""


class AppendRejectedError(ConfigurationError):
    """The append was never sent and is certainly absent (empty batch, failed condition)."""


class LogExistsError(ConfigurationError):
    """Create found a log of this name (facts: log)."""


class ShrinkRefusedError(ConfigurationError):
    """The id lies above what may be trimmed (facts: requested, limit)."""


class LogSealedError(ConfigurationError):
    """The log is sealed or being deleted and takes no writer (facts: log, state)."""


class ForkedError(ConfigurationError):
    """A client, writer, reader or cluster was used in a process forked from the one that opened it (facts: made_in)."""


class TrimmedError(ConfigurationError):
    """The position was trimmed away (facts: requested, earliest)."""


class UnknownPositionError(ConfigurationError):
    """The position lies in a ledger above the last one of the log (facts: requested, last)."""


# ---- try later


class RecordTooLargeError(UnavailableError):
    """The log's record would exceed its size limit; nothing was written (facts: record_bytes, record_bytes_max)."""


class QueueFullError(UnavailableError):
    """The writer's queue is full; the append was never sent (facts: queued_bytes, queued_bytes_max)."""


class TakeoverContendedError(UnavailableError):
    """The log's record kept changing under the takeover; nobody lost it, try again (facts: rounds)."""


class StandaloneError(UnavailableError):
    """The embedded cluster could not be started or lost a bookie for good."""


class AppendAbortedError(UnavailableError):
    """The append was held back, never sent, and is certainly absent (the writer closed or gave up)."""


# ---- it may have happened


class AppendIndeterminateError(OutcomeUnknownError):
    """The append was in flight; it is at `message_id` or nowhere (facts: message_id)."""


class AppendsFailedError(OutcomeUnknownError):
    """Appends failed and their outcomes were not read: raised by `flush` and `close` (facts: log, count, first)."""


class TakeoverTimeoutError(OutcomeUnknownError):
    """The takeover was given up while under way; it may have happened (facts: log)."""


# ---- ownership


class WriterDeposedError(OwnershipLostError):
    """Another writer, Seal or Delete took the log over (facts: log, epoch, owner when known)."""


class TakeoverLostError(OwnershipLostError):
    """Another candidate took the log over first (facts: log, epoch, owner)."""


# ---- proved absence


class LogNotFoundError(NotFoundError):
    """No such log (facts: log)."""


# ---- wrong bytes


class DataLossError(CorruptionError):
    """Ledgers that the log still lists cannot be found (facts: first, last)."""


class EntryFormatError(CorruptionError):
    """An entry's envelope or messages cannot be decoded (facts: magic or position where known)."""


class RecordFormatError(CorruptionError):
    """A log's metadata value cannot be decoded (facts: key when known)."""


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
    "WriterDeposedError",
    "TakeoverLostError",
    "LogNotFoundError",
    "DataLossError",
    "EntryFormatError",
    "RecordFormatError",
]
