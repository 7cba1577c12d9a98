"""Compaction while a bookie serves: run after run, at a limited rate, until no file has enough garbage.

Pieces of it are jobs of the storage worker, so a checkpoint waits for one piece at the most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bookie_server.disk.disk_limits import DirectoryUsage
from bookie_server.errors import DiskFullError, LedgerDirectoryFailedError
from bookie_server.storage.background.jobs import StorageJobs
from bookie_server.storage.background.pace import Pace
from bookie_server.storage.compaction.run import CompactionRun
from bookie_server.storage.compaction.selection import select
from bookie_server.storage.compaction.space import FileSpace, measure
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.damage_reports import WAY_OUT
from bookie_server.storage.start.opening import Parts

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Compacted:
    """What one compaction did."""

    files_removed: int = 0
    """While it ran, those that garbage collection removed at the same time included."""
    copied_bytes: int = 0
    refusal: str = ""
    """Why files with enough garbage stay, if they do."""


class Compactor:
    """Compactions run one after the other."""

    def __init__(
        self,
        config: StorageConfig,
        parts: Parts,
        jobs: StorageJobs,
        pace: Pace,
        lock: asyncio.Lock,
        remove_dead_logs: Callable[[], Awaitable[int]],
        logs_removed: Callable[[], int],
    ) -> None:
        """`lock` is held while files may move. `logs_removed`: how many files this process has removed so far."""
        self._config = config
        self._parts = parts
        self._jobs = jobs
        self._pace = pace
        self._lock = lock
        self._remove_dead_logs = remove_dead_logs
        self._logs_removed = logs_removed
        self._damaged: set[int] = set()
        """Files with blocks that cannot be copied: not tried again by this process."""
        self.runs = 0
        """That were completed in this process."""
        self.copied_bytes = 0
        """By all of them."""

    async def compact(self, threshold: float, *, nearly_full: bool) -> Compacted:
        """Copy what lives in files with a smaller live part than this, and remove them.

        While a journal disk of its own is nearly full, what lives in any journal file is copied, too.
        With `nearly_full` all free space may be used, and the reserve. Never raises for a full disk; any other error of
        a write ends the storage.

        Raises:
            LogStoreError: the index cannot be read, or a write failed.
        """
        async with self._lock:
            done, removed_before = Compacted(), self._logs_removed()
            await self._remove_dead_logs()
            try:
                while await self._run_somewhere(threshold, nearly_full, done):
                    pass
            except DiskFullError as full:
                done.refusal = f"compaction stopped, and everything stays readable: {full}"
            done.files_removed = self._logs_removed() - removed_before
            return done

    async def _run_somewhere(self, threshold: float, nearly_full: bool, done: Compacted) -> bool:
        """As `_run`; another one is worth while if a ledger directory has failed, and the rest can take its place."""
        try:
            return await self._run(threshold, nearly_full, done)
        except LedgerDirectoryFailedError:
            return True

    async def _run(self, threshold: float, nearly_full: bool, done: Compacted) -> bool:
        """One run; whether another one is worth while."""
        run = await self._jobs.run(partial(self._begin, threshold, nearly_full, done))
        if run is None:
            return False
        try:
            while (written := await self._jobs.run(run.copy)) is not None:
                await self._pace.after(written)
            moved = await self._jobs.run(run.finish)
        finally:
            # Also when this task was cancelled: what is to be removed is removed in the worker, by and by.
            self._jobs.submit(run.abandon)
            self._note_damage(run)
        removed = await self._remove_dead_logs()
        done.copied_bytes += run.copied_bytes
        self.copied_bytes += run.copied_bytes
        self.runs += 1
        return moved > 0 or removed > 0

    def _begin(self, threshold: float, nearly_full: bool, done: Compacted) -> CompactionRun | None:
        parts, config = self._parts, self._config
        if parts.checkpointer.has_placed:
            done.refusal = "compaction waits for a checkpoint that a full disk holds up"
            return None
        files = self._measure()
        directory = parts.directories.for_new_log()
        with parts.directories.may_fail(directory):
            ledgers = DirectoryUsage.measure(parts.disk, directory)
        journal = DirectoryUsage.measure(parts.disk, parts.paths.journal)
        empty_journal = self._fills_up(journal, ledgers)
        reserve = parts.reserve.held_bytes if directory == parts.paths.entry_logs else 0
        capacity = (
            ledgers.free_bytes + reserve
            if nearly_full and not empty_journal
            else ledgers.free_bytes - int(ledgers.total_bytes * (1 - config.disk_usage_max))
        )
        # What no ledger lives in stays only for a reason, and there is nothing to copy.
        current = parts.writer.end.log_id
        healthy = [
            each
            for each in files
            if each.log_id not in self._damaged and (each.ledgers or each.log_id == current)
        ]
        selection = select(
            healthy, threshold, config.entry_log_bytes_max, capacity, empty_journal=empty_journal
        )
        done.refusal = (
            "" if selection.unfit is None else _refusal(selection.unfit, capacity, directory.parent)
        )
        if not selection.files:
            return None
        return CompactionRun(
            parts, selection.files, directory, config.block_bytes_max, config.entry_log_bytes_max
        )

    def _fills_up(self, journal: DirectoryUsage, ledgers: DirectoryUsage) -> bool:
        """Whether the journal is on a disk of its own that is nearly full, and the entry logs have space.

        Entries that are written once fill such a disk although nothing is garbage, and only a compaction moves them.
        On one disk both directories have the same usage.
        """
        return ledgers.used_part < self._config.disk_usage_writable <= journal.used_part

    async def space(self) -> list[FileSpace]:
        """What is live in each file now. LogStoreError."""
        return await self._jobs.run(self._measure)

    def _measure(self) -> list[FileSpace]:
        parts = self._parts
        return measure(parts.disk, parts.paths, parts.index, parts.checkpointer.mark.file_id)

    def _note_damage(self, run: CompactionRun) -> None:
        for log_id, error in run.damaged.items():
            if log_id not in self._damaged:
                self._damaged.add(log_id)
                logger.warning("compaction leaves a file as it is: %s; %s", error, WAY_OUT)


def _refusal(file: FileSpace, capacity: int, directory: Path) -> str:
    return (
        f"compaction needs {file.live_bytes} bytes to copy what lives in {file.path}, and may use "
        f"{max(0, capacity)} in {directory}: free space on the disk of this ledger directory, or trim or delete logs"
    )
