"""Background work of the storage: flush and checkpoint, watch the disks, reclaim space.

Invariant: at most one checkpoint at a time, and a job that met a full disk is repeated before a new one begins, so
the log mark never passes what is not stored. Any other error of its work ends the storage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bookie_server.disk.disk import DiskWorker
from bookie_server.disk.disk_limits import DirectoryUsage, DiskLimits
from bookie_server.disk.durable import until_durable
from bookie_server.errors import DiskFullError, LedgerDirectoryFailedError
from bookie_server.journal.writer import Journal
from bookie_server.storage.background.last_look import LastLook
from bookie_server.storage.checkpoint import CheckpointJob
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_reader import EntryReader
from bookie_server.storage.scrub.file_walk import UnindexedBlock
from bookie_server.storage.scrub.restoring import restore_blocks
from bookie_server.storage.segments.log_files import log_ids, path_of
from bookie_server.storage.start.opening import Parts
from ledger.buggify import buggify
from ledger.errors import LogStoreError

CHANGED_STATES_MAX = 128 * 1024
"""Ledgers whose states may differ from the index before a checkpoint begins: 64 MiB with 512 bytes each (measured).
Fences and explicit LACs change them without an entry, also of ledgers that were unknown."""
CREATED_STATES_MAX = 16 * 1024
"""New ledgers before a checkpoint begins. Senders wait for it if they create more of them in its time, which one client
can do without end; the time it takes grows with them."""
_FREEING_S = 0.05
"""Between two looks whether the space of removed files is back: each takes a descriptor until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Callbacks to the storage, always on the event loop."""

    fail: Callable[[Exception], None]
    wake: Callable[[], None]
    writable_changed: Callable[[bool], None]
    directory_failed: Callable[[], None]


class StorageMaintenance:
    def __init__(
        self,
        config: StorageConfig,
        parts: Parts,
        journal: Journal,
        storage_worker: DiskWorker,
        reader: EntryReader,
        callbacks: Callbacks,
        last_look: LastLook,
    ) -> None:
        self._config = config
        self._parts = parts
        self._journal = journal
        self._storage_worker = storage_worker
        self._room_worker = parts.disk.worker("room")
        self._reader = reader
        self._callbacks = callbacks
        self._limits = DiskLimits(config.disk_usage_max, config.disk_usage_writable)
        self._job: CheckpointJob | None = None
        self._jobs_made = 0
        self._jobs_stored = 0
        self._marked = journal.durable
        """The log mark that the last checkpoint left, or what the start has read back."""
        self._running: asyncio.Task[None] | None = None
        self._full: DiskFullError | None = None
        self._journal_full = False
        """Whether the journal has met a full disk since the last checkpoint, so that its reserve is spent."""
        self._making_spare = False
        self._spare_possible = True
        self._closed = False
        self._failed = False
        self._failed_directories = 0
        self._periodic: list[asyncio.Task[None]] = []
        self._removed: dict[int, Callable[[], None]] = {}
        """Log files that have no name any more and that reads may have open; each with what frees its space."""
        self.usages: list[DirectoryUsage] = []
        """As measured last: of the journal directory first, then of the ledger directories that have not failed."""
        self.shortage: DiskFullError | None = None
        """What could not be made when this was tried last."""
        self.has_checkpointed = False
        """Whether a checkpoint of this process has synced the index, and with it what earlier processes left there."""
        self.writable = True
        self.logs_removed = 0
        """Entry logs and journal files that `remove_dead_logs` has removed in this process."""
        self._files_stay = False
        self._removing = asyncio.Lock()
        self._last_look = last_look

    @property
    def held_up(self) -> bool:
        """A full disk keeps the checkpoint from going on."""
        return self._full is not None

    @property
    def is_due(self) -> bool:
        """Whether so much waits in memory that a checkpoint must begin, and senders wait for it."""
        parts = self._parts
        return (
            parts.caches.active.size >= self._config.write_cache_bytes_max
            or parts.states.changed_count >= CHANGED_STATES_MAX
            or parts.states.created_count >= CREATED_STATES_MAX
        )

    @property
    def checkpoints(self) -> int:
        """How many were completed in this process."""
        return self._jobs_stored

    @property
    def overflow(self) -> DiskFullError | None:
        """The error for lack of space while a full disk holds up the checkpoint and the cache may take no more.

        Beyond its size the active half takes what the journal's current file and its spare one have space for. A
        journal that has met the full disk, too, would refuse what the cache has taken; one on a disk of its own would
        take everything, and a start would have to replay it.
        """
        if self._full is None:
            return None
        beyond = 0 if self._journal_full else 2 * self._config.journal_segment_bytes
        size_max = self._config.write_cache_bytes_max + beyond
        return self._full if self._parts.caches.active.size >= size_max else None

    async def start(self) -> None:
        await self.check_disk()
        if self.is_due:
            self.flush()  # what was replayed: requests wait for this checkpoint, and only adds begin another
        loop = asyncio.get_running_loop()
        self._periodic = [
            loop.create_task(self._repeat(self._config.disk_check_interval_s, self.check_disk)),
            loop.create_task(self._repeat(self._config.checkpoint_interval_s, self._checkpoint_now_and_then)),
        ]

    async def _repeat(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_s * (buggify("bookie.early-checkpoint") or 1.0))
            await work()

    def give_up(self) -> None:
        """The storage has failed: start nothing any more.

        After a failed sync the next one may succeed without the lost data, so another checkpoint could move the log
        mark past entries that are stored nowhere.
        """
        self._failed = True

    async def close(self) -> None:
        """Stop everything in the background. The storage takes no more changes; after a failure, what the journal
        was given before may still come back from it."""
        self._closed = True
        for task in self._periodic:
            task.cancel()
        await asyncio.gather(*self._periodic, return_exceptions=True)
        while self._running is not None:
            await self._running
        await self._room_worker.close()
        await self._last_look.close()

    # ---- checkpoints

    def flush(self) -> None:
        """Begin a checkpoint in the background, unless one is under way or the disk is full."""
        if self._running is None and self._full is None and not self._failed:
            self._begin()

    def _begin(self) -> asyncio.Task[None]:
        """Run the job that met a full disk again, or a new one."""
        assert self._running is None, "two runs of one job would end two jobs"
        if self._job is None:
            # One moment on the loop: what is in the frozen half was journaled at or after `durable`, or
            # is still on its way there, so everything before `durable` is in this or an earlier job. `_run` waits
            # until all of it is in the journal.
            deleted, self._parts.deleted = self._parts.deleted, []
            self._job = CheckpointJob(
                self._parts.caches.freeze(), self._parts.states.take_changed(), deleted, self._journal.durable
            )
            self._jobs_made += 1
        elif self._parts.deleted:
            self._job = self._without_deleted(self._job)
        self._running = asyncio.get_running_loop().create_task(self._run(self._job))
        return self._running

    def _without_deleted(self, job: CheckpointJob) -> CheckpointJob:
        """The job without what was deleted since a full disk held it up, and with these deletions."""
        parts = self._parts
        deleted, parts.deleted = parts.deleted, []
        for ledger_id in deleted:
            job.cache.drop(ledger_id)
        states = [*job.states, *parts.states.records(deleted)]
        return replace(job, states=states, deleted=[*job.deleted, *deleted])

    async def _run(self, job: CheckpointJob) -> None:
        try:
            await self._journaled()
            await self._storage_worker.run(partial(self._parts.checkpointer.run_or_delete, job))
        except DiskFullError as full:
            self._full = self.shortage = full
            await self._forget_blocks()
            self._set_writable(self._limits.on_disk_full())
        except LogStoreError as error:
            self._callbacks.fail(error)
        else:
            self._stored(job)
        finally:
            self._running = None
            self._callbacks.wake()
        if self.is_due and self._job is None:
            self.flush()

    async def _forget_blocks(self) -> None:
        try:
            await self._reader.forget_all()
        except LogStoreError as error:  # a reading worker has ended
            self._callbacks.fail(error)

    async def _journaled(self) -> None:
        """Write-ahead rule: what a job stores is durable in the journal before the index may hold it.

        A crash would otherwise leave entries and fences in the index alone: a later boot serves them, and a rebuilt
        index lacks them. What the journal refused on a full disk is stored all the same; no client was answered.
        """
        error = await until_durable(self._journal.barrier)
        if error is not None and not isinstance(error, DiskFullError):
            raise error

    def _stored(self, job: CheckpointJob) -> None:
        self._full, self._job = None, None
        # Not always that of the job: a full disk may have kept it from being stored.
        self._marked = replace(self._parts.checkpointer.mark, generation=job.mark.generation)
        self._journal_full = False
        self._jobs_stored += 1
        self.has_checkpointed = True
        self._parts.caches.flushed()
        self._parts.states.stored()

    async def checkpoint(self, *, in_any_case: bool = False) -> None:
        """Store everything accepted before this call, or fail. DiskFullError if there is no room for it now.

        Nothing is done if nothing is new, unless `in_any_case`; nor once it is closed.
        """
        # A job that was made before this call may lack what was accepted since, and the next one has it. Under load a
        # run begins in the moment in which another ends, so there may be no moment without one.
        made = self._jobs_made
        while self._jobs_stored <= made and not self._failed and not self._closed:
            is_idle = self._running is None and self._job is None
            if is_idle and not in_any_case and not self._anything_new():
                return
            await asyncio.shield(self._running or self._begin())
            if self._full is not None:
                raise self._full.copy()

    def _anything_new(self) -> bool:
        # What a checkpoint took while its sync was under way is stored, but the mark lies before it: another
        # one moves the mark, so that the journal's files go away and a restart has nothing to replay.
        parts = self._parts
        changed = bool(parts.caches.active.ledgers or parts.states.changed_count or parts.deleted)
        # In limbo the mark is before the damage: the next start would find it again.
        before_damage = parts.states.limbo and not self.has_checkpointed
        return changed or self._journal.durable != self._marked or before_damage

    async def _checkpoint_now_and_then(self) -> None:
        if self._full is None and self._anything_new():
            self.flush()

    # ---- room

    def on_journal_progress(self, full: DiskFullError | None) -> None:
        """Have the next journal file ready before it is needed."""
        if self._closed:
            return
        if full is not None:
            self._journal_full = True
            self._on_no_spare(full)
        elif not self._parts.files.has_spare and not self._making_spare and self._spare_possible:
            self._making_spare = True
            self._room_worker.submit(self._parts.files.prepare_spare, self._on_spare)

    def _on_spare(self, _result: None, error: LogStoreError | None) -> None:
        self._making_spare = False
        if isinstance(error, DiskFullError):
            self._on_no_spare(error)
        elif error is not None:
            self._callbacks.fail(error)

    def _on_no_spare(self, full: DiskFullError) -> None:
        self._spare_possible = False
        self.shortage = full
        self._set_writable(self._limits.on_disk_full())

    async def check_disk(self) -> None:
        """Retry what met a full disk, open the index if that has closed it, measure, take the reserves back, and say
        whether adds are welcome."""
        if self._running is not None:
            await asyncio.shield(self._running)
        if self._job is not None and self._running is None and not self._failed:
            await asyncio.shield(self._begin())
        if self._failed:
            return
        try:
            unopened = await self._opened_index()
            self.usages, no_spare = await self._room_worker.run(self._measure)
        except LogStoreError as error:
            self._callbacks.fail(error)
            return
        self._spare_possible = no_spare is None
        self.shortage = self._full or unopened or no_spare
        held = self.shortage is None
        # Entry logs go to whichever ledger directory has space.
        journal, *ledgers = self.usages
        limiting = [journal, min(ledgers, key=lambda each: each.used_part)]
        self._set_writable(self._limits.on_measured(limiting, reserves_held=held))
        if (failed := len(self._parts.directories.failed)) > self._failed_directories:
            self._failed_directories = failed
            self._callbacks.directory_failed()

    async def _opened_index(self) -> DiskFullError | None:
        """Open the index again where a full disk, or a limit of open files, has left it closed; why it still is.

        Not only the checkpoint's own tries open it: with nothing to store there is none, and reads need it.
        """
        if self._parts.index.is_open:
            return None
        try:
            await self._storage_worker.run(self._parts.index.ensure_open, self._on_error)
        except DiskFullError as full:
            return full
        return None

    def _measure(self) -> tuple[list[DirectoryUsage], DiskFullError | None]:
        shortage: DiskFullError | None = None
        try:
            self._parts.files.prepare_spare()
            self._parts.reserve.take()
        except DiskFullError as full:
            shortage = full
        journal = self._parts.paths.journal
        of_journal = DirectoryUsage.measure(self._parts.disk, journal)
        return [of_journal, *self._parts.directories.usages()], shortage

    def _set_writable(self, writable: bool) -> None:
        if writable != self.writable:
            self.writable = writable
            self._callbacks.writable_changed(writable)

    # ---- space

    def keep_files(self, on: bool) -> None:
        """On: no file with blocks is removed until it is off again."""
        self._files_stay = on

    async def remove_dead_logs(self) -> int:
        """Delete closed entry logs and journal files in which no ledger lives, unless they stay; how many.

        What the index had lost in them is found again, and they stay. LogStoreError.
        """
        async with self._removing:
            if self._all_files_stay():
                return 0
            before = self.logs_removed
            for log_id in await self._storage_worker.run(self._dead_logs, self._on_error):
                if not await self._space_is_back():
                    break
                if await self._last_look.keeps_nothing(log_id) and not self._all_files_stay():
                    remove = partial(self._remove_log, log_id)
                    removed = await self._storage_worker.run(remove, self._on_error)
                    self.logs_removed += removed
                await self._free_removed()
            return self.logs_removed - before

    async def _space_is_back(self) -> bool:
        """Wait until most space of removed files is; False if all files stay."""
        while not self._all_files_stay():
            if not self._parts.disk.frees_much:
                return True
            await asyncio.sleep(_FREEING_S)
        return False

    async def _free_removed(self) -> None:
        removed = list(self._removed)
        if removed:
            await self._reader.forget_logs(removed)
        for log_id in removed:
            if (free := self._removed.pop(log_id, None)) is not None:
                free()

    def _all_files_stay(self) -> bool:
        return self._failed or self._closed or self._files_stay

    def _dead_logs(self) -> list[int]:
        # In the storage worker, so between two checkpoints: what the index says now is durable.
        parts = self._parts
        closed = [each for each in log_ids(parts.disk, parts.paths) if each < parts.writer.end.log_id]
        closed += parts.checkpointer.segments_before_mark()
        dead = [each for each in closed if not parts.index.has_live_ledger(each)]
        # From a directory that has failed nothing is removed: to read such a file each time would be in vain.
        return [each for each in dead if not self._is_in_failed(path_of(parts.disk, parts.paths, each))]

    def _is_in_failed(self, path: Path) -> bool:
        return self._parts.directories.has_failed(path.parent)

    def _remove_log(self, log_id: int) -> bool:
        """False: it is in use again, since a scrubber has put back what it has found there; or is removed already."""
        parts = self._parts
        path = path_of(parts.disk, parts.paths, log_id)
        if self._is_in_failed(path):
            return False
        if parts.index.has_live_ledger(log_id) or not parts.disk.exists(path):
            return False
        with suppress(DiskFullError):  # what it does not know to be removed, a rebuilt index only doubts
            parts.state_log.forget_logs([log_id])
        with suppress(LedgerDirectoryFailedError), parts.directories.may_fail(path.parent):
            self._removed[log_id] = parts.disk.remove_large(path)
        return log_id in self._removed

    async def clear_limbo(self) -> None:
        """Durably forget that part of the journal was lost."""
        await self._storage_worker.run(self._parts.checkpointer.end_limbo, self._on_error)
        self._parts.states.set_limbo(False)

    async def restore_blocks(self, found: Sequence[UnindexedBlock]) -> list[UnindexedBlock]:
        """What the scrubber has found, after a checkpoint; what was put into the index, durably."""
        return await self._storage_worker.run(partial(restore_blocks, self._parts, found), self._on_error)

    def _on_error(self, error: LogStoreError) -> None:
        """Of other work than checkpoints; also called when its caller has been cancelled."""
        if not isinstance(error, DiskFullError):
            self._callbacks.fail(error)
