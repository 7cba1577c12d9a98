"""Where entries are, and what is known of ledgers. One record per block of entries, not per entry.

    key                                     value
    "I" ledger id  first entry              log id, offset, block bytes, last entry, flags
    "S" ledger id                           ledger state
    "L" log id  ledger id                   bytes of this ledger's blocks in this log
    "G"                                     generation: rises with every checkpoint
    "E"                                     format version, current log id (0: none yet), end of its blocks
    "M"                                     limbo since generation

Invariant: the intervals [first, last] of one ledger are disjoint. A late entry that falls into a gap of an older
interval splits it, so one floor lookup decides; flag bit 0 says that every id of the interval is there.
A log id with its highest bit set is a journal file (`segments/places.py`); then the version is 2.
Numbers are big-endian so that keys sort; signs cannot occur in keys, ids are never negative.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bookie_server.disk.rocksdb_store import KeyValues
from bookie_server.errors import IndexDamagedError, IndexVersionError, StorageError
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.ranges import dense_ranges
from ledger.errors import LogStoreError

VERSION = 2
_VERSION_WITHOUT_SEGMENTS = 1
ENTRY_MAX = LEDGER_MAX = 2**63 - 1
LOG_FULL = 2**62
"""In place of the end of an entry log that nothing is appended to any more: its blocks go on to the end of the file."""
_BYTES_MAX = 2**64 - 1
_DELETES_AT_ONCE = 1024
"""Records; bounds the memory that deleting a large ledger takes."""

_BLOCK_KEY = struct.Struct(">cQQ")
_BLOCK_VALUE = struct.Struct(">QQIqB")
_STATE_KEY = struct.Struct(">cQ")
_STATE_VALUE = struct.Struct(">BqqqHI")
_LOG_KEY = struct.Struct(">cQQ")
_LOG_VALUE = struct.Struct(">Q")
_NUMBER = struct.Struct(">Q")
_END_VALUE = struct.Struct(">IQQ")

_DENSE = 1
_FENCED, _DELETED = 1, 2


@dataclass(frozen=True, slots=True)
class Interval:
    """Entries of one ledger from `first` to `last` in one block."""

    first: int
    last: int
    log_id: int
    offset: int
    block_bytes: int
    dense: bool


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The entry log that is written to, and where its next block goes."""

    log_id: int
    offset: int


def interval_of(ids: Sequence[int], log_id: int, offset: int, block_bytes: int) -> Interval:
    """The whole of a block with these ids."""
    dense = ids[-1] - ids[0] + 1 == len(ids)
    return Interval(ids[0], ids[-1], log_id, offset, block_bytes, dense)


