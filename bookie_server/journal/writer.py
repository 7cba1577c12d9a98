"""Group commit: everything that arrived while the previous sync ran goes into the next one.

The loop queues, the disk worker writes: in its thread, or on the loop for a lone append to a quick disk. Invariant: a
callback gets `None` only after a sync that began when its record was completely in the file. The first write or
sync error ends the journal permanently (`failed`): nothing is retried, and all waiting callers get the error,
which means "unknown". A full disk is no such error: it shows before a record is begun, so those who wait learn
that nothing was written. Everything queued before the loop heard of it is refused with it, so of what was queued in
one step of the loop a prefix is durable: no fence without the key of its ledger.

Pitfalls: docs/pitfalls.md#ack-before-the-sync, #failed-sync-retried.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bookie_server.disk.disk import DiskWorker
from bookie_server.errors import DiskFullError, StorageClosedError
from bookie_server.journal.block import block_body, in_blocks
from bookie_server.journal.files import Body, JournalFiles, Place
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import RecordType, adds_body
from bookie_server.storage.stored_entry import StoredEntry
from ledger.errors import LogStoreError

OnDurable = Callable[[Exception | None], None]

_RECORD_BYTES_MAX = 4 * 1024 * 1024
"""One record takes as many adds as fit in this, so that one join and one CRC cover them."""

_BRIEF_BYTES_MAX = 16 * 1024
"""A group that begins with no more is probably a lone append, whose latency is all that matters."""

_ITEM_BYTES = 512
"""Memory of what waits for the journal, in addition to its bytes: a fence has 8 of these, a barrier none."""

_NEVER = sys.maxsize


class _Adds(NamedTuple):
    lengths: Sequence[int]
    entries: Sequence[StoredEntry]


OnPlaced = Callable[[int, Sequence[int], Place], None]
"""Told of a ledger, ids of it, and where their block is; on the loop, before the run's `OnDurable`."""


class LedgerRun(NamedTuple):
    """Ascending entries of one ledger."""

    ledger_id: int
    ids: Sequence[int]
    entries: Sequence[StoredEntry]


class _Blocks(NamedTuple):
    run: LedgerRun
    bytes_max: int
    """Of a block, unless one entry is larger."""
    on_placed: OnPlaced
    cuts: list[Sequence[int]]
    """The ids of each block, once the worker has cut them."""


@dataclass(slots=True)
class _Item:
    content: _Adds | _Blocks | Sequence[Body]
    """Entries that may share a record with others, entries that stay, or whole records; a barrier has none."""
    queued_bytes: int
    on_durable: OnDurable | None
    fulls_known: int
    """How often the loop had heard of a full disk when this was queued."""
    records_before: int = 0
    """How many records of its group must be durable before this item is."""


class _Group(NamedTuple):
    """What became of one group: `written` records are durable, `error` befell the others."""

    items: list[_Item]
    written: int
    places: list[Place]
    error: LogStoreError | None
    position: LogMark
    fulls: int


