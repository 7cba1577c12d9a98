"""What a Spark user sees of our errors: one sentence that begins with a token programs may rely on.

DLOG_BAD_OPTION      an option is unknown, missing or wrong; nothing was read
DLOG_DATA_LOSS       what the plan promised is not there: trimmed, deleted or damaged
DLOG_NOT_FOUND       no such log
DLOG_UNAVAILABLE     metadata store or bookies cannot be reached; run the query again
DLOG_FAILED          anything else that this distribution raises on purpose
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dlog.errors import TrimmedError
from ledger.errors import (
    ConfigurationError,
    CorruptionError,
    LogStoreError,
    NotFoundError,
    UnavailableError,
)


class BadOptionError(ConfigurationError):
    """An option of the source is unknown, missing or wrong (facts: option)."""


class PartitionDataLossError(CorruptionError):
    """A partition could not return exactly what planning promised (facts: start, end)."""


class SparkSourceError(LogStoreError):
    """Any of our errors as Spark shows it: its message begins with a stable token (facts: token)."""


_TOKENS: tuple[tuple[type[LogStoreError], str], ...] = (
    (TrimmedError, "DLOG_DATA_LOSS"),
    (CorruptionError, "DLOG_DATA_LOSS"),
    (ConfigurationError, "DLOG_BAD_OPTION"),
    (NotFoundError, "DLOG_NOT_FOUND"),
    (UnavailableError, "DLOG_UNAVAILABLE"),
)


def token_of(error: LogStoreError) -> str:
    """The stable token of `error`'s kind."""
    return next((token for kind, token in _TOKENS if isinstance(error, kind)), "DLOG_FAILED")


@contextmanager
def spark_errors() -> Iterator[None]:
    """The one boundary towards Spark: what leaves it is a SparkSourceError with a token."""
    try:
        yield
    except SparkSourceError:
        raise
    except LogStoreError as error:
        token = token_of(error)
        raise SparkSourceError(f"{token}: {error}", token=token) from error