class Index:
    """Thread-safe: the loop looks up states, readers look up intervals, one worker changes."""

    def __init__(self, store: KeyValues, path: object = "of this bookie") -> None:
        """`path` names it in errors."""
        self._store = store
        self._path = path
        self._version = _VERSION_WITHOUT_SEGMENTS
        self.moves = 0
        """Changes before and after each move of intervals and is odd during one: several lookups that belong together
        compare it."""

    # ---- entries

    def find(self, ledger_id: int, entry_id: int) -> Interval | None:
        """The interval that covers the id; None is proof that no block holds the entry. StorageError."""
        found = self._floor(ledger_id, entry_id)
        return found if found is not None and found.last >= entry_id else None

    def _floor(self, ledger_id: int, entry_id: int) -> Interval | None:
        lowest = _BLOCK_KEY.pack(b"I", ledger_id, 0)
        found = self._store.floor(_BLOCK_KEY.pack(b"I", ledger_id, entry_id), lowest)
        return None if found is None else _interval(*found)

    def last_covered(self, ledger_id: int) -> int:
        """End of the ledger's last interval, -1 for none."""
        found = self._floor(ledger_id, ENTRY_MAX)
        return -1 if found is None else found.last

    def intervals(self, ledger_id: int, first: int = 0, last: int = ENTRY_MAX) -> Iterator[Interval]:
        """Intervals that start from `first` to `last`, ascending."""
        begin, end = _BLOCK_KEY.pack(b"I", ledger_id, first), _BLOCK_KEY.pack(b"I", ledger_id, last) + b"\0"
        return (_interval(key, value) for key, value in self._store.scan(begin, end))

    def overlapping(self, ledger_id: int, first: int, last: int) -> Iterator[Interval]:
        """Intervals that cover an id from `first` to `last`, ascending. StorageError."""
        before = self._floor(ledger_id, first)
        if before is not None and before.last >= first:
            yield before
        if before is None or before.last < last:
            yield from self.intervals(ledger_id, first + 1, last)

    def all_intervals(self, ledger_id: int = 0, first: int = 0) -> Iterator[tuple[int, Interval]]:
        """Ledger id and interval from that entry of that ledger on, ascending by both. StorageError."""
        begin, end = _BLOCK_KEY.pack(b"I", ledger_id, first), _STATE_KEY.pack(b"J", 0)
        return (
            (_BLOCK_KEY.unpack(key)[1], _interval(key, value)) for key, value in self._store.scan(begin, end)
        )

    # Invariant: a ledger with an interval in an entry log has an `L` record of that log. An interval that became
    # durable without it would let the log be removed as dead, and replay, which finds its entries here, would not
    # write them again. So both are one write.

    def append(self, ledger_id: int, intervals: Sequence[Interval]) -> None:
        """Add intervals of one entry log that are after all others of the ledger."""
        log_bytes = sum(interval.block_bytes for interval in intervals)
        self._store.write(
            [
                self._log_record(intervals[0].log_id, ledger_id, log_bytes),
                *(_interval_record(ledger_id, interval) for interval in intervals),
            ]
        )

    def add_blocks(self, ledger_id: int, blocks: Sequence[tuple[Sequence[int], Interval]]) -> None:
        """Add the ids of blocks of one entry log, each with its interval: they are found in these from now on."""
        covered = self.last_covered(ledger_id)
        if blocks[0][1].first > covered:
            self.append(ledger_id, [interval for _ids, interval in blocks])
            return
        for ids, interval in blocks:
            if interval.first > covered:
                self.append(ledger_id, [interval])
                continue
            log_bytes = interval.block_bytes
            for first, last in dense_ranges(ids):
                self.insert(ledger_id, replace(interval, first=first, last=last, dense=True), log_bytes)
                log_bytes = 0

    def insert(self, ledger_id: int, interval: Interval, log_bytes: int) -> None:
        """Add a dense interval whose entries are not indexed, or only in damaged blocks; older ones make way for it.

        `log_bytes` is what it adds to the ledger's bytes in its entry log: 0 for one more of a block.
        """
        puts = [
            self._log_record(interval.log_id, ledger_id, log_bytes),
            _interval_record(ledger_id, interval),
        ]
        deletes = []
        for older in self.overlapping(ledger_id, interval.first, interval.last):
            deletes.append(_BLOCK_KEY.pack(b"I", ledger_id, older.first))
            if older.first < interval.first:
                puts.append(_interval_record(ledger_id, replace(older, last=interval.first - 1)))
            if older.last > interval.last:
                puts.append(_interval_record(ledger_id, replace(older, first=interval.last + 1)))
        self._store.write(puts, deletes)

    def move(self, ledger_id: int, old: Sequence[Interval], new: Sequence[Interval]) -> bool:
        """Put the intervals `new`, of one entry log, in the place of `old`, which follow one another.

        Both hold the same entries. False: the index has other intervals there by now, and stays as it is.
        """
        found = list(self.overlapping(ledger_id, old[0].first, old[-1].last))
        if found == list(new):
            return True  # done before a full disk
        if found != list(old):
            return False
        puts = [_interval_record(ledger_id, interval) for interval in new]
        if new:
            log_bytes = sum(interval.block_bytes for interval in new)
            puts.append(self._log_record(new[0].log_id, ledger_id, log_bytes))
        self.moves += 1
        try:
            self._store.write(puts, [_BLOCK_KEY.pack(b"I", ledger_id, interval.first) for interval in old])
        finally:
            self.moves += 1
        return True

    # ---- ledgers

    def state(self, ledger_id: int) -> StoredLedger | None:
        value = self._store.get(_STATE_KEY.pack(b"S", ledger_id))
        return None if value is None else state_of(ledger_id, value)

    def put_states(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Records made by `state_record`."""
        self._store.write(records)

    def ledger_ids(self) -> Iterator[int]:
        """Ascending ids of ledgers that are not deleted."""
        for key, value in self._store.scan(b"S", b"T"):
            if not _state_fields(value)[0] & _DELETED:
                yield _STATE_KEY.unpack(key)[1]

    def newest_ledger(self, limit: int) -> int | None:
        """The highest id of a ledger up to `limit`, deleted or not."""
        found = self._store.floor(_STATE_KEY.pack(b"S", limit), _STATE_KEY.pack(b"S", 0))
        return None if found is None else int(_STATE_KEY.unpack(found[0])[1])

    def state_records(self, first: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """The states as they are stored, deleted ones too, of ledgers from `first` on; ascending ids. StorageError."""
        return self._store.scan(_STATE_KEY.pack(b"S", first), b"T")

    def remove_entries(self, ledger_id: int) -> None:
        """Forget every entry of a deleted ledger; the bytes die with their entry logs.

        Each record is deleted by its key: RocksDB looks through all deletions of ranges in every lookup. In pieces,
        with the log's record before the interval that leads to it, so that the rest is found when it is repeated.
        """
        logs: set[int] = set()
        deletes: list[bytes] = []
        for interval in self.intervals(ledger_id):
            if interval.log_id not in logs:
                logs.add(interval.log_id)
                deletes.append(_LOG_KEY.pack(b"L", interval.log_id, ledger_id))
            deletes.append(_BLOCK_KEY.pack(b"I", ledger_id, interval.first))
            if len(deletes) >= _DELETES_AT_ONCE:
                self._store.write((), deletes)
                deletes = []
        self._store.write((), deletes)

    # ---- entry logs

    def _log_record(self, log_id: int, ledger_id: int, written: int) -> tuple[bytes, bytes]:
        """The ledger's bytes in the log with `written` more; an upper bound if a flush had to be repeated."""
        total = self.bytes_in_log(log_id, ledger_id) + written
        return _LOG_KEY.pack(b"L", log_id, ledger_id), _LOG_VALUE.pack(min(total, _BYTES_MAX))

    def bytes_in_log(self, log_id: int, ledger_id: int) -> int:
        """Bytes of the ledger's blocks in the log, an upper bound; 0 if it has none. StorageError."""
        value = self._store.get(_LOG_KEY.pack(b"L", log_id, ledger_id))
        return 0 if value is None else int(_unpacked(_LOG_VALUE, value)[0])

    def list_in_log(self, log_id: int, ledger_id: int) -> None:
        """Note again that the ledger has blocks in the log, from its intervals. StorageError."""
        log_bytes = sum(each.block_bytes for each in self.intervals(ledger_id) if each.log_id == log_id)
        self._store.write([self._log_record(log_id, ledger_id, log_bytes)])

    def has_live_ledger(self, log_id: int) -> bool:
        """Whether a ledger that is not deleted has blocks in the log.

        Of a deleted one a record may be left: where replay stored an interval's entries again, in a later log, no
        interval leads to the older log any more.
        """
        begin, end = _LOG_KEY.pack(b"L", log_id, 0), _STATE_KEY.pack(b"L", log_id + 1)
        return any(not self._is_deleted(_LOG_KEY.unpack(key)[2]) for key, _ in self._store.scan(begin, end))

    def _is_deleted(self, ledger_id: int) -> bool:
        value = self._store.get(_STATE_KEY.pack(b"S", ledger_id))
        return value is not None and bool(_state_fields(value)[0] & _DELETED)

    def remove_from_log(self, log_id: int, ledger_id: int) -> None:
        """The log has no block of the ledger any more: all its intervals have been moved."""
        self._store.write((), [_LOG_KEY.pack(b"L", log_id, ledger_id)])

    def live_bytes(self) -> Iterator[tuple[int, int, int]]:
        """(log id, ledger id, bytes of the ledger's blocks in the log) of ledgers that are not deleted, ascending.

        The bytes are an upper bound. StorageError.
        """
        deleted: dict[int, bool] = {}
        for key, value in self._store.scan(b"L", b"M"):
            _, log_id, ledger_id = _LOG_KEY.unpack(key)
            if ledger_id not in deleted:
                deleted[ledger_id] = self._is_deleted(ledger_id)
            if not deleted[ledger_id]:
                yield log_id, ledger_id, _unpacked(_LOG_VALUE, value)[0]

    def log_ids(self) -> Iterator[int]:
        """Ascending ids of the entry logs that hold blocks of a ledger that is not deleted. StorageError."""
        log_id, end = 0, _STATE_KEY.pack(b"L", 2**64 - 1)
        while found := next(self._store.scan(_STATE_KEY.pack(b"L", log_id), end), None):
            log_id = _LOG_KEY.unpack(found[0])[1]
            if self.has_live_ledger(log_id):
                yield log_id
            log_id += 1

    def leads_into(self, log_id: int) -> bool:
        """Whether an interval of a ledger that is not deleted is in the log. StorageError.

        That a ledger is listed there does not prove it: of what was stored again elsewhere the record stays.
        """
        begin, end = _LOG_KEY.pack(b"L", log_id, 0), _STATE_KEY.pack(b"L", log_id + 1)
        listed = (_LOG_KEY.unpack(key)[2] for key, _ in self._store.scan(begin, end))
        return any(
            interval.log_id == log_id
            for ledger_id in listed
            if not self._is_deleted(ledger_id)
            for interval in self.intervals(ledger_id)
        )

    def log_end(self) -> LogEnd | None:
        """Where the next block goes; None before the first checkpoint. IndexVersionError."""
        value = self._store.get(b"E")
        if value is None:
            return None
        version, log_id, offset = _unpacked(_END_VALUE, value)
        if version > VERSION:
            raise IndexVersionError(
                f"index {self._path} has version {version}, this bookie reads up to {VERSION}: start a newer version",
                version=version,
                version_max=VERSION,
            )
        self._version = version
        return LogEnd(log_id, offset) if log_id else None

    def put_log_end(self, end: LogEnd) -> None:
        """Before the intervals: after a crash a block that an interval names must not be overwritten."""
        self._store.write([(b"E", _END_VALUE.pack(self._version, end.log_id, end.offset))])

    def allow_segments(self) -> bool:
        """From the next `put_log_end` on, intervals may be in journal files: older bookies would remove these.

        After `log_end`. Returns whether the index was written with a version before that.
        """
        upgraded = self._version < VERSION and self._store.get(b"E") is not None
        self._version = VERSION
        return upgraded

    # ---- checkpoints

    def generation(self) -> int:
        return self._number(b"G") or 0

    def limbo_since(self) -> int | None:
        return self._number(b"M")

    def limbo_record(self) -> list[tuple[bytes, bytes]]:
        """The record that says so, if in limbo."""
        since = self.limbo_since()
        return [] if since is None else [(b"M", _NUMBER.pack(since))]

    def set_limbo(self, generation: int | None) -> None:
        if generation is None:
            self._store.write((), [b"M"])
        else:
            self._store.write([(b"M", _NUMBER.pack(generation))])

    def _number(self, key: bytes) -> int | None:
        value = self._store.get(key)
        return None if value is None else _unpacked(_NUMBER, value)[0]

    def sync(self, generation: int) -> None:
        """Everything written so far is durable on return, together with its generation."""
        self._store.write([(b"G", _NUMBER.pack(generation))])
        self._store.sync()

    def reopen(self) -> None:
        """Accept writes again after a full disk; what was not synced may be forgotten."""
        self._store.reopen()

    @property
    def is_open(self) -> bool:
        """False: an error of `reopen` has left it closed, or it can only be read."""
        return self._store.is_open

    def ensure_open(self) -> None:
        """Open it again if a `reopen` could not. DiskFullError: it cannot be opened for writing now."""
        self._store.ensure_open()

    def exchange(self, install: Callable[[], None]) -> None:
        """Go on with the index that `install` puts into this one's directory; lookups wait for it.

        IndexDamagedError: neither of them is open.
        """
        self.moves += 1
        try:
            self._store.exchange(install)
        except LogStoreError as error:
            raise IndexDamagedError(
                f"the new index has not taken the place of {self._path} ({error}): start the bookie again",
                path=Path(str(self._path)),
            ) from error
        finally:
            self.moves += 1

    def close(self) -> None:
        self._store.close()


def _interval(key: bytes, value: bytes) -> Interval:
    _, _, first = _BLOCK_KEY.unpack(key)
    log_id, offset, block_bytes, last, flags = _unpacked(_BLOCK_VALUE, value)
    return Interval(first, last, log_id, offset, block_bytes, bool(flags & _DENSE))


def _interval_record(ledger_id: int, interval: Interval) -> tuple[bytes, bytes]:
    value = _BLOCK_VALUE.pack(
        interval.log_id,
        interval.offset,
        interval.block_bytes,
        interval.last,
        _DENSE if interval.dense else 0,
    )
    return _BLOCK_KEY.pack(b"I", ledger_id, interval.first), value


def state_record(state: StoredLedger) -> tuple[bytes, bytes]:
    """Flags, last entry, LAC, explicit LAC, key length, packet length, key, packet."""
    packet = state.explicit_lac or b""
    flags = _FENCED * state.fenced | _DELETED * state.deleted
    head = _STATE_VALUE.pack(
        flags, state.last_entry, state.lac, state.explicit_lac_value, len(state.master_key), len(packet)
    )
    return _STATE_KEY.pack(b"S", state.ledger_id), b"".join((head, state.master_key, packet))


def state_of(ledger_id: int, value: bytes) -> StoredLedger:
    """The state that `state_record` made the value of. StorageError if it made no such value."""
    flags, last_entry, lac, explicit_value, key_bytes, packet_bytes = _state_fields(value)
    key_end = _STATE_VALUE.size + key_bytes
    state = StoredLedger(ledger_id, value[_STATE_VALUE.size : key_end])
    state.fenced = state.fence_durable = bool(flags & _FENCED)
    state.deleted = bool(flags & _DELETED)
    state.last_entry, state.lac, state.explicit_lac_value = last_entry, lac, explicit_value
    state.explicit_lac = value[key_end : key_end + packet_bytes] if packet_bytes else None
    return state


def tombstones(records: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Those records of `state_record` that are of deleted ledgers."""
    return [record for record in records if _state_fields(record[1])[0] & _DELETED]


def _state_fields(value: bytes) -> tuple[int, ...]:
    if len(value) >= _STATE_VALUE.size:
        fields = _STATE_VALUE.unpack_from(value)
        if len(value) == _STATE_VALUE.size + fields[-2] + fields[-1]:
            return fields
    raise _wrong_size(value)


def _unpacked(layout: struct.Struct, value: bytes) -> tuple[int, ...]:
    if len(value) != layout.size:
        raise _wrong_size(value)
    return layout.unpack(value)


def _wrong_size(value: bytes) -> StorageError:
    # RocksDB's own checksums find flipped bits: a size like this one is of another program, or a bug.
    return StorageError(
        f"a record of the index has {len(value)} bytes, which no record of its kind has: run `bookie rebuild-index` "
        "on this bookie's directories"
    )
