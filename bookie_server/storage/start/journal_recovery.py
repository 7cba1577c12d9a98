"""Bring the storage to where it was: index, log mark and the journal's tail. Runs once, before anything else.

Invariant: replay is keyed by ledger and entry, so doing it again, from any older mark, gives the same result.
Fences, keys, explicit LACs and tombstones are replayed like adds.

Pitfall: docs/pitfalls.md#replay-not-repeatable.
"""

from __future__ import annotations

from bookie_server.disk.disk import Disk
from bookie_server.disk.reserve import Reserve
from bookie_server.errors import BlockDamagedError, IndexDamagedError
from bookie_server.journal.block import entries_of
from bookie_server.journal.files import JournalFiles
from bookie_server.journal.log_mark import LogMark, decode_log_mark
from bookie_server.journal.record import (
    RECORD_HEADER_BYTES,
    Record,
    RecordType,
    decode_explicit_lac,
    decode_key,
    ledger_of,
)
from bookie_server.journal.replay import reopen_at, replay
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.format import Block
from bookie_server.storage.index import Index, Interval, interval_of
from bookie_server.storage.ledgers.state_log_format import NOT_KNOWN
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.ledgers.stored_ledgers import StoredLedgers
from bookie_server.storage.segments.places import segment_id
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.storage.write_cache import WriteCache
from ledger.environment import Environment


def read_mark(disk: Disk, paths: StoragePaths) -> LogMark:
    """The log mark, which every storage has from its first start on. IndexDamagedError if it is missing or damaged."""
    if not disk.exists(paths.mark):
        raise IndexDamagedError(
            f"log mark {paths.mark} is missing: restore it; if it is lost, start a new bookie under another id "
            "(docs/operations.md)",
            path=paths.mark,
        )
    return decode_log_mark(disk.read_file(paths.mark), paths.mark)


def require_current(index: Index, mark: LogMark, paths: StoragePaths) -> None:
    """IndexDamagedError if the index is older than the log mark: what it lacks may not be in the journal any more."""
    if index.generation() < mark.generation:
        raise IndexDamagedError(
            f"index {paths.index} is at generation {index.generation()}, but log mark {paths.mark} needs "
            f"{mark.generation}: one of them is missing or an old copy: restore it, or run `bookie rebuild-index` on "
            "this bookie's directories to rebuild the index from the entry logs",
            path=paths.index,
        )


