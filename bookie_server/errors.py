"""Leaves that the bookie adds to the one error tree (ledger/errors.py).

Law: "proved absent" is never an error here, it is `None` or `-1`. Every error below therefore means
*unknown* to a client, except those under ConfigurationError and UnavailableError, which changed nothing.
"""

from ledger.errors import (
    ConfigurationError,
    CorruptionError,
    OutcomeUnknownError,
    UnavailableError,
)

# ---- fix the call


class JournalVersionError(ConfigurationError):
    """A journal file was written by a newer version (facts: path, version, version_max)."""


class IndexVersionError(ConfigurationError):
    """The index was written by a newer version (facts: version, version_max)."""


class EntryConflictError(ConfigurationError):
    """Other bytes are stored under these entry ids (facts: ledger_id, entry_ids: frozenset[int]).

    The other entries of the same run were stored and are durable when this is reported.
    """


class CookieMismatchError(ConfigurationError):
    """A directory is not the one this bookie was formatted with (facts: directory, bookie_id)."""


class ForeignStorageError(ConfigurationError):
    """The directory holds the storage of another kind of bookie (facts: path)."""


class ClusterMissingError(ConfigurationError):
    """The metadata store holds no cluster (facts: uri)."""


# ---- nothing happened


class PortTakenError(UnavailableError):
    """Another process listens on the port (facts: host, port)."""


class DirectoryInUseError(UnavailableError):
    """Another process works on the directory (facts: path)."""


class BookieInUseError(UnavailableError):
    """The bookie runs, or ledgers still have entries on it (facts: bookie_id)."""


class BookieAliveError(UnavailableError):
    """Another process is registered under this bookie id (facts: bookie_id)."""


class DiskFullError(UnavailableError):
    """No space was left; what was to be written is not there (facts: path)."""


class TooManyFilesError(DiskFullError):
    """No file descriptor was left to open a file with, and nothing was changed (facts: path).

    Handled as a full disk is: the disk is healthy, so the bookie goes on, refuses what needs the file, and
    tries again when it measures its disks.
    """


class StorageInUseError(UnavailableError):
    """Another process, or another storage of this one, has these directories open (facts: path)."""


class StorageClosedError(UnavailableError):
    """The storage is closed or closing and takes nothing more."""


# ---- it may have happened


class DiskFailedError(OutcomeUnknownError):
    """A write or sync failed, so nothing that waited for it is known to be stored (facts: path)."""


# ---- proved absent


# ---- wrong bytes


class StorageError(CorruptionError):
    """Stored bytes cannot be read or are wrong. Absence is not proved: ask another replica."""


class LimboError(StorageError):
    """Part of the journal was lost, so what is not found here may have existed (facts: ledger_id)."""


class JournalDamagedError(CorruptionError):
    """Records that had been synced are damaged or missing (facts: path, offset)."""


class IndexDamagedError(CorruptionError):
    """The index is damaged, missing or older than the log mark (facts: path)."""
