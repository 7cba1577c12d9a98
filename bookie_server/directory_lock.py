"""One process at a time works on a bookie's directories: the bookie itself or an offline command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bookie_server.disk import Disk, DiskLock
from bookie_server.errors import DirectoryInUseError
from bookie_server.storage_config import StorageConfig
from ledger.errors import ConfigurationError

LOCK_FILE = "lock"


def lock_directories(disk: Disk, config: StorageConfig) -> list[DiskLock]:
    """Lock both directories, made if missing. DirectoryInUseError. Blocks."""
    locks: list[DiskLock] = []
    for directory in (config.journal_directory, config.ledger_directory):
        disk.make_directory(directory)
        try:
            locks.append(disk.lock(directory / LOCK_FILE))
        except DirectoryInUseError:
            for each in locks:
                each.release()
            raise
    return locks


@contextmanager
def exclusively(disk: Disk, config: StorageConfig) -> Iterator[None]:
    """For offline commands: the directories must exist, and no bookie may run on them. Blocks."""
    for directory in (config.journal_directory, config.ledger_directory):
        if not disk.exists(directory):
            raise ConfigurationError(
                f"directory {directory} does not exist: give the directories that the bookie was started with"
            )
    locks = lock_directories(disk, config)
    try:
        yield
    finally:
        for each in locks:
            each.release()
