"""What a first start makes of a bookie's storage: the first journal file and the log mark that points at it.

Invariant: both are durable before the metadata store knows the bookie. So a known bookie without a log mark has lost
it, and opening a storage never makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.journal.files import FIRST_POSITION, NEXT_FILE, JournalFiles
from bookie_server.journal.log_mark import encode_log_mark
from bookie_server.journal.record import FILE_HEADER_BYTES, file_name
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.storage_paths import LOG_MARK, StoragePaths

_FIRST_JOURNAL_FILE = file_name(FIRST_POSITION.file_id)


def make_first_files(disk: Disk, config: StorageConfig, new_salt: Callable[[], int]) -> None:
    """Make an empty journal and its log mark, durably; what an interrupted first start left is replaced. Blocks.

    DiskFullError, DiskFailedError.
    """
    paths = StoragePaths.of(config)
    JournalFiles.create(disk, paths.journal, config.journal_segment_bytes, new_salt).close()
    disk.replace_file(paths.mark, encode_log_mark(FIRST_POSITION))


def journal_is_unused(disk: Disk, directory: Path, names: set[str]) -> bool:
    """Whether the files `names` are all from an interrupted first start: no record was ever written. Blocks."""
    if names - {NEXT_FILE, _FIRST_JOURNAL_FILE}:
        return False
    if _FIRST_JOURNAL_FILE not in names:
        return True
    return len(disk.read_file(directory / _FIRST_JOURNAL_FILE).rstrip(b"\0")) <= FILE_HEADER_BYTES


def ledgers_are_unused(disk: Disk, directory: Path, names: set[str]) -> bool:
    """The same for the ledger directory: no checkpoint was ever made. Blocks."""
    if names - {LOG_MARK, LOG_MARK + ".tmp"}:
        return False
    return LOG_MARK not in names or disk.read_file(directory / LOG_MARK) == encode_log_mark(FIRST_POSITION)
