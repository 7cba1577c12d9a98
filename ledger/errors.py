"""The tree of errors. The branch says what the caller can do; facts are attributes, None if unknown.

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

from __future__ import annotations

from typing import Self, TypeVar

E = TypeVar("E", bound="LogStoreError")


class LogStoreError(Exception):
    """Root of every error that this distribution raises on purpose. Keyword facts become attributes."""

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def copy(self) -> Self:
        """A new error of the same type with the same text, facts, notes and cause, but no traceback.

        An error that ends many calls is raised as a copy in each: an exception that is raised again keeps the
        traceback, and with it the local variables, of every earlier call.
        """
        error = _restored(type(self), str(self), self.facts)
        error.__dict__ |= self.__dict__
        if hasattr(self, "__notes__"):
            error.__notes__ = list(self.__notes__)
        error.__cause__ = self.__cause__
        return error

    def __reduce__(self) -> tuple[object, ...]:
        # `Exception` would call `__init__` with the message alone, which is not what each leaf takes.
        return _restored, (type(self), str(self), self.facts), self.__dict__


def _restored(kind: type[E], message: str, facts: dict[str, object]) -> E:
    """An error as it was made, whatever arguments its own `__init__` takes."""
    error = kind.__new__(kind)
    LogStoreError.__init__(error, message, **facts)
    return error


class ConfigurationError(LogStoreError):
    """The call or its settings are wrong; nothing was changed."""


class UnavailableError(LogStoreError):
    """Nothing happened; the same call may succeed later."""


class OutcomeUnknownError(LogStoreError):
    """The operation may or may not have happened: read before repeating it."""


class OwnershipLostError(LogStoreError):
    """Another client owns this ledger or log now; unconfirmed entries may exist."""


class NotFoundError(LogStoreError):
    """It does not exist: its absence is proved."""


class CorruptionError(LogStoreError):
    """Stored or received bytes are wrong; another replica may be intact."""


# ---- configuration


class MissingExtraError(ConfigurationError, ImportError):
    """A feature needs a package that only an extra of the distribution installs."""

    package: str
    extra: str

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
    """The entry exceeds the limit and was not sent."""

    entry_bytes: int
    entry_bytes_max: int


class LayoutMismatchError(ConfigurationError):
    """The metadata store has the layout of another ledger manager, format version or cluster than configured."""

    log: str | None = None
    path: str | None = None


class UnauthorizedError(ConfigurationError):
    """The password (master key) of the ledger is wrong."""

    ledger_id: int | None = None
    bookie_id: str | None = None


# ---- unavailable


class NotEnoughBookiesError(UnavailableError):
    """Fewer usable bookies than the operation needs."""

    needed: int
    available: int


class NotEnoughRacksError(NotEnoughBookiesError):
    """The usable bookies do not span the racks and zones that placement enforces."""

    racks: int
    racks_min: int
    zones: int
    zones_min: int


class MetadataUnavailableError(UnavailableError):
    """The metadata store could not be reached; the change was not made."""

    path: str | None = None


class ContendedError(UnavailableError):
    """Each of `rounds` compare-and-sets met another change of the value; nothing was changed."""

    rounds: int


class BookieUnavailableError(UnavailableError):
    """The bookie could not be reached, or responded with an error."""

    bookie_id: str | None = None


class RequestTimeoutError(UnavailableError):
    """A read got no response in time."""


class LedgerClosedError(UnavailableError):
    """The handle or the ledger is closed and accepts no more entries."""

    ledger_id: int


class LedgerRecoveryError(UnavailableError):
    """Recovery did not reach its quorum. The ledger stays IN_RECOVERY; recovering it again may succeed."""

    ledger_id: int


class ReadError(UnavailableError):
    """An entry could not be read from any replica, and its absence is not proved."""

    ledger_id: int | None = None
    entry_id: int | None = None


# ---- outcome unknown


class MetadataOutcomeUnknownError(OutcomeUnknownError):
    """A metadata change was sent, but the response was lost. Read the metadata to learn the outcome."""

    log: str | None = None


class AddFailedError(OutcomeUnknownError):
    """Too few bookies are left, or the client was closed. Entries above `lac` may exist."""

    ledger_id: int
    lac: int


# ---- ownership


class LedgerFencedError(OwnershipLostError):
    """Another client is recovering this ledger, or has recovered it."""

    ledger_id: int
    last_entry: int | None = None


class MetadataVersionError(OwnershipLostError):
    """A compare-and-set found another version than expected and was not applied."""

    key: int | str
    expected: int


# ---- not found


class LedgerNotFoundError(NotFoundError):
    """The ledger has no metadata: it never existed or was deleted."""

    ledger_id: int


class EntryNotFoundError(NotFoundError):
    """The entry is proved absent."""

    ledger_id: int
    entry_id: int


class RecordNotFoundError(NotFoundError):
    """No value under this metadata key."""

    key: str


class AlreadyExistsError(LogStoreError):
    """The key to be created already has a value."""

    key: int | str


# ---- corruption


class ProtocolError(CorruptionError):
    """A peer sent bytes that are not a valid frame or message."""

    frame_bytes: int | None = None
    frame_bytes_max: int | None = None


class DigestMismatchError(CorruptionError):
    """The digest, ledger id or entry id of the entry is wrong."""

    ledger_id: int
    entry_id: int


class MetadataFormatError(CorruptionError):
    """A metadata value cannot be decoded."""

    key: int | str | None = None
    newer_version: int | None = None
    """Its format, if a later release has written it: then it is not damaged."""
