"""C17, file by file: a bookie that was stopped leaves no file that no later start will read or remove.

Nor entries of deleted ledgers in its index: they are removed once, in the checkpoint that stores the deletion.

Looks at its directories through the bookie's own disk, so at simulated and at real ones alike. A file that a crash
left half made may stay, one of each kind, and the next that is made takes its place; of entry logs there may be
several, which the collector removes when a later one is the current one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bookie_server.disk.disk import Disk
from bookie_server.journal.files import file_ids
from bookie_server.journal.log_mark import decode_log_mark
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.index import Index
from bookie_server.storage.segments.log_files import log_ids
from bookie_server.storage.segments.places import segment_id
from bookie_server.storage.storage_paths import StoragePaths

_KNOWN = {
    "journal": re.compile(r"[0-9a-f]{16}\.journal|(next|spare)\.tmp|(VERSION|lock|port)(\.tmp)?"),
    "ledgers": re.compile(
        r"entry-logs|index|(VERSION|lock|port|log-mark|reserve|ledger-states|scrub-record)(\.tmp)?"
    ),
    "more": re.compile(r"entry-logs|(VERSION|lock)(\.tmp)?"),
    "entry logs": re.compile(r"[0-9a-f]{16}\.log"),
}


def c17_no_file_is_left_over(disk: Disk, config: StorageConfig, *, swept: bool) -> Iterator[str]:
    """The bookie was stopped in good order; `swept`: after its collector had found nothing more to delete.

    After a failed ledger directory, or a stop during a removal, dead files are left to the next process.
    """
    paths = StoragePaths.of(config)
    for what, directory in (
        ("journal", paths.journal),
        ("ledgers", paths.ledgers),
        *(("more", directory) for directory in paths.more),
        *(("entry logs", directory) for directory in paths.log_directories),
    ):
        for name in disk.list(directory):
            if not _KNOWN[what].fullmatch(name):
                yield f"{directory / name} is not a file of a bookie"
    mark = decode_log_mark(disk.read_file(paths.mark), paths.mark)
    index = Index(disk.open_key_values(paths.index))
    try:
        # What the index has pointed into is left to the collector.
        if swept or not config.single_write_bytes_min:
            yield from _segments(disk, paths, index, mark.file_id)
        yield from _logs(disk, paths, index, swept=swept)
        yield from _entries(index)
    finally:
        index.close()


def _segments(disk: Disk, paths: StoragePaths, index: Index, marked: int) -> Iterator[str]:
    for file_id in file_ids(disk, paths.journal):
        if file_id < marked and not index.has_live_ledger(segment_id(file_id)):
            yield f"journal file {file_id} is before the log mark, which is in {marked}, and no entry is in it"


def _entries(index: Index) -> Iterator[str]:
    living = set(index.ledger_ids())
    for ledger_id in sorted({each for each, _ in index.all_intervals()} - living):
        yield f"the index has entries of ledger {ledger_id}, which is deleted or unknown"


def _logs(disk: Disk, paths: StoragePaths, index: Index, *, swept: bool) -> Iterator[str]:
    end = index.log_end()
    last = 0 if end is None else end.log_id  # they are counted from one
    for log_id in log_ids(disk, paths):
        is_live = index.has_live_ledger(log_id)
        if log_id > last:
            # Left by a crash or a full disk: the next log comes after it, and then the collector removes it. A rebuilt
            # index may lead into one, that of the last compaction.
            if is_live and log_id > last + 1:
                yield f"entry log {log_id} has entries after the end of all entry logs, which is in {last}"
        elif swept and log_id < last and not is_live:
            yield f"entry log {log_id} has no entry of an existing ledger"
