"""Leaves that the bookie adds to the one error tree (ledger/errors.py).

Invariant: "proved absent" is never an error here, it is `None` or `-1`. Every error below therefore means
*unknown* to a client, except those under ConfigurationError and UnavailableError, which changed nothing.
"""

from __future__ import annotations

from pathlib import Path

from ledger.errors import (
    ConfigurationError,
    CorruptionError,
    OutcomeUnknownError,
    UnavailableError,
)

# ---- fix the call


class JournalVersionError(ConfigurationError):
    """A journal file was written by a newer version."""

    path: Path
    version: int
    version_max: int


class IndexVersionError(ConfigurationError):
    """The index was written by a newer version."""

    version: int
    version_max: int


class EntryConflictError(ConfigurationError):
    """Other bytes are stored under these entry ids.

    The other entries of the same run were stored and are durable when this is reported.
    """

    ledger_id: int
    entry_ids: frozenset[int]


class CookieMismatchError(ConfigurationError):
    """A directory is not the one this bookie was formatted with."""

    directory: Path | None = None
    bookie_id: str | None = None


class ForeignStorageError(ConfigurationError):
    """The directory holds the storage of another kind of bookie."""

    path: Path


class ClusterMissingError(ConfigurationError):
    """The metadata store holds no cluster."""

    uri: str


# ---- nothing happened


class PortTakenError(UnavailableError):
    """Another process listens on the port."""

    host: str
    port: int


class DirectoryInUseError(UnavailableError):
    """Another process works on the directory."""

    path: Path


class BookieInUseError(UnavailableError):
    """The bookie runs, or ledgers still have entries on it."""

    bookie_id: str
    ledger_id: int | None = None


class BookieAliveError(UnavailableError):
    """Another process is registered under this bookie id."""

    bookie_id: str


class AddressTakenError(UnavailableError):
    """Clients expect another bookie (`bookie_id`) at this bookie's address."""

    bookie_id: str


class DiskFullError(UnavailableError):
    """No space was left; what was to be written is not there."""

    path: Path | None = None


class TooManyFilesError(DiskFullError):
    """No file descriptor was left to open a file with, and nothing was changed (facts: path).

    Handled as a full disk is: the disk is healthy, so the bookie goes on, refuses what needs the file, and
    tries again when it measures its disks.
    """


class StorageInUseError(UnavailableError):
    """Another process, or another storage of this one, has these directories open."""

    path: Path


class StorageClosedError(UnavailableError):
    """The storage is closed or closing and takes nothing more."""


# ---- it may have happened


class DiskFailedError(OutcomeUnknownError):
    """A write or sync failed, so nothing that waited for it is known to be stored."""

    path: Path | None = None
    missing: bool = False
    unreadable: bool = False
    """The disk could not read this place; it may be able to read the rest of the file."""


# ---- proved absent


# ---- wrong bytes


class StorageError(CorruptionError):
    """Stored bytes cannot be read or are wrong. Absence is not proved: ask another replica."""

    path: Path | None = None
    ledger_id: int | None = None
    entry_id: int | None = None


class BlockDamagedError(StorageError):
    """A block that the index names is not there intact; its entries may be stored again."""

    offset: int | None = None


class LedgerDirectoryFailedError(StorageError):
    """One of several ledger directories has failed, and not the one with the index: others take its new entry logs.

    What was to be written is nowhere, and no byte that was there before was changed.
    """

    directory: Path


class LimboError(StorageError):
    """Part of the journal was lost, so what is not found here may have existed (facts: ledger_id)."""


class JournalDamagedError(CorruptionError):
    """Records that had been synced are damaged or missing."""

    path: Path
    offset: int


class JournalRecordError(CorruptionError):
    """A journal record has the right checksum, but not a body of its type."""


class IndexDamagedError(CorruptionError):
    """The index is damaged, missing or older than the log mark."""

    path: Path
