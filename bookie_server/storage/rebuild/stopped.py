"""Make a new index from the entry logs, the journal's blocks and the state log of a stopped bookie. Blocks.

Invariants:
- Journal, log mark, entry logs and state log are only read, and the old index until the new one is complete, proved
  against the entry logs and durable.
- What may have been lost is unknown afterwards, never absent: if the state log or a block is missing or damaged, the
  new index is in limbo. A ledger whose state is lost is fenced, and no key opens it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.disk.sectors import read_file_around
from bookie_server.errors import StorageError
from bookie_server.journal.files import file_ids
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.format import Block
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock
from bookie_server.storage.index import LOG_FULL, Index, LogEnd, state_record
from bookie_server.storage.ledgers.state_log_format import (
    NOT_KNOWN,
    StateFile,
    decode_state_file,
    require_known_version,
)
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.rebuild.new_index import (
    LogPart,
    NewIndex,
    Progress,
    Rebuilt,
    Report,
    state_in,
    states_in,
)
from bookie_server.storage.segments.log_files import log_ids
from bookie_server.storage.segments.places import is_segment, journal_file_id, segment_id
from bookie_server.storage.start.index_directories import finish_exchange, put_in_place, remove_old
from bookie_server.storage.start.journal_recovery import read_mark
from bookie_server.storage.storage_paths import StoragePaths
from ledger.errors import LogStoreError


def rebuild_index(disk: Disk, config: StorageConfig, report: Report) -> Rebuilt:
    """Replace the index of a stopped bookie, whose directories the caller has locked.

    IndexDamagedError: the log mark is missing or damaged. StorageError: the new index did not prove right; the old
    one is as it was. DiskFullError, DiskFailedError.
    """
    paths = StoragePaths.of(config)
    finish_exchange(disk, paths)
    rebuild = _Rebuild(disk, config, report)
    rebuild.make()
    put_in_place(disk, paths)
    remove_old(disk, paths)
    return rebuild.result


class _Rebuild:
    def __init__(self, disk: Disk, config: StorageConfig, report: Report) -> None:
        self._disk = disk
        self._paths = StoragePaths.of(config)
        self._report = report
        self._mark = read_mark(disk, self._paths)
        self._new = NewIndex(disk, self._paths)
        self.result = Rebuilt()
        for directory in self._paths.log_directories:
            disk.make_directory(directory)  # a first start may have been cut off before it
        self._known = self._read_states()
        self._states = states_in(self._known.records)
        self._parts = self._parts_to_read()

    # ---- what is there

    def _read_states(self) -> StateFile:
        path = self._paths.states
        data = read_file_around(self._disk, path) if self._disk.exists(path) else b""
        require_known_version(data, path)
        found = decode_state_file(data)
        if found.generation >= self._mark.generation or self._mark.generation == 0:
            return found
        self.result.lost.append(
            f"{path} has no ledger states up to generation {self._mark.generation}: fences, keys and deletions "
            "are taken from the old index, as far as it can be read"
        )
        for directory in (self._paths.old_index, self._paths.index):
            if self._disk.exists(directory):
                with suppress(LogStoreError):
                    self._salvage(directory, found)
        return found

    def _salvage(self, directory: Path, found: StateFile) -> None:
        """Every state that the damaged index still has; after damage continue with the next ledger that it can read."""
        index = Index(self._disk.open_key_values(directory))
        try:
            first, step = 0, 1
            while first < 2**63:
                try:
                    for key, value in index.state_records(first):
                        found.records[key] = value
                        first, step = int.from_bytes(key[1:], "big") + 1, 1
                    return
                except StorageError:
                    first, step = first + step, 2 * step
        finally:
            index.close()

    def _parts_to_read(self) -> list[LogPart]:
        """Files with blocks, and where these end; an entry log that is not known holds nothing that was stored.

        A write that failed, or was cut off, has left it: the journal has its entries. Unless one that is known is
        missing: a compaction may have replaced it, and a full disk kept that from being noted.
        """
        known, removed = self._known.log_ends, self._known.removed
        there = [each for each in log_ids(self._disk, self._paths) if each not in removed]
        # LOG_FULL: earlier builds noted it after a rebuild that could not find everything.
        ends = {log_id: None if end in (NOT_KNOWN, LOG_FULL) else end for log_id, end in known.items()}
        segments = file_ids(self._disk, self._paths.journal)
        missing = ends.keys() - {*there, *map(segment_id, segments)}
        any_counts = bool(self.result.lost or missing)
        logs = {log_id for log_id in ends if not is_segment(log_id)}
        logs.update(there if any_counts else ())
        found = [LogPart(log_id, 0, ends.get(log_id)) for log_id in sorted(logs)]
        return found + list(self._segments_to_read(ends, segments if any_counts else []))

    def _segments_to_read(self, ends: Mapping[int, int | None], there: Sequence[int]) -> Iterator[LogPart]:
        """Journal files up to the log mark. What is after it is replayed, with the states that belong to it."""
        known = {journal_file_id(log_id) for log_id in ends if is_segment(log_id)}
        for file_id in sorted({*there, *known}):
            end = ends.get(segment_id(file_id))
            if file_id < self._mark.file_id:
                yield LogPart(segment_id(file_id), 0, end)
            elif file_id == self._mark.file_id:
                yield LogPart(segment_id(file_id), 0, min(end or self._mark.offset, self._mark.offset))

    # ---- making

    def make(self) -> None:
        """Complete, proved and durable on return, next to the old one."""
        if self._disk.exists(self._paths.index) and not self.result.lost:
            self._disk.remove_tree(self._paths.old_index)
        try:
            self._new.begin()
            self._make()
            self._new.reopen()
            self._prove()
        finally:
            self._new.close()

    def _make(self) -> None:
        index, parts = self._new.index, self._parts
        self._new.put_states(self._known.records.items())
        for number, part in enumerate(parts, 1):
            self._add(part)
            self._report(Progress("indexed", part.log_id, number, len(parts), self.result.entries))
        if parts:
            if any(is_segment(part.log_id) for part in parts):
                index.allow_segments()
            index.put_log_end(self._log_end())
        if self.result.lost:
            index.set_limbo(self._mark.generation)
        index.sync(max(self._mark.generation, self._known.generation))
        self.result.entry_logs = len(parts)
        self.result.count_states(self._states)

    def _add(self, part: LogPart) -> None:
        for found in self._new.blocks(part):
            if isinstance(found, Damage):
                self.result.lost.append(str(found))
            elif self._holds_entries(found.block):
                self.result.entries += self._new.add(found)
        self._new.flush()

    def _holds_entries(self, block: Block) -> bool:
        """False for a deleted ledger. A ledger without a state gets one that promises nothing."""
        state = state_in(self._states, block.ledger_id)
        if state is not None and (state.deleted or block.last <= state.last_entry):
            return not state.deleted
        if state is None:
            self.result.lost.append(
                f"the state of ledger {block.ledger_id}: it is fenced, and accepts no key"
            )
            state = StoredLedger(block.ledger_id, b"")
            state.fenced = True
        state.last_entry = block.last
        key, value = state_record(state)
        self._states[key] = value
        self._new.index.put_states([(key, value)])
        return True

    def _log_end(self) -> LogEnd:
        logs = [part for part in self._parts if not is_segment(part.log_id)]
        if not logs:
            return LogEnd(0, LOG_FULL)
        last = logs[-1]
        return LogEnd(last.log_id, LOG_FULL if last.end is None or self.result.lost else last.end)

    # ---- proving

    def _prove(self) -> None:
        """Read all entry logs and all states once more, and find each of them by the new index."""
        self._new.prove_states(self._states)
        proved, parts = 0, self._parts
        for number, part in enumerate(parts, 1):
            for found in self._new.blocks(part):
                if isinstance(found, FoundBlock):
                    proved += self._proved(found)
            self._report(Progress("verified", part.log_id, number, len(parts), proved))
        if proved != self.result.entries:
            raise self._new.wrong(
                f"was made of {self.result.entries} entries, {proved} are in the entry logs now"
            )

    def _proved(self, found: FoundBlock) -> int:
        state = state_in(self._states, found.block.ledger_id)
        if state is not None and state.deleted:
            self._new.prove_absent(found)
            return 0
        return self._new.prove(found, may_lack=bool(self.result.lost))
