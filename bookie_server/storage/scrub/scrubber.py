"""Reads everything that the bookie has stored, one pass after the other, and has repair bring back what is damaged.

A pass has two parts: what the index names, in the files (`walk.py`), and what is in the files, in the index
(`file_walk.py`).

Invariant: what a pass is past was intact then, or its ledger is marked as under-replicated: the scrubber waits for the
metadata store before it goes on, and remembers a position only after that. Where the index cannot be read it is not
known what was there: the pass reports that, and marks nothing for it. A mark may be wrong; a worker reads the
copies before it writes any (docs/repair.md#how-it-works). So before it marks, the bookie forgets the blocks that it has
in memory: a worker that got an intact copy from there would clear the mark, and the damage would stay.

Entries that the index has lost are put back into it by the storage, in a way that proves them once more.

It reads at most `bytes_per_s`, and while the journal is written no more than a small part of the time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from bookie_server.disk.disk import Disk
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub.block_files import BlockFile
from bookie_server.storage.scrub.file_walk import FIRST_FILE, FilePosition, UnindexedBlock
from bookie_server.storage.scrub.marking import RepairMarks
from bookie_server.storage.scrub.record import (
    ScrubPass,
    ScrubRecord,
    decode_scrub_record,
    encode_scrub_record,
)
from bookie_server.storage.scrub.walk import BEGINNING, Damage, Position
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.storage_paths import StoragePaths
from ledger.environment import Environment
from ledger.errors import LogStoreError, UnavailableError
from ledger.model import LedgerId

STEP_BYTES = 1024 * 1024
_BUSY_PART = 50
"""While adds arrive, a step takes at most this part of the time: one in 50 …"""
_BUSY_PAUSE_MAX_S = 10.0
"""… but waits no longer than this. A step that took so long stood still, perhaps with the whole process."""
_SETTLE_S = 60.0
"""After a start: the clients that come back go first."""
_SAVE_S = 30.0
_RETRY_S = 10.0
_NAMED_MAX = 20
"""Damaged blocks of a pass that are logged one by one, and as many restored ones."""
_WAY_OUT = "what happens now: docs/operations.md#a-damaged-entry-log"
_INDEX_WAY_OUT = "docs/operations.md#a-damaged-index"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubConfig:
    interval_s: float
    """Seconds from the beginning of one pass to that of the next."""
    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class _Done:
    """What one step has done: the pass after it, and where that goes on, None at its end."""

    current: ScrubPass
    next: Position | FilePosition | None
    bytes_read: int
    took_s: float


class Scrubber:
    """Runs for as long as the bookie serves."""

    def __init__(
        self,
        storage: LedgerStorage,
        disk: Disk,
        paths: StoragePaths,
        marks: RepairMarks,
        config: ScrubConfig,
        environment: Environment,
        *,
        begins_anew: bool = False,
    ) -> None:
        """`begins_anew`: with a pass now, from its beginning."""
        self._begins_anew = begins_anew
        self.record = ScrubRecord()
        """What it has done so far; read only."""
        self.passes = 0
        """That were completed in this process."""
        self._storage = storage
        self._disk = disk
        self._paths = paths
        self._marks = marks
        self._config = config
        self._environment = environment
        self._walk = storage.block_walk()
        self._file_walk = storage.file_walk()
        self._files: Sequence[BlockFile] | None = None
        """What the second part of this pass walks, as listed when it began in this process."""
        self._worker = disk.worker("scrub")
        self._journaled = storage.journaled
        self._asked = asyncio.Event()
        """Begin the next pass now."""
        self._again = False
        """Begin one after that which is under way, too."""
        self._waiters: list[asyncio.Future[ScrubPass]] = []
        self._named: set[str] = set()
        """Damage that was reported in this pass."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def scrub_now(self) -> ScrubPass:
        """Begin a pass now, unless one is under way; the next one that is complete.

        Raises:
            UnavailableError: the bookie stops, or its scrubber has.
        """
        if self._task.done():
            raise UnavailableError("the bookie's scrubber has ended: its log has the reason")
        done: asyncio.Future[ScrubPass] = asyncio.get_running_loop().create_future()
        self._waiters.append(done)
        self._asked.set()
        return await done

    def scrub_soon(self) -> None:
        """Begin a pass now, or after the one that is under way: what it has found sound may not be so any more."""
        self._again = True
        self._asked.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        for each in self._taken_waiters():
            each.set_exception(UnavailableError("the bookie stops before the pass is complete"))
        await self._worker.close()

    async def _run(self) -> None:
        try:
            self.record = await self._worker.run(self._load)
        except LogStoreError as error:
            logger.warning("the scrubber begins at the beginning: %s", error)
        if self._begins_anew:
            self.record = ScrubRecord(current=self._new_pass(), last=self.record.last)
        else:
            await self._wait(min(_SETTLE_S, self._config.interval_s))
        while True:
            current = self.record.current
            if current is None:
                await self._wait(self._due_in_s())
                self._again = False
                current = self._new_pass()
                self.record = replace(self.record, current=current, position=BEGINNING)
            await self._finish_pass(current)
            await self._save()

    def _new_pass(self) -> ScrubPass:
        self._named.clear()
        return ScrubPass(began_ms=self._wall_ms())

    async def _wait(self, time_s: float) -> None:
        """For this long, or until a pass is asked for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(time_s):
                await self._asked.wait()

    def _due_in_s(self) -> float:
        last = self.record.last
        if last is None:
            return 0.0
        waited_s = (self._wall_ms() - last.began_ms) / 1000
        return max(0.0, min(self._config.interval_s, self._config.interval_s - waited_s))

    async def _finish_pass(self, current: ScrubPass) -> None:
        """Until the end of the last file, from the record's position."""
        now = asyncio.get_running_loop().time
        saved = now()
        while True:
            position = self.record.position
            if isinstance(position, FilePosition):
                done = await self._check_files(current, position)
            else:
                done = await self._check_index(current, position)
            current = done.current
            if done.next is None:
                break
            self.record = replace(self.record, current=current, position=done.next)
            if now() - saved >= _SAVE_S:
                saved = now()
                await self._save()
            before, self._journaled = self._journaled, self._storage.journaled
            busy = before != self._journaled
            await asyncio.sleep(
                pause_s(done.bytes_read, done.took_s, bytes_per_s=self._config.bytes_per_s, busy=busy)
            )
        self._files = None
        current = replace(current, ended_ms=self._wall_ms())
        self.record = ScrubRecord(last=current)
        self.passes += 1
        if not self._again:
            self._asked.clear()
        for each in self._taken_waiters():
            each.set_result(current)
        _report_pass(current)

    def _taken_waiters(self) -> list[asyncio.Future[ScrubPass]]:
        """Those that still wait, which from now on do not."""
        waiters, self._waiters = self._waiters, []
        return [each for each in waiters if not each.done()]

    # ---- steps

    async def _check_index(self, current: ScrubPass, position: Position) -> _Done:
        """Some of what the index names; at its end the files come next."""
        now = asyncio.get_running_loop().time
        began = now()
        step = await self._worker.run(lambda: self._walk.step(position, STEP_BYTES))
        took_s = now() - began
        self._report(step.damage)
        if step.index_damage and not current.index_damaged:
            logger.warning("%s; %s", step.index_damage, _INDEX_WAY_OUT)
        for log_id in {each.log_id for each in step.damage}:
            await self._storage.leave_log(log_id)
        if step.damage:
            await self._storage.forget_blocks()
        await self._mark({each.ledger_id for each in step.damage} - {*current.damaged_ledgers})
        return _Done(current.after(step), step.next or FIRST_FILE, step.block_bytes, took_s)

    async def _check_files(self, current: ScrubPass, position: FilePosition) -> _Done:
        """Some of what is in the files."""
        now = asyncio.get_running_loop().time
        files = self._files = await self._listed_files() if self._files is None else self._files
        began = now()
        step = await self._worker.run(lambda: self._file_walk.step(files, position, STEP_BYTES))
        took_s = now() - began
        if step.unindexed:
            current = await self._restore(current, step.unindexed)
        return _Done(current, step.next, step.bytes_read, took_s)

    async def _listed_files(self) -> Sequence[BlockFile]:
        try:
            return await self._storage.block_files()
        except LogStoreError as error:
            logger.warning("the files with blocks are not checked in this pass: %s", error)
            return ()

    # ---- what is found

    async def _restore(self, current: ScrubPass, found: Sequence[UnindexedBlock]) -> ScrubPass:
        try:
            restored = await self._storage.restore_blocks(found)
        except LogStoreError as error:
            logger.warning(
                "entries of %d intact blocks seem to be missing in the index, and cannot be put back now: %s; the "
                "next pass tries again",
                len(found),
                error,
            )
            return current.with_unindexed(len(found), 0)
        for number, each in enumerate(restored, current.restored_blocks):
            if number < _NAMED_MAX:
                logger.warning("%s", await self._worker.run(partial(self._restored, each)))
        return current.with_unindexed(len(restored), len(restored))

    def _restored(self, block: UnindexedBlock) -> str:
        if block.is_unlisted:
            return f"the index had lost {block}, and knows it again"
        path = path_of(self._disk, self._paths, block.log_id)
        return f"the index had lost {block}, which are intact in {path} at offset {block.offset}: reads find them again"

    def _report(self, damage: Iterable[Damage]) -> None:
        """Once what many blocks have in common, as that their file cannot be opened."""
        for each in damage:
            if len(self._named) < _NAMED_MAX and each.reason not in self._named:
                self._named.add(each.reason)
                logger.warning("%s; %s", each.reason, _WAY_OUT)

    async def _mark(self, ledger_ids: Iterable[int]) -> None:
        """Mark the ledgers that name this bookie, however long the metadata store does not answer."""
        for ledger_id in sorted(ledger_ids):
            while True:
                try:
                    await self._marks.mark(LedgerId(ledger_id))
                    break
                except LogStoreError as error:
                    logger.warning("ledger %d is damaged here and cannot be marked now: %s", ledger_id, error)
                    await asyncio.sleep(_RETRY_S)

    # ---- what is remembered

    def _load(self) -> ScrubRecord:
        path = self._paths.scrub_record
        return decode_scrub_record(self._disk.read_file(path)) if self._disk.exists(path) else ScrubRecord()

    async def _save(self) -> None:
        content = encode_scrub_record(self.record)
        try:
            await self._worker.run(lambda: self._disk.replace_file(self._paths.scrub_record, content))
        except LogStoreError as error:
            logger.warning("the scrubber cannot remember where it is: %s", error)

    def _wall_ms(self) -> int:
        return self._environment.wall_us() // 1000