class Journal:
    """The journal as the loop sees it."""

    def __init__(
        self,
        files: JournalFiles,
        worker: DiskWorker,
        on_failure: Callable[[LogStoreError], None],
        on_group: Callable[[DiskFullError | None], None],
    ) -> None:
        self._files = files
        self._worker = worker
        self._on_failure = on_failure
        self._on_group_done = on_group
        self._queue: deque[_Item] = deque()
        self._scheduled = False
        self._writing: list[_Item] = []
        """What the worker has taken and not returned."""
        self._broken: LogStoreError | None = None
        self._fulls = 0
        """How often the worker has met a full disk; `_fulls_known`: how often the loop has heard of it."""
        self._fulls_known = 0
        self._full: DiskFullError | None = None
        self.failed: LogStoreError | None = None
        self.durable = files.position
        """Every record before this position is durable; learned on the loop."""
        self.queued_bytes = 0
        self._waiting = 0
        """Items."""
        self.appended_bytes = 0
        """All that it was given since it was opened."""
        self.groups = 0
        """Groups that it has written, each with one sync, or failed to."""

    # ---- on the loop

    @property
    def has_refused(self) -> bool:
        """Whether anything given to it may be missing, for a full disk that the loop has heard of."""
        return self._fulls_known > 0

    @property
    def occupied_bytes(self) -> int:
        """Memory of what waits."""
        return self.queued_bytes + _ITEM_BYTES * self._waiting

    def append_adds(
        self, lengths: Sequence[int], entries: Sequence[StoredEntry], on_durable: OnDurable | None
    ) -> None:
        self._append(_Item(_Adds(lengths, entries), sum(lengths), on_durable, self._fulls_known))

    def append_blocks(
        self,
        run: LedgerRun,
        queued_bytes: int,
        *,
        block_bytes_max: int,
        on_placed: OnPlaced,
        on_durable: OnDurable | None,
    ) -> None:
        """Entries that stay where they are written. `on_placed` hears of each block if all of them are durable."""
        content = _Blocks(run, block_bytes_max, on_placed, [])
        self._append(_Item(content, queued_bytes, on_durable, self._fulls_known))

    def append(self, kind: RecordType, body: bytes, on_durable: OnDurable | None) -> None:
        self.append_all(kind, (body,), on_durable)

    def append_all(self, kind: RecordType, bodies: Sequence[bytes], on_durable: OnDurable | None) -> None:
        """Records of one kind, with one outcome; none of them are a barrier."""
        records = [(kind, body) for body in bodies]
        self._append(_Item(records, sum(map(len, bodies)), on_durable, self._fulls_known))

    def barrier(self, on_durable: OnDurable) -> None:
        """Call back when everything queued before is durable."""
        self._append(_Item((), 0, on_durable, self._fulls_known))

    def _append(self, item: _Item) -> None:
        self._waiting += 1
        self.queued_bytes += item.queued_bytes
        self.appended_bytes += item.queued_bytes
        self._queue.append(item)
        # The worker clears the flag before it takes items. So an item queued while the flag is set is taken
        # by the job that is already on its way, and at most one job waits for the running sync.
        if not self._scheduled:
            self._scheduled = True
            brief = item.queued_bytes <= _BRIEF_BYTES_MAX
            self._worker.submit(self._write_group, self._on_group, brief=brief)

    def _on_group(self, group: _Group | None, error: LogStoreError | None) -> None:
        if group is None:
            self._broke_down(error or StorageClosedError("the journal's worker has stopped"))
            return
        self.groups += 1
        self.durable = group.position
        self._fulls_known = group.fulls
        if group.error is not None and not isinstance(group.error, DiskFullError):
            self._fail(group.error)
        self._waiting -= len(group.items)
        for item in group.items:
            self.queued_bytes -= item.queued_bytes
            if isinstance(item.content, _Blocks) and item.records_before <= group.written:
                _report_places(item.content, item.records_before, group.places)
            if item.on_durable is not None:
                item.on_durable(None if item.records_before <= group.written else group.error)
        self._on_group_done(group.error if isinstance(group.error, DiskFullError) else None)

    def _broke_down(self, error: LogStoreError) -> None:
        """The worker, which has returned no group: of what it was writing nothing is known."""
        self._broken = self._broken or error
        self._fail(error)
        items, self._writing = [*self._writing, *self._take()], []
        self._waiting -= len(items)
        for item in items:
            self.queued_bytes -= item.queued_bytes
            if item.on_durable is not None:
                item.on_durable(error)

    def _fail(self, error: LogStoreError) -> None:
        if self.failed is None:
            self.failed = error
            self._on_failure(error)

    # ---- in the worker

    def _write_group(self) -> _Group:
        self._scheduled = False
        self._writing = self._take()
        group = self._written(self._writing)
        self._writing = []
        return group

    def _written(self, items: list[_Item]) -> _Group:
        if self._broken is not None:
            return self._group(items, -1, self._broken)
        refused = self._refuse_late(items)
        places: list[Place] = []
        try:
            written, full = self._files.write(_bodies(items[refused:]), places)
        except LogStoreError as error:
            # Remembered here: the next group must not reach the file, even if its job starts before the
            # loop has heard of this failure.
            self._broken = error
            return self._group(items, -1, error)
        if full is not None:
            self._fulls += 1
            self._full = full
        return self._group(items, written, self._full if refused else full, places)

    def _refuse_late(self, items: list[_Item]) -> int:
        """Mark the items, all at the front, that were queued before the loop heard of a full disk; how many."""
        refused = 0
        while refused < len(items) and items[refused].fulls_known < self._fulls:
            items[refused].records_before = _NEVER
            refused += 1
        return refused

    def _group(
        self, items: list[_Item], written: int, error: LogStoreError | None, places: Sequence[Place] = ()
    ) -> _Group:
        return _Group(items, written, list(places), error, self._files.position, self._fulls)

    def _take(self) -> list[_Item]:
        # As many as are there now; only here are any taken out, while the loop may go on adding.
        take = self._queue.popleft
        return [take() for _ in range(len(self._queue))]


def _bodies(items: Sequence[_Item]) -> list[Body]:
    """The records of a group; notes in each item how many of them it needs."""
    bodies: list[Body] = []
    lengths: list[int] = []
    entries: list[StoredEntry] = []
    gathered_bytes = 0

    def close_record() -> None:
        nonlocal lengths, entries, gathered_bytes
        if entries:
            bodies.append((RecordType.ADDS, adds_body(lengths, entries)))
            lengths, entries, gathered_bytes = [], [], 0

    for item in items:
        if isinstance(item.content, _Adds):
            if gathered_bytes + item.queued_bytes > _RECORD_BYTES_MAX:
                close_record()
            lengths += item.content.lengths
            entries += item.content.entries
            gathered_bytes += item.queued_bytes
            item.records_before = len(bodies) + 1
        elif isinstance(item.content, _Blocks):
            close_record()
            bodies += _cut(item.content)
            item.records_before = len(bodies)
        else:
            close_record()
            bodies += item.content
            item.records_before = len(bodies)
    close_record()
    return bodies


def _cut(content: _Blocks) -> Iterator[Body]:
    """The records of its blocks."""
    ledger_id, ids, entries = content.run
    for block_ids, block_entries in in_blocks([(ids, entries)], content.bytes_max):
        content.cuts.append(block_ids)
        yield RecordType.BLOCK, block_body(ledger_id, block_ids, block_entries)


def _report_places(content: _Blocks, records_before: int, places: Sequence[Place]) -> None:
    first = records_before - len(content.cuts)
    for ids, place in zip(content.cuts, places[first:records_before], strict=True):
        content.on_placed(content.run.ledger_id, ids, place)
