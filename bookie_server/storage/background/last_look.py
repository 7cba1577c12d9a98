"""The last look into a file before it is removed: the index may have lost records of intact blocks in it. Blocks.

Invariant: no file is removed that has an entry which only the index has lost. That no ledger lives in a file, the index
alone says, and the scrubber, which compares both, may come to the file only days later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from bookie_server.errors import DiskFullError
from bookie_server.storage.background.jobs import StorageJobs
from bookie_server.storage.background.pace import Pace
from bookie_server.storage.ledgers.state_log_format import NOT_KNOWN
from bookie_server.storage.scrub.block_files import BlockFile
from bookie_server.storage.scrub.file_walk import FIRST_FILE, FilePosition, FileWalk, UnindexedBlock
from bookie_server.storage.segments.places import is_segment
from bookie_server.storage.start.opening import Parts

_STEP_BYTES = 1024 * 1024
"""Read at a time."""
_STAYS = "a file stays that seemed to be garbage"

logger = logging.getLogger(__name__)


class LastLook:
    def __init__(
        self,
        parts: Parts,
        jobs: StorageJobs,
        pace: Pace,
        restore: Callable[[Sequence[UnindexedBlock]], Awaitable[Sequence[UnindexedBlock]]],
    ) -> None:
        """`restore` puts what is found into the index, as for the scrubber."""
        self._parts = parts
        self._walk = FileWalk(parts.disk, parts.index, parts.paths)
        # Not the storage worker: a look would wait there for one checkpoint after the other.
        self._worker = parts.disk.worker("last-look")
        self._jobs = jobs
        self._pace = pace
        self._restore = restore

    async def close(self) -> None:
        await self._worker.close()

    async def keeps_nothing(self, log_id: int) -> bool:
        """Whether the index has lost nothing in this file; if it has, that is found again.

        Of a file that the ledger states do not know, no block counts but those that the index names: a crash may have
        cut off a compaction before these knew its entry log, or a checkpoint whose entries are in the journal.
        LogStoreError.
        """
        files = await self._jobs.run(self._parts.checkpointer.block_files)
        known = next((each for each in files if each.log_id == log_id), None)
        if known is None and is_segment(log_id):
            return True
        file = known or BlockFile(log_id, None)
        now = asyncio.get_running_loop().time
        position: FilePosition | None = FIRST_FILE
        nothing = True
        while position is not None:
            began = now()
            step = await self._worker.run(partial(self._walk.step, [file], position, _STEP_BYTES))
            took_s = now() - began
            found = [each for each in step.unindexed if known is not None or each.is_unlisted]
            nothing &= step.is_sure and not found
            if found and known is None:
                await self._jobs.run(partial(self._parts.state_log.note_end, log_id, NOT_KNOWN))
            if found and not await self._put_back(found):
                break
            position = step.next
            if position is not None:
                await self._pace.after(step.bytes_read, took_s)
        return nothing

    async def _put_back(self, found: Sequence[UnindexedBlock]) -> bool:
        """False: there is no space for it now."""
        try:
            restored = await self._restore(found)
        except DiskFullError as full:
            logger.warning(
                "%s: the index has lost %s, which cannot be put back now: %s", _STAYS, found[0], full
            )
            return False
        for each in restored[:1]:
            logger.warning("%s: the index had lost %s, and leads to it again", _STAYS, each)
        return True
