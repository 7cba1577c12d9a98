"""One process at a time works on a bookie's directories: the bookie itself or an offline command.

Directories of Apache BookKeeper's bookie are refused before anything is made in them: its files are not ours to
read, and least of all to delete.
"""

from __future__ import annotations

from pathlib import Path

from bookie_server.disk.disk import Disk, DiskLock
from bookie_server.disk.lost_directory import may_be_lost
from bookie_server.errors import DirectoryInUseError, ForeignStorageError
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.storage_paths import StoragePaths
from ledger.errors import LogStoreError

LOCK_FILE = "lock"
APACHE_COOKIE = Path("current", "VERSION")
"""Where Apache's bookie keeps its cookie, in each of its directories; ours is not below `current`."""


def lock_directories(disk: Disk, config: StorageConfig) -> list[DiskLock]:
    """Lock all directories, made if missing. DirectoryInUseError, ForeignStorageError. Blocks."""
    refuse_apaches(disk, config)
    locks: list[DiskLock] = []
    for directory in all_directories(config):
        try:
            with may_be_lost(StoragePaths.of(config), directory):
                disk.make_directory(directory)
                locks.append(disk.lock(directory / LOCK_FILE))
        except LogStoreError as error:
            for each in locks:
                each.release()
            if isinstance(error, DirectoryInUseError) and locks:
                raise DirectoryInUseError(
                    f"{error}; or is it the same directory as another one that is given, under a second name?",
                    path=error.path,
                ) from error
            raise
    return locks


def all_directories(config: StorageConfig) -> tuple[Path, ...]:
    """The journal's, and those of the ledgers."""
    return (config.journal_directory, *config.ledger_directories)


def refuse_apaches(disk: Disk, config: StorageConfig) -> None:
    """Neither one of its directories, nor ours made inside of one. ForeignStorageError, DiskFailedError."""
    for directory in all_directories(config):
        for place in (directory, directory.parent):
            with may_be_lost(StoragePaths.of(config), directory):
                is_foreign = disk.exists(place / APACHE_COOKIE)
            if is_foreign:
                raise ForeignStorageError(
                    f"{place} belongs to a bookie of Apache BookKeeper ({place / APACHE_COOKIE} exists), whose storage "
                    "format is different: give this bookie its own directory",
                    path=place,
                )
