"""`bookie space` and `bookie compact`: what is live in a bookie's files, and how the rest goes. Blocks.

A running bookie is asked; the files of a stopped one are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bookie_server.control.messages import Command, Request, compacted_of, files_of
from bookie_server.disk.disk import Disk
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DiskFullError
from bookie_server.journal.record import RecordType, ledger_of
from bookie_server.storage.compaction.compactor import Compacted
from bookie_server.storage.compaction.selection import select
from bookie_server.storage.compaction.space import FileSpace, live_by_ledger, measure
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.tools.inspection import journal_records
from bookie_server.tools.running_bookie import ask_running
from bookie_server.tools.stopped_bookie import exclusively, opened_index
from ledger import whole_loop
from ledger.environment import SystemEnvironment
from ledger.printing import Row

FILE_COLUMNS = ("file", "bytes", "live_bytes", "dead_bytes", "live_part", "ledgers")
LEDGER_COLUMNS = ("ledger", "live_bytes", "files")

_UNLIMITED = 2**62


def file_rows(config: StorageConfig) -> list[Row]:
    """One row for each entry log and each journal file before the log mark, and one for all of them."""
    files = _files(config)
    total = FileSpace(0, config.ledger_directory, sum(each.file_bytes for each in files), _live_bytes(files))
    return [*map(_file_row, files), {**_file_row(total), "file": "all"}]


def ledger_rows(config: StorageConfig) -> list[Row]:
    """One row for each ledger with entries in these files."""
    return [
        {"ledger": ledger_id, "live_bytes": sum(in_files.values()), "files": len(in_files)}
        for ledger_id, in_files in live_by_ledger(_files(config)).items()
    ]


def compactable_rows(config: StorageConfig, threshold: float) -> list[Row]:
    """One row for each file that a compaction with this threshold would copy and remove; changes nothing."""
    return [_file_row(each) for each in select(_files(config), threshold, _UNLIMITED, _UNLIMITED).files]


def text_row(row: Row) -> Row:
    """The row for text: the live part with two digits."""
    return {**row, "live_part": f"{row['live_part']:.2f}"}


def _live_bytes(files: Sequence[FileSpace]) -> dict[int, int]:
    return {ledger_id: sum(in_files.values()) for ledger_id, in_files in live_by_ledger(files).items()}


def _file_row(file: FileSpace) -> Row:
    return {
        "file": str(file.path),
        "bytes": file.file_bytes,
        "live_bytes": file.live_bytes,
        "dead_bytes": file.dead_bytes,
        "live_part": round(file.live_part, 4),
        "ledgers": len(file.ledgers),
    }


def _files(config: StorageConfig, *, to_change: bool = False) -> list[FileSpace]:
    result = ask_running(config, Request(Command.SPACE))
    if result is not None:
        return files_of(result)
    disk = SystemDisk()
    with exclusively(disk, config, to_change=to_change):
        return _measured(disk, config)


def _measured(disk: Disk, config: StorageConfig) -> list[FileSpace]:
    """Without ledgers whose deletion only the journal's tail has."""
    paths = StoragePaths.of(config)
    with opened_index(disk, paths) as (index, mark):
        deleted = {
            ledger_of(each.record.body)
            for each in journal_records(disk, paths.journal, mark)
            if each.record.type is RecordType.TOMBSTONE
        }
        files = measure(disk, paths, index, mark.file_id)
    return [
        replace(file, ledgers={each: size for each, size in file.ledgers.items() if each not in deleted})
        for file in files
    ]


def compact(config: StorageConfig, threshold: float) -> tuple[Row, str]:
    """Compact; what was done, and why files with enough garbage stay, if they do.

    A running bookie goes on serving, and compacts at the rate of its settings. The journal of a stopped one is replayed
    first. Errors: those of a start, and of a disk that fails; UnavailableError of a running one.
    """
    before = _files(config, to_change=True)
    result = ask_running(config, Request(Command.COMPACT, threshold))
    done = compacted_of(result) if result is not None else _compact_stopped(config, threshold)
    row: Row = {
        "files_removed": done.files_removed,
        "copied_bytes": done.copied_bytes,
        "bytes_before": sum(each.file_bytes for each in before),
        "bytes_after": sum(each.file_bytes for each in _files(config)),
    }
    return row, done.refusal


def _compact_stopped(config: StorageConfig, threshold: float) -> Compacted:
    disk = SystemDisk()
    with exclusively(disk, config, to_change=True):
        return whole_loop.run(_compacted(disk, config, threshold))


def require_all(refusal: str) -> None:
    """DiskFullError if files with enough garbage stay, with the reason."""
    if refusal:
        raise DiskFullError(refusal)


async def _compacted(disk: Disk, config: StorageConfig, threshold: float) -> Compacted:
    # It takes no adds, so nothing is written once: whether files get version 2 is left to the bookie's own start.
    config = replace(config, compaction_bytes_per_s=_UNLIMITED, single_write_bytes_min=0)
    storage = await LedgerStorage.open(config, disk, SystemEnvironment())
    try:
        await storage.checkpoint()
        return await storage.compact(threshold)
    finally:
        await storage.close()
