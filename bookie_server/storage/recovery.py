"""Bring the storage to where it was: index, log mark and the journal's tail. Runs once, before anything else.

Law: replay is keyed by ledger and entry, so doing it again, from any older mark, gives the same result.
Fences, keys, explicit LACs and tombstones are replayed like adds.
"""

from __future__ import annotations

from bookie_server.disk import Disk
from bookie_server.errors import IndexDamagedError, JournalDamagedError
from bookie_server.journal.files import JournalFiles, file_ids
from bookie_server.journal.log_mark import LogMark, decode_log_mark, encode_log_mark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    Record,
    RecordType,
    decode_adds,
    decode_explicit_lac,
    decode_key,
    ledger_of,
)
from bookie_server.journal.replay import reopen_at, replay
from bookie_server.storage.entry_log import EntryLogReader
from bookie_server.storage.index import Index
from bookie_server.storage.ledger_state import LedgerState
from bookie_server.storage.ledger_states import LedgerStates
from bookie_server.storage.reserve import Reserve
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.storage.write_cache import WriteCache
from bookie_server.storage_config import StorageConfig
from ledger.environment import Environment

_FIRST = LogMark(1, FILE_HEADER_BYTES, 1)


def read_mark(disk: Disk, paths: StoragePaths, index: Index) -> LogMark | None:
    """The log mark, None for a new storage. IndexDamagedError if mark and index do not fit."""
    if not disk.exists(paths.mark):
        if index.generation():
            raise IndexDamagedError(
                f"log mark {paths.mark} is missing: restore it, or give this bookie a new id and let repair "
                "copy its ledgers",
                path=paths.mark,
            )
        return None
    mark = decode_log_mark(disk.read_file(paths.mark), paths.mark)
    if index.generation() < mark.generation:
        raise IndexDamagedError(
            f"index {paths.index} is at generation {index.generation()}, log mark {paths.mark} needs "
            f"{mark.generation}: one of them is an old copy",
            path=paths.index,
        )
    return mark


class Recovery:
    """Replays records into states and write cache."""

    def __init__(self, index: Index, logs: EntryLogReader, states: LedgerStates, cache: WriteCache) -> None:
        self._index = index
        self._logs = logs
        self._states = states
        self._cache = cache
        self.deleted: list[int] = []
        self.damaged = False

    def open_journal(
        self,
        disk: Disk,
        paths: StoragePaths,
        config: StorageConfig,
        environment: Environment,
        mark: LogMark | None,
        reserve: Reserve,
    ) -> JournalFiles:
        """Replay from the mark and return the journal, ready for the next record."""
        segment_bytes, salt = config.journal_segment_bytes, environment.token
        found = file_ids(disk, paths.journal)
        if mark is None and not found:
            files = JournalFiles.create(disk, paths.journal, segment_bytes, salt)
            disk.replace_file(paths.mark, encode_log_mark(_FIRST))
        else:
            if mark is None:
                if found != [1]:
                    raise _mark_lost(paths, found[0])
                # The first start ended before it. It must be there before the first checkpoint: an index that
                # has seen one is believed only beside a mark.
                disk.replace_file(paths.mark, encode_log_mark(_FIRST))
            accept = config.limbo_on_damage
            end = replay(disk, paths.journal, mark or _FIRST, self.on_record, accept_damage=accept)
            self.damaged = end.damaged
            segment = reopen_at(disk, paths.journal, end)
            files = JournalFiles.resume(disk, paths.journal, segment_bytes, salt, segment, end.position)
        files.make_room = reserve.release
        return files

    # ---- records

    def on_record(self, record: Record) -> None:
        match record.type:
            case RecordType.ADDS:
                self._on_adds(record)
            case RecordType.LEDGER_KEY:
                self._on_key(*decode_key(record.body))
            case RecordType.FENCE:
                self._on_fence(ledger_of(record.body))
            case RecordType.EXPLICIT_LAC:
                self._on_explicit_lac(*decode_explicit_lac(record.body))
            case RecordType.TOMBSTONE:
                self._on_tombstone(ledger_of(record.body))
            case RecordType.SEAL:
                pass

    def _state(self, ledger_id: int) -> LedgerState:
        state = self._states.get(ledger_id)
        # Without a key only after damage: the empty key equals no client's, so nobody can write.
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
        self._state(ledger_id).deleted = True
        self._cache.drop(ledger_id)
        self.deleted.append(ledger_id)

    def _on_adds(self, record: Record) -> None:
        state: LedgerState | None = None
        ids: list[int] = []
        entries: list[memoryview] = []
        for ledger_id, entry_id, lac, entry in decode_adds(record.body):
            if state is None or state.ledger_id != ledger_id:
                self._put(state, ids, entries)
                state, ids, entries = self._state(ledger_id), [], []
            if state.deleted or (entry_id <= state.last_entry and self._is_here(state, entry_id)):
                continue
            if ids and entry_id <= ids[-1]:
                self._put(state, ids, entries)
                ids, entries = [], []
            ids.append(entry_id)
            entries.append(entry)
            state.last_entry = max(state.last_entry, entry_id)
            state.lac = max(state.lac, lac)
        self._put(state, ids, entries)

    def _put(self, state: LedgerState | None, ids: list[int], entries: list[memoryview]) -> None:
        if state is not None and ids:
            self._cache.put(state.ledger_id, ids, entries, sum(map(len, entries)))

    def _is_here(self, state: LedgerState, entry_id: int) -> bool:
        if self._cache.entry(state.ledger_id, entry_id) is not None:
            return True
        interval = self._index.find(state.ledger_id, entry_id)
        if interval is None or interval.dense:
            return interval is not None
        block = self._logs.read(state.ledger_id, [interval])[0]
        return block.entry(entry_id) is not None


def keep_explicit_lac(state: LedgerState, lac: int, packet: bytes) -> bool:
    """Keep the packet unless a higher LAC is known; False if it was not kept."""
    if lac < state.explicit_lac_value:
        return False
    state.explicit_lac, state.explicit_lac_value = packet, lac
    state.lac = max(state.lac, lac)
    return True


def _mark_lost(paths: StoragePaths, first_file: int) -> JournalDamagedError:
    return JournalDamagedError(
        f"journal {paths.journal} starts with file {first_file:x} but has no log mark: restore {paths.mark}",
        path=paths.journal,
        offset=0,
    )
