"""An index that has lost records, as no code of ours would leave it; and what a walk over the files finds then."""

from __future__ import annotations

from collections.abc import Callable

from bookie_server.storage.index import Index, Interval
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub.file_walk import FIRST_FILE, FilePosition, UnindexedBlock


def lose_intervals(
    index: Index, ledger_id: int, chosen: Callable[[Interval], bool] = lambda _: True
) -> list[Interval]:
    """Remove these intervals of the ledger; which they were."""
    lost = [each for each in index.intervals(ledger_id) if chosen(each)]
    index._store.write((), [interval_key(ledger_id, each.first) for each in lost])
    return lost


def interval_key(ledger_id: int, first: int) -> bytes:
    return b"I" + ledger_id.to_bytes(8, "big") + first.to_bytes(8, "big")


def lose_log_records(index: Index, ledger_id: int) -> None:
    """Remove what says in which files the ledger has blocks."""
    keys = [key for key, _ in index._store.scan(b"L", b"M") if key[9:] == ledger_id.to_bytes(8, "big")]
    assert keys
    index._store.write((), keys)


async def unindexed(storage: LedgerStorage, bytes_max: int = 1024 * 1024) -> list[UnindexedBlock]:
    """What one walk over all files finds, in steps."""
    files, walk = await storage.block_files(), storage.file_walk()
    found: list[UnindexedBlock] = []
    position: FilePosition | None = FIRST_FILE
    while position is not None:
        step = walk.step(files, position, bytes_max)
        assert step.next is None or _is_after(step.next, position), "each step gets on"
        found += step.unindexed
        position = step.next
    return found


def _is_after(position: FilePosition, earlier: FilePosition) -> bool:
    return (position.log_id, position.offset) > (earlier.log_id, earlier.offset)


def places_of(found: list[UnindexedBlock]) -> set[tuple[int, int]]:
    return {(each.log_id, each.offset) for each in found}