def pause_s(bytes_read: int, took_s: float, *, bytes_per_s: int, busy: bool) -> float:
    """Seconds to wait after a step. `busy`: the journal was written in the meantime."""
    pauses = [0.0, bytes_read / bytes_per_s - took_s]
    if busy:
        pauses.append(min((_BUSY_PART - 1) * took_s, _BUSY_PAUSE_MAX_S))
    return max(pauses)


def _report_pass(done: ScrubPass) -> None:
    if done.unindexed_blocks:
        logger.warning(
            "the index had lost entries of %d intact blocks, and leads to those of %d again; "
            "docs/operations.md#the-scrubber",
            done.unindexed_blocks,
            done.restored_blocks,
        )
    if done.index_damaged:
        logger.warning("blocks that damaged parts of the index named were not checked; %s", _INDEX_WAY_OUT)
    if done.damaged_blocks:
        logger.warning(
            "scrubbed %d blocks, %d bytes: %d blocks of %d ledgers are damaged; ledgers that name this bookie "
            "are marked for repair; %s",
            done.blocks,
            done.block_bytes,
            done.damaged_blocks,
            len(done.damaged_ledgers),
            _WAY_OUT,
        )
    elif not done.index_damaged:
        logger.info("scrubbed %d blocks, %d bytes: nothing is damaged", done.blocks, done.block_bytes)
