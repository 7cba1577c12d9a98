"""The log's errors, and those of ledgers that its users meet: leaves of one tree (ledger/errors.py).

The base class tells what to do: ConfigurationError: fix the call; UnavailableError: nothing happened, try later;
OutcomeUnknownError: it may have happened, read first; OwnershipLostError: stop; NotFoundError: absence is proved;
CorruptionError: wrong bytes. Facts are attributes of the error, named in parentheses below.
"""

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
    """The message or batch exceeds `entry_bytes_max` and was not sent (facts: entry_bytes, entry_bytes_max)."""


class AppendRejectedError(ConfigurationError):
    """The append was not sent and is certainly absent: empty batch, or failed condition (facts: expected, tail)."""


class LogExistsError(ConfigurationError):
    """A log of this name exists (facts: log)."""


class ShrinkRefusedError(ConfigurationError):
    """The id is above what may be trimmed (facts: requested, limit; docs/log-semantics.md#rule-33)."""


class LogSealedError(ConfigurationError):
    """The log is sealed or being deleted and takes no writer (facts: log, state)."""


class ForkedError(ConfigurationError):
    """An object was used in a process forked from the one that opened it (facts: made_in, a process id)."""


class TrimmedError(ConfigurationError):
    """Messages at the position were trimmed (facts: requested, earliest; docs/log-semantics.md#rule-28)."""


class UnknownPositionError(ConfigurationError):
    """The position is in a ledger above the last one of the log (facts: requested, last)."""


# ---- try later


class RecordTooLargeError(UnavailableError):
    """The log's record would exceed its size limit; nothing was written (facts: record_bytes, record_bytes_max)."""


class QueueFullError(UnavailableError):
    """The writer's buffer is full; the append was not sent (facts: queued_bytes, queued_bytes_max)."""


class TakeoverContendedError(UnavailableError):
    """The log's record changed during every attempt; no other client won. Try again (facts: log, rounds)."""


class StandaloneError(UnavailableError):
    """The local cluster could not be started, or one of its bookies keeps failing."""


class AppendAbortedError(UnavailableError):
    """The append was not sent and is certainly absent: the writer was closed or gave up."""


# ---- it may have happened


class AppendIndeterminateError(OutcomeUnknownError):
    """The append was in flight; it is at `message_id` or nowhere (facts: message_id, message_count)."""


class AppendsFailedError(OutcomeUnknownError):
    """Appends failed and their outcomes were not read; from `flush` and `close` (facts: log, count, first)."""


class TakeoverTimeoutError(OutcomeUnknownError):
    """The takeover took longer than `takeover_timeout_s`; it may have happened (facts: log)."""


# ---- ownership


class WriterDeposedError(OwnershipLostError):
    """A new writer, a seal or a delete took the log over (facts: log; epoch and owner, None if unknown)."""


class TakeoverLostError(OwnershipLostError):
    """Another client took the log over first (facts: log, epoch, owner; docs/log-semantics.md#rule-22)."""


# ---- proved absence


class LogNotFoundError(NotFoundError):
    """No such log, or it is being deleted (facts: log)."""


# ---- wrong bytes


class DataLossError(CorruptionError):
    """A ledger or entry that the log still lists cannot be found (facts: first and last, or ledger_id)."""


class EntryFormatError(CorruptionError):
    """An entry's envelope or messages cannot be decoded (facts, where known: ledger_id, entry_id)."""


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
