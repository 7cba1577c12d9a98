"""What SQLite reports → our errors. One boundary, so that no sqlite3.Error leaves the driver."""

from __future__ import annotations

import sqlite3

from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
)
from ledger.metadata.errors import MetadataStoreDamagedError

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_busy(error: Exception) -> bool:
    return _code(error) in _BUSY


def is_full(error: Exception) -> bool:
    """Whether the disk is full. Then a commit was certainly not made: its last step, which decides it, overwrites the
    beginning of the journal and takes no space. What it has written before is undone when the file is opened again.
    """
    return _code(error) == sqlite3.SQLITE_FULL


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file holds what SQLite or Python's module cannot read."""
    # Python's module raises this one itself, without a code, if a text is not UTF-8.
    is_undecodable = isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")
    return is_undecodable or _code(error) in _DAMAGED


def translated(error: sqlite3.Error | UnicodeDecodeError, path: str) -> LogStoreError:
    """The error for anything that failed before a commit was tried: certainly nothing was changed."""
    if isinstance(error, UnicodeDecodeError):  # Python's module on an error message that quotes damaged text
        return damaged(path, "its text is not UTF-8")
    if is_damage(error):
        return damaged(path, str(error))
    match _code(error):
        case code if code in _BUSY:
            return MetadataUnavailableError(
                f"{path} stayed locked by another process for too long: try again, or look for a stuck one"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return not_writable(path)
        case sqlite3.SQLITE_FULL:
            return MetadataUnavailableError(f"the disk that holds {path} is full: make room and try again")
        case _:
            return MetadataUnavailableError(f"{path} cannot be used now: {error}")


def commit_failed(error: sqlite3.Error, path: str) -> LogStoreError:
    """A commit that met an I/O error may be on the disk or not: only reading tells."""
    return MetadataOutcomeUnknownError(
        f"the change of {path} may or may not have been stored ({error}): read it again"
    )


def damaged(path: str, reason: str) -> MetadataStoreDamagedError:
    return MetadataStoreDamagedError(
        f"{path} is damaged, or no metadata store ({reason}): if the address is right, restore it from a backup",
        path=path,
    )


def missing(path: str) -> MetadataUnavailableError:
    return MetadataUnavailableError(
        f"there is no metadata store at {path}: check the address, or make a cluster with "
        f"'bookie init-cluster' or 'dlog standalone --data DIR'",
        path=path,
    )


def not_writable(path: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} or its directory is not writable for this user: change its permissions, or be its owner"
    )


def _code(error: Exception) -> int:
    """The primary result code; 0 for errors that Python's module raises by itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
