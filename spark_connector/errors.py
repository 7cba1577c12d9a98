"""Errors as Spark users see them: one sentence that begins with a stable token.

DLOG_BAD_OPTION      an option is unknown, missing or wrong; nothing was read
DLOG_DATA_LOSS       messages that the query was planned for are trimmed, deleted or damaged
DLOG_BAD_ROW         a row cannot be a message; nothing was published
DLOG_NOT_FOUND       no such log
DLOG_OWNERSHIP_LOST  another client took the log over while it was written; nothing was published
DLOG_UNAVAILABLE     the metadata store or bookies cannot be reached; run the query again
DLOG_OUTCOME_UNKNOWN the write may have been published; a replay with the same batch number shows whether it was
DLOG_NOT_SUPPORTED   this source does not support it; nothing was read or written
DLOG_FAILED          any other error of dlog
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dlog.errors import MessageTooLargeError, TrimmedError
from ledger.errors import (
    ConfigurationError,
    CorruptionError,
    LogStoreError,
    NotFoundError,
    OutcomeUnknownError,
    OwnershipLostError,
    UnauthorizedError,
    UnavailableError,
)


class BadOptionError(ConfigurationError):
    """An option of the source is unknown, missing or wrong (facts: option)."""


class OffsetFormatError(ConfigurationError):
    """An offset in a stream's checkpoint was written by another version of the source, or for another stream."""


class StreamDataLossError(CorruptionError):
    """Messages that a stream has not read do not exist any more, or its log is another one now (facts: log)."""


class PartitionDataLossError(CorruptionError):
    """A partition could not return exactly the messages that it was planned for (facts: start, end)."""


class BadRowError(ConfigurationError):
    """A row cannot be a message of the log."""


class TaskWriteError(UnavailableError):
    """A task could not write its rows; nothing of it is published (facts: partition)."""


class SparkSourceError(LogStoreError):
    """An error of dlog as Spark shows it: its message begins with a stable token (facts: token).

    Spark shows a formatted traceback behind a prefix of its own, so the message would come after all frames. A
    traceback begins with the cause of its error, hence the message is the cause, too.
    """

    def __init__(self, token: str, sentence: str) -> None:
        super().__init__(f"{token}: {sentence}", token=token)
        # Without frames it is the line `name: text`, and builtins have no module before the name.
        self._first_line: BaseException = type(token, (Exception,), {"__module__": "builtins"})(sentence)

    def __reduce__(self) -> tuple[object, ...]:
        # The class of the first line is made here, so no other process could import it.
        facts = {name: value for name, value in vars(self).items() if name != "_first_line"}
        return type(self), (self.facts["token"], str(self._first_line)), facts

    @property
    def __cause__(self) -> BaseException:  # PySpark drops a cause that can be set
        return self._first_line

    @__cause__.setter
    def __cause__(self, _: BaseException | None) -> None: ...


class NotSupportedError(ConfigurationError):
    """This source does not support the operation."""


_TOKENS: tuple[tuple[type[LogStoreError], str], ...] = (
    (TrimmedError, "DLOG_DATA_LOSS"),
    (CorruptionError, "DLOG_DATA_LOSS"),
    (NotSupportedError, "DLOG_NOT_SUPPORTED"),
    (BadRowError, "DLOG_BAD_ROW"),
    (MessageTooLargeError, "DLOG_BAD_ROW"),
    (ConfigurationError, "DLOG_BAD_OPTION"),
    (NotFoundError, "DLOG_NOT_FOUND"),
    (OwnershipLostError, "DLOG_OWNERSHIP_LOST"),
    (UnavailableError, "DLOG_UNAVAILABLE"),
    (OutcomeUnknownError, "DLOG_OUTCOME_UNKNOWN"),
)


def token_of(error: LogStoreError) -> str:
    """The token of this error."""
    return next((token for kind, token in _TOKENS if isinstance(error, kind)), "DLOG_FAILED")


def _sentence(error: LogStoreError) -> str:
    if isinstance(error, UnauthorizedError) and error.ledger_id is not None and error.bookie_id is None:
        # Its own text is about an argument of a call; here an option gives the password, or should.
        return (
            f"the query does not have the password of ledger {error.ledger_id}: set option 'passwordFile' to a file "
            "with the log's password, or leave it out if the log has none"
        )
    return str(error)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turns every error of dlog into a SparkSourceError with a token. All code that Spark calls runs inside."""
    try:
        yield
    except SparkSourceError:
        raise
    except LogStoreError as error:
        failure = SparkSourceError(token_of(error), " ".join(_sentence(error).split()))
        raise failure.with_traceback(error.__traceback__)  # noqa: B904  # its cause is its own
