"""`bookie scrub`: check what a bookie has stored, or show what the scrubber of a running one has done.

A running bookie is asked for a pass of its scrubber; the files of a stopped one are read, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from bookie_server.control.messages import Command, Request
from bookie_server.disk.disk import Disk
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import StorageError
from bookie_server.journal.block import entries_of
from bookie_server.journal.log_mark import LogMark
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.index import Index
from bookie_server.storage.ledgers.state_log import StateLog
from bookie_server.storage.scrub.block_files import block_files
from bookie_server.storage.scrub.file_walk import FIRST_FILE, FilePosition, FileWalk, UnindexedBlock
from bookie_server.storage.scrub.record import (
    ScrubPass,
    ScrubRecord,
    decode_scrub_pass,
    decode_scrub_record,
)
from bookie_server.storage.scrub.scrubber import STEP_BYTES
from bookie_server.storage.scrub.walk import BEGINNING, BlockWalk, Position
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.tools.inspection import journal_records
from bookie_server.tools.running_bookie import ask_running
from bookie_server.tools.stopped_bookie import exclusively, opened_index, require_directory
from ledger.environment import SystemEnvironment
from ledger.printing import Row, counted, utc

SCRUB_COLUMNS = (
    "pass",
    "began",
    "ended",
    "blocks",
    "bytes",
    "damaged blocks",
    "damaged ledgers",
    "unindexed blocks",
    "restored blocks",
    "index damaged",
)


def scrubbed_facts(config: StorageConfig, say: Callable[[str], None]) -> Row:
    """Check everything.

    Of a stopped bookie at full speed, with a line for `say` for each damaged block and one for the index if it is
    damaged; a running one logs them.
    """
    result = ask_running(config, Request(Command.SCRUB))
    if result is not None:
        return _facts(decode_scrub_pass(result))
    disk, paths = SystemDisk(), StoragePaths.of(config)
    with exclusively(disk, config), opened_index(disk, paths) as (index, mark):
        return _facts(_whole_pass(disk, index, paths, mark, say))


def _whole_pass(
    disk: Disk, index: Index, paths: StoragePaths, mark: LogMark, say: Callable[[str], None]
) -> ScrubPass:
    found = ScrubPass(began_ms=_now_ms())
    walk = BlockWalk(disk, index, paths)
    position: Position | None = BEGINNING
    while position is not None:
        step = walk.step(position, STEP_BYTES)
        for each in step.damage:
            say(each.reason)
        if step.index_damage and not found.index_damaged:
            say(step.index_damage)
        found, position = found.after(step), step.next
    for block in _unindexed(disk, index, paths, mark):
        path = path_of(disk, paths, block.log_id)
        say(f"the index has lost {block}, which are intact in {path} at offset {block.offset}")
        found = found.with_unindexed(1, 0)
    return found


def _unindexed(disk: Disk, index: Index, paths: StoragePaths, mark: LogMark) -> Iterator[UnindexedBlock]:
    """Blocks with entries that the index has lost. LogStoreError: the files with blocks are not known."""
    files = block_files(StateLog(disk, paths, index, index.log_end(), {}).ends(), mark)
    walk = FileWalk(disk, index, paths)
    position: FilePosition | None = FIRST_FILE
    found: list[UnindexedBlock] = []
    while position is not None:
        step = walk.step(files, position, STEP_BYTES)
        found += step.unindexed
        position = step.next
    replayed = _replayed(disk, paths, mark, {each.ledger_id for each in found}) if found else set()
    return (each for each in found if not {(each.ledger_id, entry_id) for entry_id in each.ids} <= replayed)


def _replayed(
    disk: Disk, paths: StoragePaths, mark: LogMark, ledger_ids: Container[int]
) -> set[tuple[int, int]]:
    """Ledger and entry ids that the next start brings back from the journal, of these ledgers."""
    return {
        (ledger_id, entry_id)
        for each in journal_records(disk, paths.journal, mark)
        for ledger_id, entry_id, _, _ in entries_of(each.record)
        if ledger_id in ledger_ids
    }


def require_intact(facts: Row) -> None:
    """StorageError if the check has found damage, or entries that the index has lost and still lacks."""
    if facts["index_damaged"]:
        raise StorageError(
            "the index is damaged, so not every block was checked: run `bookie rebuild-index` "
            "(docs/operations.md#a-damaged-index), and then this again"
        )
    blocks = int(str(facts["damaged_blocks"]))
    if blocks:
        raise StorageError(
            f"{counted(blocks, 'block is', 'blocks are')} damaged: the scrubber of a running bookie has the copies "
            "brought back from other bookies"
        )
    unindexed = int(str(facts["unindexed_blocks"])) - int(str(facts["restored_blocks"]))
    if unindexed:
        raise StorageError(
            f"entries of {counted(unindexed, 'intact block', 'intact blocks')} are missing in the index: the scrubber "
            "of a running bookie puts them back"
        )


def scrub_status(config: StorageConfig) -> list[Row]:
    """The pass under way and the last complete one, as far as the scrubber has noted; the bookie may be running."""
    record = _noted(config)
    return [
        {"pass": name, "began": utc(each.began_ms), "ended": utc(each.ended_ms), **_facts(each)}
        for name, each in (("under way", record.current), ("complete", record.last))
        if each is not None
    ]


def _noted(config: StorageConfig) -> ScrubRecord:
    disk, path = SystemDisk(), StoragePaths.of(config).scrub_record
    require_directory(disk, config.ledger_directory)
    return decode_scrub_record(disk.read_file(path)) if disk.exists(path) else ScrubRecord()


def _facts(found: ScrubPass) -> Row:
    return {
        "blocks": found.blocks,
        "bytes": found.block_bytes,
        "damaged_blocks": found.damaged_blocks,
        "damaged_ledgers": list(found.damaged_ledgers),
        "unindexed_blocks": found.unindexed_blocks,
        "restored_blocks": found.restored_blocks,
        "index_damaged": found.index_damaged,
    }


def _now_ms() -> int:
    return SystemEnvironment().wall_us() // 1000
