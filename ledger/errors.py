"""The one tree of errors. The branch tells what the caller can do; facts are attributes.

    LogStoreError
    ├─ ConfigurationError     fix the call
    ├─ UnavailableError       nothing happened, try later
    ├─ OutcomeUnknownError    it may have happened: read first
    ├─ OwnershipLostError     stop; unconfirmed entries may exist
    ├─ NotFoundError          absence is proved
    └─ CorruptionError        wrong bytes, try another replica

`dlog` and `bookie_server` add leaves. Every message is one sentence that names the value, the limit and what to do.
This module imports nothing of this distribution.
"""

from typing import TYPE_CHECKING, Any


class LogStoreError(Exception):
    """Root of every error that this distribution raises on purpose. Keyword facts become attributes."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class ConfigurationError(LogStoreError):
    """The call or its settings are wrong; nothing was changed."""


class UnavailableError(LogStoreError):
    """Certainly nothing happened; the same call may succeed later."""


class OutcomeUnknownError(LogStoreError):
    """The operation may or may not have happened: read before repeating it."""


class OwnershipLostError(LogStoreError):
    """Another client owns this ledger or log now; unconfirmed entries may exist."""


class NotFoundError(LogStoreError):
    """What was named does not exist, and its absence is proved."""


class CorruptionError(LogStoreError):
    """Bytes are not what they must be; another replica may hold them intact."""


# ---- configuration


class MissingExtraError(ConfigurationError, ImportError):
    """`what` needs a package that only an extra of the distribution installs (facts: package, extra)."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package}, which is not installed: run pip install '.[{extra}]' in a "
            f"checkout of dlog-bookkeeper, or pip install 'WHEEL[{extra}]' with the path of its wheel",
            package=package,
            extra=extra,
        )


class InvalidNameError(ConfigurationError):
    """A name, id text or address is malformed."""


class EntryTooLargeError(ConfigurationError):
    """The entry exceeds the limit and was not sent (facts: entry_bytes, entry_bytes_max)."""


class LayoutMismatchError(ConfigurationError):
    """The store is laid out by another ledger manager, format version or cluster than configured."""


class UnauthorizedError(ConfigurationError):
    """Wrong password (master key) for this ledger."""


# ---- unavailable


class NotEnoughBookiesError(UnavailableError):
    """Fewer usable bookies than the operation needs (facts: needed, available)."""


class MetadataUnavailableError(UnavailableError):
    """The metadata store could not be reached; the change was certainly not made."""


class ContendedError(UnavailableError):
    """The value to change by compare-and-set kept changing; nothing was changed (facts: rounds)."""


class BookieUnavailableError(UnavailableError):
    """No usable connection to the bookie, or it answered with an error (facts: bookie_id)."""


class RequestTimeoutError(UnavailableError):
    """A read was not answered in time."""


class LedgerClosedError(UnavailableError):
    """The handle or the ledger is closed and takes no more entries (facts: ledger_id)."""


class LedgerRecoveryError(UnavailableError):
    """Recovery could not reach its quorum; the ledger stays IN_RECOVERY and may be tried again."""


class ReadError(UnavailableError):
    """An entry could not be read from any replica, and its absence is not proved."""


# ---- outcome unknown


class MetadataOutcomeUnknownError(OutcomeUnknownError):
    """A metadata change was sent and its answer lost. Read again to learn the outcome."""


class AddFailedError(OutcomeUnknownError):
    """Too few bookies are left, or the client was closed; unconfirmed entries may exist (facts: ledger_id, lac)."""


# ---- ownership


class LedgerFencedError(OwnershipLostError):
    """Another client recovers or has recovered this ledger (facts: ledger_id)."""


class MetadataVersionError(OwnershipLostError):
    """A compare-and-set met another version than expected; certainly not applied (facts: key, expected)."""


# ---- not found


class LedgerNotFoundError(NotFoundError):
    """No such ledger in metadata (facts: ledger_id)."""


class EntryNotFoundError(NotFoundError):
    """The entry is proved absent (facts: ledger_id, entry_id)."""


class RecordNotFoundError(NotFoundError):
    """No value under this metadata key (facts: key)."""


class AlreadyExistsError(LogStoreError):
    """A create found another client's value under the key (facts: key)."""


# ---- corruption


class ProtocolError(CorruptionError):
    """A peer sent bytes that no valid frame or message has."""


class DigestMismatchError(CorruptionError):
    """The entry's digest, ledger id or entry id is wrong (facts: ledger_id, entry_id)."""


class MetadataFormatError(CorruptionError):
    """A metadata value cannot be decoded (facts: key when known)."""
