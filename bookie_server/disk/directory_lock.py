"""One process at a time works on a bookie's directories: the bookie itself or an offline command.

Directories of Apache BookKeeper's bookie are refused before anything is made in them: its files are not ours to
read, and least of all to delete.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bookie_server.disk.disk import Disk, DiskLock
from bookie_server.errors import DiskFailedError, ForeignStorageError
from bookie_server.storage.config import StorageConfig
from ledger.errors import LogStoreError

LOCK_FILE = "lock"
APACHE_COOKIE = Path("current", "VERSION")
"""Where Apache's bookie keeps its cookie, in each of its directories; ours is not below `current`."""


def lock_directories(disk: Disk, config: StorageConfig) -> list[DiskLock]:
    """Lock all directories, made if missing. DirectoryInUseError, ForeignStorageError. Blocks."""
    directories = (config.journal_directory, *config.ledger_directories)
    refuse_apaches(disk, directories)
    locks: list[DiskLock] = []
    for directory in directories:
        try:
            disk.make_directory(directory)
            locks.append(disk.lock(directory / LOCK_FILE))
        except LogStoreError as error:
            for each in locks:
                each.release()
            if isinstance(error, DiskFailedError) and directory in config.more_ledger_directories:
                raise DiskFailedError(
                    f"{error}; if the disk of ledger directory {directory} is lost, give it up, and go on with the "
                    f"other ones: --lost-ledger-dir {directory}",
                    path=directory,
                    missing=error.missing,
                ) from error
            raise
    return locks


def refuse_apaches(disk: Disk, directories: Iterable[Path]) -> None:
    """Neither one of its directories, nor ours made inside of one."""
    for directory in directories:
        for place in (directory, directory.parent):
            if disk.exists(place / APACHE_COOKIE):
                raise ForeignStorageError(
                    f"{place} belongs to a bookie of Apache BookKeeper ({place / APACHE_COOKIE} exists), whose storage "
                    "format is different: give this bookie its own directory",
                    path=place,
                )
