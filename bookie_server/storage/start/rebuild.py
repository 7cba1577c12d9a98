"""Make a new index from the entry logs, the journal's blocks and the state log of a stopped bookie. Blocks.

Invariants:
- Journal, log mark, entry logs and state log are only read. The old index stays in its place until the new one is
  complete, proved against the entry logs and durable; so whatever ends a rebuild, it can be repeated.
- What may have been lost is unknown afterwards, never absent: if the state log or a block is missing or damaged, the
  new index is in limbo. A ledger whose state is lost is fenced, and no key opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.errors import StorageError
from bookie_server.journal.files import file_ids
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.entry_log import EntryLogReader, log_ids
from bookie_server.storage.entry_logs.format import Block
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock, scan
from bookie_server.storage.index import Index, Interval, LogEnd, interval_of, state_of, state_record
from bookie_server.storage.ledgers.state_log_format import (
    NOT_KNOWN,
    StateFile,
    decode_state_file,
    require_known_version,
)
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.segments.places import is_segment, journal_file_id, path_of, segment_id
from bookie_server.storage.segments.scan import scan_segment
from bookie_server.storage.start.journal_recovery import read_mark
from bookie_server.storage.storage_paths import StoragePaths
from ledger.errors import LogStoreError

_STATES_AT_ONCE = 4096
_FULL = 2**62
"""The end of an entry log that nothing is appended to any more."""


@dataclass(frozen=True, slots=True)
class Progress:
    """After each entry log, first when its blocks were indexed, then when they were proved."""

    doing: str
    log_id: int
    done: int
    count: int
    entries: int


@dataclass(slots=True)
class Rebuilt:
    """What the new index holds."""

    ledgers: int = 0
    deleted: int = 0
    fenced: int = 0
    entries: int = 0
    entry_logs: int = 0
    lost: list[str] = field(default_factory=list)
    """What could not be found again, a sentence each. Not empty: the bookie is in limbo."""


def rebuild_index(disk: Disk, config: StorageConfig, report: Callable[[Progress], None]) -> Rebuilt:
    """Replace the index of a stopped bookie, whose directories the caller has locked.

    IndexDamagedError: the log mark is missing or damaged. StorageError: the new index did not prove right; the old
    one is as it was. DiskFullError, DiskFailedError.
    """
    rebuild = _Rebuild(disk, config, report)
    rebuild.make()
    rebuild.prove()
    rebuild.put_in_place()
    return rebuild.result


class _Rebuild:
    def __init__(self, disk: Disk, config: StorageConfig, report: Callable[[Progress], None]) -> None:
        self._disk = disk
        self._paths = StoragePaths.of(config)
        self._report = report
        self._mark = read_mark(disk, self._paths)
        self.result = Rebuilt()
        disk.make_directory(self._paths.entry_logs)  # a first start may have been cut off before it
        self._known = self._read_states()
        self._states = {key: value for key, value in self._known.records.items() if key[:1] == b"S"}
        self._logs = self._logs_to_read()

    # ---- what is there

    def _read_states(self) -> StateFile:
        path = self._paths.states
        data = self._disk.read_file(path) if self._disk.exists(path) else b""
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

    def _logs_to_read(self) -> list[tuple[int, int | None]]:
        """Files with blocks, and where these end; those after the last one known hold nothing that was stored."""
        there, known = log_ids(self._disk, self._paths.entry_logs), self._known.log_ends
        ends = {log_id: None if end == NOT_KNOWN else end for log_id, end in known.items()}
        last = max((log_id for log_id in ends if not is_segment(log_id)), default=0)
        logs = {log_id for log_id in ends if not is_segment(log_id)}
        logs.update(log_id for log_id in there if self.result.lost or log_id <= last)
        found = [(log_id, ends.get(log_id)) for log_id in sorted(logs)]
        return found + list(self._segments_to_read(ends))

    def _segments_to_read(self, ends: Mapping[int, int | None]) -> Iterator[tuple[int, int | None]]:
        """Journal files up to the log mark. What is after it is replayed, with the states that belong to it."""
        there = file_ids(self._disk, self._paths.journal) if self.result.lost else []
        known = {journal_file_id(log_id) for log_id in ends if is_segment(log_id)}
        for file_id in sorted({*there, *known}):
            end = ends.get(segment_id(file_id))
            if file_id < self._mark.file_id:
                yield segment_id(file_id), end
            elif file_id == self._mark.file_id:
                yield segment_id(file_id), min(end or self._mark.offset, self._mark.offset)

    def _scan(self, log_id: int, end: int | None) -> Iterator[FoundBlock | Damage]:
        if not is_segment(log_id):
            return scan(self._disk, self._paths.entry_logs, log_id, end)
        path = path_of(log_id, entry_logs=self._paths.entry_logs, journal=self._paths.journal)
        return scan_segment(self._disk, path, log_id, end)

    # ---- making

    def make(self) -> None:
        for directory in (self._paths.new_index, *self._outdated()):
            self._disk.remove_tree(directory)
        index = Index(self._disk.open_key_values(self._paths.new_index))
        try:
            self._put_states(index)
            for number, (log_id, end) in enumerate(self._logs, 1):
                self._add_log(index, log_id, end)
                self._report(Progress("indexed", log_id, number, len(self._logs), self.result.entries))
            if self._logs:
                if any(is_segment(log_id) for log_id, _ in self._logs):
                    index.allow_segments()
                index.put_log_end(self._log_end())
            if self.result.lost:
                index.set_limbo(self._mark.generation)
            index.sync(max(self._mark.generation, self._known.generation))
        finally:
            index.close()
        self.result.entry_logs = len(self._logs)
        self._count_states()

    def _outdated(self) -> Iterator[Path]:
        if self._disk.exists(self._paths.index) and not self.result.lost:
            yield self._paths.old_index

    def _put_states(self, index: Index) -> None:
        records = list(self._known.records.items())
        for start in range(0, len(records), _STATES_AT_ONCE):
            index.put_states(records[start : start + _STATES_AT_ONCE])

    def _add_log(self, index: Index, log_id: int, end: int | None) -> None:
        for found in self._scan(log_id, end):
            if isinstance(found, Damage):
                self.result.lost.append(str(found))
            elif self._holds_entries(index, found.block):
                block = found.block
                interval = interval_of(block.ids, log_id, found.offset, block.size)
                index.add_blocks(block.ledger_id, [(block.ids, interval)])
                self.result.entries += len(block.ids)
        index.sync(0)  # bounds what is in memory; without its generation no start believes in it

    def _holds_entries(self, index: Index, block: Block) -> bool:
        """False for a deleted ledger. A ledger without a state gets one that promises nothing."""
        state = self._state(block.ledger_id)
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
        index.put_states([(key, value)])
        return True

    def _state(self, ledger_id: int) -> StoredLedger | None:
        value = self._states.get(state_record(StoredLedger(ledger_id, b""))[0])
        return None if value is None else state_of(ledger_id, value)

    def _log_end(self) -> LogEnd:
        logs = [each for each in self._logs if not is_segment(each[0])]
        if not logs:
            return LogEnd(0, _FULL)
        last, end = logs[-1]
        return LogEnd(last, _FULL if end is None or self.result.lost else end)

    def _count_states(self) -> None:
        for key, value in self._states.items():
            state = state_of(int.from_bytes(key[1:], "big"), value)
            self.result.ledgers += not state.deleted
            self.result.deleted += state.deleted
            self.result.fenced += state.fenced and not state.deleted

    # ---- proving

    def prove(self) -> None:
        """Read all entry logs and all states once more, and find each of them by the new index."""
        index = Index(self._disk.open_key_values(self._paths.new_index))
        logs = EntryLogReader(self._disk, self._paths)
        try:
            if dict(index.state_records()) != self._states:
                raise self._wrong("holds other ledger states than were put into it")
            proved = 0
            for number, (log_id, end) in enumerate(self._logs, 1):
                for found in self._scan(log_id, end):
                    if isinstance(found, FoundBlock):
                        proved += self._prove_block(index, logs, found)
                self._report(Progress("verified", log_id, number, len(self._logs), proved))
            if proved != self.result.entries:
                raise self._wrong(
                    f"was made of {self.result.entries} entries, {proved} are in the entry logs now"
                )
        finally:
            logs.close()
            index.close()

    def _prove_block(self, index: Index, logs: EntryLogReader, found: FoundBlock) -> int:
        block = found.block
        state = self._state(block.ledger_id)
        if state is not None and state.deleted:
            if index.find(block.ledger_id, block.first) is not None:
                raise self._wrong(f"finds entries of ledger {block.ledger_id}, which is deleted")
            return 0
        covered = None
        for entry_id in block.ids:
            entry = block.entry(entry_id)
            if entry is None or bytes(entry[:16]) != _ids_of(block.ledger_id, entry_id):
                raise self._wrong(f"leads to an entry that is not {entry_id} of ledger {block.ledger_id}")
            if covered is None or not covered.first <= entry_id <= covered.last:
                covered = index.find(block.ledger_id, entry_id)
            if covered is None:
                raise self._wrong(f"does not find entry {entry_id} of ledger {block.ledger_id}")
            if (covered.log_id, covered.offset) != (found.log_id, found.offset):
                self._prove_other(logs, covered, block.ledger_id, entry_id)
                covered = None
        return len(block.ids)

    def _prove_other(self, logs: EntryLogReader, interval: Interval, ledger_id: int, entry_id: int) -> None:
        """The entry is in two blocks, and the index names the other one."""
        try:
            [block] = logs.read(ledger_id, [interval])
        except StorageError:
            if not self.result.lost:
                raise
            return  # in an entry log whose header is damaged: reads of it answer that they do not know
        if block.entry(entry_id) is None:
            raise self._wrong(f"finds entry {entry_id} of ledger {ledger_id} in the wrong block")

    def _wrong(self, what: str) -> StorageError:
        return StorageError(
            f"the new index {self._paths.new_index} {what}: the old one stays; if the disk is healthy, report a bug",
            path=self._paths.new_index,
        )

    # ---- putting it in place

    def put_in_place(self) -> None:
        disk, paths = self._disk, self._paths
        disk.sync_directory(paths.ledgers)
        if disk.exists(paths.index):
            disk.remove_tree(paths.old_index)
            disk.rename_durably(paths.index, paths.old_index)
        # A crash here leaves no index: a start refuses that, since the log mark needs one.
        disk.rename_durably(paths.new_index, paths.index)
        disk.remove_tree(paths.old_index)
        disk.sync_directory(paths.ledgers)


def _ids_of(ledger_id: int, entry_id: int) -> bytes:
    return ledger_id.to_bytes(8, "big") + entry_id.to_bytes(8, "big")
