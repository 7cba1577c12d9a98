"""How much of each file with entries is live: blocks of ledgers that are not deleted. Blocks.

Entry logs and journal files before the log mark; what is after it belongs to replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.errors import DiskFailedError
from bookie_server.journal.files import file_ids
from bookie_server.storage.index import Index
from bookie_server.storage.segments.log_files import log_ids, path_of
from bookie_server.storage.segments.places import segment_id
from bookie_server.storage.storage_paths import StoragePaths


@dataclass(frozen=True, slots=True)
class FileSpace:
    """One file with entries."""

    log_id: int
    """Its number in the index."""
    path: Path
    file_bytes: int
    ledgers: Mapping[int, int]
    """By ledger that is not deleted: bytes of its blocks here, an upper bound."""

    @property
    def live_bytes(self) -> int:
        return min(sum(self.ledgers.values()), self.file_bytes)

    @property
    def dead_bytes(self) -> int:
        return self.file_bytes - self.live_bytes

    @property
    def live_part(self) -> float:
        return self.live_bytes / self.file_bytes if self.file_bytes else 0.0


def measure(disk: Disk, paths: StoragePaths, index: Index, mark_file_id: int) -> list[FileSpace]:
    """Every entry log, and every journal file before that of the log mark; ascending.

    Without those that cannot be opened: what is in them cannot be copied, and reads report them. StorageError.
    """
    numbers = log_ids(disk, paths)
    numbers += [segment_id(each) for each in file_ids(disk, paths.journal) if each < mark_file_id]
    ledgers: dict[int, dict[int, int]] = {log_id: {} for log_id in numbers}
    for log_id, ledger_id, live_bytes in index.live_bytes():
        if log_id in ledgers:
            ledgers[log_id][ledger_id] = live_bytes
    spaces = (_space(disk, paths, log_id, found) for log_id, found in ledgers.items())
    return [each for each in spaces if each is not None]


def _space(disk: Disk, paths: StoragePaths, log_id: int, ledgers: Mapping[int, int]) -> FileSpace | None:
    path = path_of(disk, paths, log_id)
    try:
        file = disk.open_read(path)
    except DiskFailedError:
        return None
    try:
        return FileSpace(log_id, path, file.size(), ledgers)
    finally:
        file.close()


def live_by_ledger(files: Sequence[FileSpace]) -> dict[int, dict[int, int]]:
    """By ledger, ascending: bytes of its blocks in each of these files."""
    found: dict[int, dict[int, int]] = {}
    for file in files:
        for ledger_id, live_bytes in file.ledgers.items():
            found.setdefault(ledger_id, {})[file.log_id] = live_bytes
    return dict(sorted(found.items()))
