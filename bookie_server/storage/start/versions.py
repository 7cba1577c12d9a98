"""Files that only a later checkpoint, read or rebuild would open: a newer version is refused at the start. Blocks."""

from __future__ import annotations

from bookie_server.disk.disk import Disk
from bookie_server.disk.sectors import read_around, read_file_around
from bookie_server.errors import DiskFailedError
from bookie_server.storage.entry_logs import format as entry_log
from bookie_server.storage.index import LogEnd
from bookie_server.storage.ledgers import state_log_format
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.storage_paths import StoragePaths


def require_known_versions(disk: Disk, paths: StoragePaths, end: LogEnd | None) -> None:
    """IndexVersionError if a newer version wrote the ledger states or the entry log that is appended to next.

    A header that cannot be read is damaged, and does not show its version. An entry log that cannot be opened is not
    appended to.
    """
    if disk.exists(paths.states):
        state_log_format.require_known_version(read_file_around(disk, paths.states), paths.states)
    if end is None:
        return
    log = path_of(disk, paths, end.log_id)
    try:
        file = disk.open_read(log)
    except DiskFailedError:
        return
    try:
        header, _ = read_around(file, 0, entry_log.FILE_HEADER_BYTES)
        entry_log.require_known_version(header, log)
    finally:
        file.close()
