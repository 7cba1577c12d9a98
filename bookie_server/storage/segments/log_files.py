"""The files with blocks on a bookie's disks: which entry logs there are, and where a file of a number is.

Entry logs are in any of the ledger directories. A directory whose disk has failed has none, as far as can be known.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.disk.numbered_files import numbers_of
from bookie_server.errors import DiskFailedError
from bookie_server.storage.entry_logs.format import SUFFIX
from bookie_server.storage.segments.places import is_segment, name_of
from bookie_server.storage.storage_paths import StoragePaths


def log_ids(disk: Disk, paths: StoragePaths) -> list[int]:
    """Ids of the entry logs, ascending."""
    found: set[int] = set()
    for directory in paths.log_directories:
        with suppress(DiskFailedError):
            found.update(numbers_of(disk, directory, SUFFIX))
    return sorted(found)


def all_log_ids(disk: Disk, paths: StoragePaths) -> set[int]:
    """As `log_ids`, if it is certain that there are no others. DiskFailedError."""
    return {each for directory in paths.log_directories for each in numbers_of(disk, directory, SUFFIX)}


def path_of(disk: Disk, paths: StoragePaths, log_id: int) -> Path:
    """Where the file with this number in the index is; a path in the first directory if it is in none."""
    if is_segment(log_id):
        return paths.journal / name_of(log_id)
    first, *others = (directory / name_of(log_id) for directory in paths.log_directories)
    return next((path for path in (first, *others) if _exists(disk, path)), first) if others else first


def _exists(disk: Disk, path: Path) -> bool:
    with suppress(DiskFailedError):
        return disk.exists(path)
    return False
