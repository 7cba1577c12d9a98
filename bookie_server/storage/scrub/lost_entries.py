"""Which entries of an intact block the index has lost: it does not lead to them, and nothing explains that. Blocks.

Invariant: an entry counts as lost only if its ledger is known and not deleted, the entry is not above the ledger's last
one as stored, and no interval leads to it. So these are none: what was deleted; what a checkpoint has written that was
not completed, as far as it comes after the last entry; what was moved, or stored twice. What the journal's replay has
brought back into memory may look lost until a checkpoint: `restoring.py` makes one and checks again.
"""

from __future__ import annotations

from collections.abc import Sequence

from bookie_server.storage.entry_logs.format import Block
from bookie_server.storage.index import Index, Interval
from bookie_server.storage.scrub.block_ids import BlockIds
from bookie_server.storage.scrub.coverage import Place, by_interval, leads_to


def is_deleted(index: Index, ledger_id: int) -> bool:
    """StorageError."""
    state = index.state(ledger_id)
    return state is not None and state.deleted


def may_be_lost(index: Index, ledger_id: int, first: int) -> bool:
    """Whether this ledger must have entries that begin with this one. StorageError."""
    state = index.state(ledger_id)
    return state is not None and not state.deleted and first <= state.last_entry


def is_unlisted(index: Index, ledger_id: int, first: int, last: int, log_id: int) -> bool:
    """Whether the index leads to entries of this range in this file, and has lost that the ledger has blocks there.

    Without that record the file seems to be without a live ledger. StorageError.
    """
    if index.bytes_in_log(log_id, ledger_id) or is_deleted(index, ledger_id):
        return False
    return any(each.log_id == log_id for each in index.overlapping(ledger_id, first, last))


def lost_ids(index: Index, block: Block, place: Place, blocks: BlockIds) -> list[int]:
    """Ids of lost entries in this block, ascending. StorageError: the index, or a file that it names, cannot be read.

    What the index names and is damaged is not lost: that is found the other way round, and repaired.
    """
    state = index.state(block.ledger_id)
    if state is None or state.deleted:
        return []
    stored = [each for each in block.ids if each <= state.last_entry]
    if not stored:
        return []
    intervals = index.overlapping(block.ledger_id, stored[0], stored[-1])
    return [
        each
        for interval, ids in by_interval(stored, intervals)
        for each in _not_found(block.ledger_id, interval, ids, place, blocks)
    ]


def _not_found(
    ledger_id: int, interval: Interval | None, ids: list[int], place: Place, blocks: BlockIds
) -> Sequence[int]:
    if interval is None:
        return ids
    return () if leads_to(interval, place) else blocks.missing(ledger_id, interval, ids)
