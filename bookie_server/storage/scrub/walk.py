"""Checks what the index names, interval by interval: the file, the block, its checksum, and what is in it. Blocks.

Invariant: nothing is reported for what changed while it was read. What cannot be read is looked up once more: a ledger
that was deleted in the meantime, or a block that is somewhere else now, is no damage. Neither is a file that cannot be
opened for lack of descriptors.

Where the index itself is damaged, it is not known what it named: that is no damage of blocks or ledgers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bookie_server.disk.disk import Disk
from bookie_server.errors import BlockDamagedError, StorageError
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.format import Block
from bookie_server.storage.index import Index, Interval
from bookie_server.storage.storage_paths import StoragePaths

_TRIES = 2
"""Reads of a block before it counts as damaged: a disk may be wrong once."""
_LEDGER_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Damage:
    """Entries of one ledger, from `first` to `last`, that this bookie cannot read. `reason`: a sentence."""

    ledger_id: int
    first: int
    last: int
    reason: str
    log_id: int
    """The file, as the index numbers it."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a walk goes on: at the first interval that begins at or after this entry."""

    ledger_id: int = 0
    entry_id: int = 0


BEGINNING = Position()


@dataclass(frozen=True, slots=True)
class Step:
    """What one step has checked. `next`: None at the end of the index."""

    blocks: int
    block_bytes: int
    damage: tuple[Damage, ...]
    next: Position | None
    index_damage: str = ""
    """Why the index cannot be read at the step's end, a sentence. What it names next is not checked."""


class BlockWalk:
    """Keeps no file open between two steps, so that the space of removed ones comes back."""

    def __init__(self, disk: Disk, index: Index, paths: StoragePaths) -> None:
        self._index = index
        self._logs = EntryLogReader(disk, paths)
        self._skipped = 1
        """Ledgers to leave out where the index itself cannot be read; doubled until it can be."""

    def step(self, start: Position, bytes_max: int) -> Step:
        """Check blocks from `start` on, at least one and about `bytes_max` bytes."""
        found, end = self._intervals(start, bytes_max)
        try:
            damage = [each for ledger_id, run in _runs(found) for each in self._check(ledger_id, run)]
        finally:
            self._logs.close()
        size = sum(interval.block_bytes for _, interval in found)
        if isinstance(end, str):
            ledger_id = start.ledger_id + self._skipped
            self._skipped *= 2
            after = Position(ledger_id) if ledger_id <= _LEDGER_MAX else None
            return Step(len(found), size, tuple(damage), after, index_damage=end)
        self._skipped = 1
        return Step(len(found), size, tuple(damage), end)

    def _intervals(
        self, start: Position, bytes_max: int
    ) -> tuple[list[tuple[int, Interval]], Position | str | None]:
        """Intervals to check, and where to go on; or why the index cannot be read at `start`."""
        found: list[tuple[int, Interval]] = []
        left = bytes_max
        try:
            for ledger_id, interval in self._index.all_intervals(start.ledger_id, start.entry_id):
                if left <= 0:
                    return found, Position(ledger_id, interval.first)
                found.append((ledger_id, interval))
                left -= interval.block_bytes
        except StorageError as error:
            if not found:
                return found, str(error)
            ledger_id, interval = found[-1]
            return found, Position(ledger_id, interval.first + 1)
        return found, None

    def _check(self, ledger_id: int, run: Sequence[Interval]) -> Iterator[Damage]:
        try:
            blocks = self._logs.read(ledger_id, run)
            if all(map(_agree, run, blocks)):
                return
        except StorageError:
            pass  # which of them is it?
        for interval in run:
            reason = self._damage(ledger_id, interval)
            if reason:
                yield Damage(ledger_id, interval.first, interval.last, reason, interval.log_id)

    def _damage(self, ledger_id: int, interval: Interval) -> str:
        """Why the entries of the interval cannot be read; nothing if they can be, or need not be any more."""
        reason = ""
        for _ in range(_TRIES):
            try:
                now = self._index.find(ledger_id, interval.first)
                if now is None or _agree(now, self._logs.read(ledger_id, [now])[0]):
                    return ""
                reason = (
                    f"the block at {now.offset} of log {now.log_id:x} has other entries than the index says"
                )
            except BlockDamagedError as error:
                reason = str(error)
            except StorageError:
                return ""
        return reason


def _agree(interval: Interval, block: Block) -> bool:
    """Whether the block has what the index says. Whether every id between is there, only a dense interval says."""
    if interval.dense:
        return block.entry(interval.first) is not None and block.entry(interval.last) is not None
    return block.first <= interval.first and interval.last <= block.last


def _runs(found: Sequence[tuple[int, Interval]]) -> Iterator[tuple[int, list[Interval]]]:
    """Intervals of one ledger that follow each other in one file: one read for all of them."""
    ledger, run = -1, list[Interval]()
    for ledger_id, interval in found:
        if run and (
            ledger_id != ledger
            or interval.log_id != run[-1].log_id
            or interval.offset != run[-1].offset + run[-1].block_bytes
        ):
            yield ledger, run
            run = []
        ledger = ledger_id
        run.append(interval)
    if run:
        yield ledger, run
