"""Put the storage's parts together at start. Blocks: runs in the storage worker."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.disk.lost_directory import may_be_lost
from bookie_server.disk.reserve import Reserve
from bookie_server.journal.files import JournalFiles, remove_before
from bookie_server.journal.log_mark import LogMark
from bookie_server.storage.checkpoint import Checkpointer
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.directories import LogDirectories
from bookie_server.storage.entry_logs.entry_log import EntryLogReader, EntryLogWriter
from bookie_server.storage.index import Index
from bookie_server.storage.ledgers.state_log import StateLog
from bookie_server.storage.ledgers.stored_ledgers import StoredLedgers
from bookie_server.storage.segments.places import segment_id
from bookie_server.storage.start.index_directories import open_index
from bookie_server.storage.start.journal_recovery import Recovery, read_mark, require_current
from bookie_server.storage.start.missing_files import missing_files
from bookie_server.storage.start.versions import require_known_versions
from bookie_server.storage.storage_paths import COMPACTION, StoragePaths
from bookie_server.storage.write_cache import Caches, WriteCache
from ledger.environment import Environment
from ledger.errors import LogStoreError

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Parts:
    """What LedgerStorage and its upkeep share."""

    disk: Disk
    paths: StoragePaths
    index: Index
    reserve: Reserve
    states: StoredLedgers
    caches: Caches
    files: JournalFiles
    directories: LogDirectories
    writer: EntryLogWriter
    checkpointer: Checkpointer
    state_log: StateLog
    deleted: list[int]
    """Ledgers whose index records the next checkpoint removes."""
    missing: list[Path]
    """Files that the index led into at the start, and that were not there."""

    def close_storage(self) -> None:
        """Close everything but the journal, which has a worker of its own."""
        self.writer.close()
        self.state_log.close()
        self.index.close()


def open_parts(config: StorageConfig, disk: Disk, environment: Environment) -> Parts:
    """Open what a first start has made and replay the journal's tail. Errors: see LedgerStorage.open."""
    paths = StoragePaths.of(config)
    mark = read_mark(disk, paths)  # before anything is made: what is missing may come back
    for directory in (paths.journal, *paths.log_directories):
        with may_be_lost(paths, directory):
            disk.make_directory(directory)
    for directory in paths.log_directories:
        with may_be_lost(paths, directory):
            disk.remove(directory / COMPACTION)  # of one that was cut off: no index names it
    for directory in (paths.journal, paths.ledgers, *paths.log_directories):
        # A killed process may have renamed or removed files here and not synced. What is done from now on relies on
        # what is found: records go into the journal's last file, files before the log mark go away, and an entry log
        # gets an id that no other one has, which could come back in another directory.
        with may_be_lost(paths, directory):
            disk.sync_directory(directory)
    index = open_index(disk, paths)
    try:
        return _parts(config, disk, environment, paths, index, mark)
    except LogStoreError:
        index.close()
        raise


def _parts(
    config: StorageConfig,
    disk: Disk,
    environment: Environment,
    paths: StoragePaths,
    index: Index,
    mark: LogMark,
) -> Parts:
    end = index.log_end()  # refuses a newer version before anything is written
    require_known_versions(disk, paths, end)
    require_current(index, mark, paths)
    states = StoredLedgers(index, config.ledger_states_max)
    cache = WriteCache()
    logs = EntryLogReader(disk, paths)
    reserve = Reserve(disk, paths.reserve, config.reserve_bytes)
    recovery = Recovery(index, logs, states, cache)
    files = recovery.open_journal(disk, paths, config, environment, mark, reserve)
    _allow_segments(config, paths, index, files, replayed=bool(recovery.segment_ends))
    logs.close()
    state_log = StateLog(disk, paths, index, end, recovery.segment_ends)
    _settle(disk, paths, index, states, state_log, mark, damaged=recovery.damaged)
    directories = LogDirectories(disk, paths, config.entry_log_bytes_max, config.disk_usage_writable)
    writer = EntryLogWriter(disk, paths, directories, config.entry_log_bytes_max, end)
    checkpointer = Checkpointer(
        disk, paths, writer, directories, index, state_log, reserve, config.block_bytes_max, mark
    )
    caches, deleted = Caches(cache), recovery.deleted
    missing = missing_files(disk, index, paths)
    return Parts(
        disk,
        paths,
        index,
        reserve,
        states,
        caches,
        files,
        directories,
        writer,
        checkpointer,
        state_log,
        deleted,
        missing,
    )


def _allow_segments(
    config: StorageConfig, paths: StoragePaths, index: Index, files: JournalFiles, *, replayed: bool
) -> None:
    """`replayed`: an earlier start has written entries once, and was killed before the index led to them."""
    if config.single_write_bytes_min:
        files.allow_blocks()
        why = f"entries are written once from single_write_bytes_min = {config.single_write_bytes_min} on"
    else:
        why = "entries were written once before this start"
    if (config.single_write_bytes_min or replayed) and index.allow_segments():
        logger.info(
            "index %s and its journal get version 2, which earlier releases refuse: %s", paths.index, why
        )


def _settle(
    disk: Disk,
    paths: StoragePaths,
    index: Index,
    states: StoredLedgers,
    state_log: StateLog,
    mark: LogMark,
    *,
    damaged: bool,
) -> None:
    if damaged:
        # Before anything is served: the damaged file goes away with the next checkpoint.
        generation = index.generation()
        index.set_limbo(generation)
        index.sync(generation)
    states.set_limbo(index.limbo_since() is not None)
    remove_before(disk, paths.journal, mark, lambda each: state_log.knows(segment_id(each)))
