"""`bookie read-log`: the blocks of a stopped bookie as rows to print, found without the index. Blocks.

They are in entry logs, and in the part of the journal before the log mark: large runs of entries stay there. What comes
after the mark is `bookie read-journal`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from bookie_server.disk.disk import Disk
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import IndexDamagedError
from bookie_server.journal.files import file_ids
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import SUFFIX as JOURNAL_SUFFIX
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.format import SUFFIX
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock, scan
from bookie_server.storage.segments.log_files import log_ids, path_of
from bookie_server.storage.segments.places import is_segment, journal_file_id, name_of, segment_id
from bookie_server.storage.segments.scan import scan_segment
from bookie_server.storage.start.journal_recovery import read_mark
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.tools.stopped_bookie import exclusively
from ledger.errors import ConfigurationError, RecordNotFoundError
from ledger.printing import Row

_NAME = re.compile(
    rf"([0-9a-f]{{1,16}})({re.escape(SUFFIX)}|(?P<journal>{re.escape(JOURNAL_SUFFIX)}))?", re.IGNORECASE
)


def entry_log_rows(
    config: StorageConfig, log: str | None, ledger_id: int | None, entry_id: int | None
) -> Iterator[Row]:
    """One row for each entry in one file, or in all, as they lie there; and one for each damaged part.

    Entries of deleted ledgers, and copies that the index does not name any more, are among them.

    Raises:
        ConfigurationError: `log` is neither the name of an entry log or of a journal file nor an entry log's number.
        RecordNotFoundError: there is no such file with blocks.
    """
    disk = SystemDisk()
    wanted = None if log is None else _log_id(log)
    with exclusively(disk, config):
        paths = StoragePaths.of(config)
        mark = _mark(disk, paths)
        there = [*log_ids(disk, paths), *_segments(disk, paths, mark)]
        if wanted is not None and wanted not in there:
            raise _not_found(disk, wanted, paths, mark)
        for log_id in there if wanted is None else [wanted]:
            name = name_of(log_id)
            for found in _blocks(disk, paths, mark, log_id):
                yield from _rows(name, found, ledger_id, entry_id)


def _mark(disk: Disk, paths: StoragePaths) -> LogMark | None:
    """None if it is missing or damaged: then all of the journal is searched."""
    with suppress(IndexDamagedError):
        return read_mark(disk, paths)
    return None


def _segments(disk: Disk, paths: StoragePaths, mark: LogMark | None) -> list[int]:
    found = file_ids(disk, paths.journal)
    return [segment_id(each) for each in found if mark is None or each <= mark.file_id]


def _blocks(
    disk: Disk, paths: StoragePaths, mark: LogMark | None, log_id: int
) -> Iterator[FoundBlock | Damage]:
    path = path_of(disk, paths, log_id)
    if not is_segment(log_id):
        return scan(disk, path, log_id, None)
    end = mark.offset if mark is not None and journal_file_id(log_id) == mark.file_id else None
    return scan_segment(disk, path, log_id, end)


def _not_found(disk: Disk, log_id: int, paths: StoragePaths, mark: LogMark | None) -> RecordNotFoundError:
    path = path_of(disk, paths, log_id)
    if is_segment(log_id) and mark is not None and journal_file_id(log_id) > mark.file_id:
        reason = f"journal file {path} is not before the log mark: read it with `bookie read-journal`"
    else:
        reason = f"there is no {'journal file' if is_segment(log_id) else 'entry log'} {path}"
    return RecordNotFoundError(reason, key=path.name)


def _log_id(text: str) -> int:
    matched = _NAME.fullmatch(text)
    number = 0 if matched is None else int(matched[1], 16)
    if matched is None or is_segment(number):
        raise ConfigurationError(
            f"entry log {text!r} must be the name of a file in entry-logs or of a journal file, or the hexadecimal "
            "number of an entry log"
        )
    return segment_id(number) if matched["journal"] else number


def _rows(
    name: str, found: FoundBlock | Damage, ledger_id: int | None, entry_id: int | None
) -> Iterator[Row]:
    if isinstance(found, Damage):
        yield {"log": name, "offset": found.start, "damaged_bytes": found.end - found.start}
        return
    block = found.block
    if ledger_id not in (None, block.ledger_id):
        return
    for each in block.ids:
        if entry_id in (None, each):
            entry = block.entry(each)
            assert entry is not None, "a block holds what it lists"
            yield {
                "log": name,
                "offset": found.offset,
                "ledger": block.ledger_id,
                "entry": each,
                "bytes": len(entry),
            }
