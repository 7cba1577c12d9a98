"""An index under construction, made from blocks, and the proof that it finds them. Blocks.

The old index stays in its place until the new one is complete, proved and durable; so whatever ends a rebuild, it can
be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from bookie_server.disk.disk import Disk
from bookie_server.errors import StorageError
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock, scan
from bookie_server.storage.index import Index, Interval, interval_of, state_of, state_record
from bookie_server.storage.ledgers.state_log_format import Record
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.segments.places import is_segment
from bookie_server.storage.segments.scan import scan_segment
from bookie_server.storage.storage_paths import StoragePaths

_STATES_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a file with blocks: from `start`, 0 for all of it, to `end`, None for the end of its blocks."""

    log_id: int
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Progress:
    """After each entry log, first when its blocks were indexed, then when they were proved."""

    doing: str
    log_id: int
    done: int
    count: int
    entries: int


Report = Callable[[Progress], None]


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

    def count_states(self, states: Mapping[bytes, bytes]) -> None:
        for key, value in states.items():
            state = state_of(int.from_bytes(key[1:], "big"), value)
            self.ledgers += not state.deleted
            self.deleted += state.deleted
            self.fenced += state.fenced and not state.deleted


class NewIndex:
    """Next to the old one, which it does not touch."""

    def __init__(self, disk: Disk, paths: StoragePaths) -> None:
        self._disk = disk
        self._paths = paths
        self._logs = EntryLogReader(disk, paths)
        self._index: Index | None = None

    def begin(self) -> None:
        """Open it, empty: what an earlier rebuild left is removed."""
        self._disk.remove_tree(self._paths.new_index)
        self._open()

    def _open(self) -> None:
        self._index = Index(self._disk.open_key_values(self._paths.new_index), self._paths.new_index)

    @property
    def index(self) -> Index:
        assert self._index is not None, "begin() comes first"
        return self._index

    def blocks(self, part: LogPart) -> Iterator[FoundBlock | Damage]:
        """In the order of the file."""
        scan_file = scan_segment if is_segment(part.log_id) else scan
        path = path_of(self._disk, self._paths, part.log_id)
        return scan_file(self._disk, path, part.log_id, part.end, part.start)

    def put_states(self, records: Iterable[Record]) -> None:
        left = iter(records)
        while piece := list(islice(left, _STATES_AT_ONCE)):
            self.index.put_states(piece)

    def add(self, found: FoundBlock) -> int:
        """How many entries were added."""
        block = found.block
        interval = interval_of(block.ids, found.log_id, found.offset, block.size)
        self.index.add_blocks(block.ledger_id, [(block.ids, interval)])
        return len(block.ids)

    def flush(self) -> None:
        """What was added leaves the memory. Without its generation no start believes in this index."""
        self.index.sync(0)

    def reopen(self) -> None:
        """Read from now on what is on the disk."""
        self.close()
        self._open()

    # ---- proving. StorageError: it is not right.

    def prove_states(self, states: Mapping[bytes, bytes]) -> None:
        if dict(self.index.state_records()) != states:
            raise self.wrong("holds other ledger states than were put into it")

    def prove_absent(self, found: FoundBlock) -> None:
        """The block's ledger is deleted."""
        if self.index.find(found.block.ledger_id, found.block.first) is not None:
            raise self.wrong(f"finds entries of ledger {found.block.ledger_id}, which is deleted")

    def prove(self, found: FoundBlock, *, may_lack: bool = False) -> int:
        """It finds every entry of the block, here or in another block; how many these are.

        `may_lack`: other files are damaged, so an entry may be found where it cannot be read.
        """
        block = found.block
        covered = None
        for entry_id in block.ids:
            entry = block.entry(entry_id)
            if entry is None or bytes(entry[:16]) != _ids_of(block.ledger_id, entry_id):
                raise self.wrong(f"leads to an entry that is not {entry_id} of ledger {block.ledger_id}")
            if covered is None or not covered.first <= entry_id <= covered.last:
                covered = self.index.find(block.ledger_id, entry_id)
            if covered is None:
                raise self.wrong(f"does not find entry {entry_id} of ledger {block.ledger_id}")
            if (covered.log_id, covered.offset) != (found.log_id, found.offset):
                self._prove_other(covered, block.ledger_id, entry_id, may_lack=may_lack)
                covered = None
        return len(block.ids)

    def _prove_other(self, interval: Interval, ledger_id: int, entry_id: int, *, may_lack: bool) -> None:
        """The entry is in two blocks, and the index names the other one."""
        try:
            [block] = self._logs.read(ledger_id, [interval])
        except StorageError:
            if not may_lack:
                raise
            return  # in an entry log whose header is damaged: reads of it answer that they do not know
        if block.entry(entry_id) is None:
            raise self.wrong(f"finds entry {entry_id} of ledger {ledger_id} in the wrong block")

    def prove_interval(self, ledger_id: int, interval: Interval) -> None:
        """It finds what this interval of another index begins and ends with; `prove` has shown it of whole blocks."""
        missing = [each for each in (interval.first, interval.last) if self._lacks(ledger_id, each)]
        if missing and not interval.dense:
            # What was stored later has cut it, and may have left it an end at which its block has no entry.
            ids = self._logs.read(ledger_id, [interval])[0].ids
            within = (each for each in ids if interval.first <= each <= interval.last)
            missing = [each for each in within if self._lacks(ledger_id, each)]
        if missing:
            raise self.wrong(
                f"does not find entry {missing[0]} of ledger {ledger_id}, which the old one finds"
            )

    def _lacks(self, ledger_id: int, entry_id: int) -> bool:
        return self.index.find(ledger_id, entry_id) is None

    def wrong(self, what: str) -> StorageError:
        return StorageError(
            f"the new index {self._paths.new_index} {what}: the old one stays; if the disk is healthy, report a bug",
            path=self._paths.new_index,
        )

    def close(self) -> None:
        self._logs.close()
        if self._index is not None:
            index, self._index = self._index, None
            index.close()


def states_in(records: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The states of ledgers among the records of a state log."""
    return {key: value for key, value in records.items() if key[:1] == b"S"}


def deleted_in(records: Mapping[bytes, bytes]) -> set[int]:
    """Ids of the ledgers that are deleted, from records of a state log."""
    ids = ((int.from_bytes(key[1:], "big"), value) for key, value in states_in(records).items())
    return {ledger_id for ledger_id, value in ids if state_of(ledger_id, value).deleted}


def state_in(states: Mapping[bytes, bytes], ledger_id: int) -> StoredLedger | None:
    """From records of an index, by key."""
    value = states.get(state_record(StoredLedger(ledger_id, b""))[0])
    return None if value is None else state_of(ledger_id, value)


def _ids_of(ledger_id: int, entry_id: int) -> bytes:
    return ledger_id.to_bytes(8, "big") + entry_id.to_bytes(8, "big")