class Recovery:
    """Replays records into states and write cache."""

    def __init__(self, index: Index, logs: EntryLogReader, states: StoredLedgers, cache: WriteCache) -> None:
        self._index = index
        self._logs = logs
        self._states = states
        self._cache = cache
        self._read: tuple[int, Interval, Block | None] | None = None
        """The block that was read last; none if it is damaged."""
        self.deleted: list[int] = []
        self._segment_ends: dict[int, int] = {}
        self.damaged = False

    @property
    def segment_ends(self) -> dict[int, int]:
        """By journal file that was replayed, as the index numbers it: where its last block ends, NOT_KNOWN if any file
        is damaged. A checkpoint that was cut off may have put blocks into the index, and not their end into the ledger
        states."""
        return dict.fromkeys(self._segment_ends, NOT_KNOWN) if self.damaged else self._segment_ends

    def open_journal(
        self,
        disk: Disk,
        paths: StoragePaths,
        config: StorageConfig,
        environment: Environment,
        mark: LogMark,
        reserve: Reserve,
    ) -> JournalFiles:
        """Replay from the mark and return the journal, ready for the next record."""
        segment_bytes, salt = config.journal_segment_bytes, environment.token
        end = replay(disk, paths.journal, mark, self.on_record, accept_damage=config.limbo_on_damage)
        self.damaged = end.damaged
        segment = reopen_at(disk, paths.journal, end)
        if end.lost_bytes:
            segment.file.close()
            files = JournalFiles.create(disk, paths.journal, segment_bytes, salt, end.after_loss)
        else:
            files = JournalFiles.resume(disk, paths.journal, segment_bytes, salt, segment, end.position)
        files.make_room = reserve.release
        return files

    # ---- records

    def on_record(self, record: Record) -> None:
        match record.type:
            case RecordType.ADDS:
                self._on_adds(record)
            case RecordType.BLOCK:
                self._on_block(record)
            case RecordType.LEDGER_KEY:
                self._on_key(*decode_key(record.body))
            case RecordType.FENCE:
                self._on_fence(ledger_of(record.body))
            case RecordType.EXPLICIT_LAC:
                self._on_explicit_lac(*decode_explicit_lac(record.body))
            case RecordType.TOMBSTONE:
                self._on_tombstone(ledger_of(record.body))
            case RecordType.NEXT_FILE:
                pass

    def _state(self, ledger_id: int) -> StoredLedger:
        state = self._states.get(ledger_id)
        # Without a key only after damage: the empty key equals no client's, so no client can write.
        state = state or self._states.create(ledger_id, b"")
        self._states.changed(state)
        return state

    def _on_key(self, ledger_id: int, master_key: bytes) -> None:
        state = self._state(ledger_id)
        state.master_key = state.master_key or master_key

    def _on_fence(self, ledger_id: int) -> None:
        state = self._state(ledger_id)
        state.fenced = state.fence_durable = True

    def _on_explicit_lac(self, ledger_id: int, lac: int, packet: bytes) -> None:
        keep_explicit_lac(self._state(ledger_id), lac, packet)

    def _on_tombstone(self, ledger_id: int) -> None:
        state = self._state(ledger_id)
        state.deleted, state.explicit_lac = True, None
        self._cache.drop(ledger_id)
        self.deleted.append(ledger_id)

    def _on_block(self, record: Record) -> None:
        """As other adds, but where they are is where they stay."""
        new = self._on_adds(record)
        log_id, size = segment_id(record.file_id), RECORD_HEADER_BYTES + len(record.body)
        self._segment_ends[log_id] = record.offset + size
        if new is not None:
            ledger_id, ids = new
            self._cache.place(ledger_id, ids, interval_of(ids, log_id, record.offset, size))

    def _on_adds(self, record: Record) -> tuple[int, list[int]] | None:
        """The last ledger of the record, and which entries of its last run were not here yet."""
        state: StoredLedger | None = None
        ids: list[int] = []
        entries: list[memoryview] = []
        for ledger_id, entry_id, lac, entry in entries_of(record):
            if state is None or state.ledger_id != ledger_id:
                self._put(state, ids, entries)
                state, ids, entries = self._state(ledger_id), [], []
            if state.deleted:
                continue
            # Also of an entry that is here: a checkpoint that was cut off may have left it, and not its ledger's state.
            state.lac = max(state.lac, lac)
            if entry_id <= state.last_entry and self._is_here(state, entry_id):
                continue
            if ids and entry_id <= ids[-1]:
                self._put(state, ids, entries)
                ids, entries = [], []
            ids.append(entry_id)
            entries.append(entry)
            state.last_entry = max(state.last_entry, entry_id)
        self._put(state, ids, entries)
        return (state.ledger_id, ids) if state is not None and ids else None

    def _put(self, state: StoredLedger | None, ids: list[int], entries: list[memoryview]) -> None:
        if state is not None and ids:
            self._cache.put(state.ledger_id, ids, entries, sum(map(len, entries)))

    def _is_here(self, state: StoredLedger, entry_id: int) -> bool:
        if self._cache.entry(state.ledger_id, entry_id) is not None:
            return True
        interval = self._index.find(state.ledger_id, entry_id)
        if interval is None:
            return False
        block = self._block(state.ledger_id, interval)
        return block is not None and block.entry(entry_id) is not None

    def _block(self, ledger_id: int, interval: Interval) -> Block | None:
        """None if it is damaged: the journal may have the entries because they were stored again."""
        if self._read is None or self._read[:2] != (ledger_id, interval):
            try:
                self._read = ledger_id, interval, self._logs.read(ledger_id, [interval])[0]
            except BlockDamagedError:
                self._read = ledger_id, interval, None
        return self._read[2]


def keep_explicit_lac(state: StoredLedger, lac: int, packet: bytes) -> bool:
    """Keep the packet unless a higher LAC is known; False if it was not kept."""
    if lac < state.explicit_lac_value:
        return False
    state.explicit_lac, state.explicit_lac_value = packet, lac
    state.lac = max(state.lac, lac)
    return True
