"""Lets the index lead again to entries that it has lost, from blocks that the scrubber has found. Blocks.

Runs in the storage worker, so between two checkpoints: nothing else changes the index in between. The caller has made a
checkpoint since the blocks were found, so nothing that belongs into the index is in memory alone. Each block is read
and each entry looked up once more: the ledger may have been deleted, its block moved, the file removed.

Invariant, as for a checkpoint: the log's record with the interval, and the index's sync before anything counts. The
blocks are before the end that the index knows of their file, so no crash lets them be written over.
"""

from __future__ import annotations

from collections.abc import Sequence

from bookie_server.errors import DiskFullError, StorageError
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.index import interval_of
from bookie_server.storage.scrub.block_ids import BlockIds
from bookie_server.storage.scrub.file_walk import UnindexedBlock
from bookie_server.storage.scrub.lost_entries import is_unlisted, lost_ids
from bookie_server.storage.start.opening import Parts


def restore_blocks(parts: Parts, found: Sequence[UnindexedBlock]) -> list[UnindexedBlock]:
    """Add to the index, durably, what it does not lead to now; these blocks.

    DiskFullError: not done, and may be repeated; any other error of a write is that of the index.
    """
    restoring = _Restoring(parts, found)
    try:
        parts.checkpointer.with_reserve(restoring.run)
    finally:
        restoring.close()
    return restoring.restored


class _Restoring:
    def __init__(self, parts: Parts, found: Sequence[UnindexedBlock]) -> None:
        self._index = parts.index
        self._generation = parts.checkpointer.generation
        self._logs = EntryLogReader(parts.disk, parts.paths)
        self._blocks = BlockIds(self._logs)
        self._found = found
        self.restored: list[UnindexedBlock] = []

    def run(self) -> None:
        """May be repeated after a full disk: what was not synced may be forgotten then, or may not."""
        try:
            for each in self._found:
                if self._restore(each) and each not in self.restored:
                    self.restored.append(each)
            if self.restored:
                self._index.sync(self._generation)
        except DiskFullError:
            self._index.reopen()
            raise

    def _restore(self, found: UnindexedBlock) -> bool:
        place = interval_of(found.ids, found.log_id, found.offset, found.size)
        try:
            block = self._logs.read_if_intact(found.ledger_id, place)
            if block is None:
                return False
            ids = lost_ids(self._index, block, (found.log_id, found.offset), self._blocks)
            if ids:
                interval = interval_of(ids, found.log_id, found.offset, found.size)
                self._index.add_blocks(found.ledger_id, [(ids, interval)])
                return True
            if is_unlisted(self._index, found.ledger_id, block.first, block.last, found.log_id):
                self._index.list_in_log(found.log_id, found.ledger_id)
                return True
        except StorageError:
            pass  # the index, or a file, cannot be read there
        return False

    def close(self) -> None:
        self._logs.close()
