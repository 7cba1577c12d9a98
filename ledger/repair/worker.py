"""The replication worker: takes marked ledgers, one lock at a time, until none is left; then waits for more.

It never gives up on a ledger: one that cannot be repaired now is tried again after a pause that grows, and at once when
bookies come or go.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

from ledger.client import LedgerClient
from ledger.errors import LogStoreError
from ledger.model import LedgerId
from ledger.repair.config import RepairConfig
from ledger.repair.locked_repair import LockedRepair
from ledger.repair.outcome import sentence
from ledger.repair.progress import WorkerProgress
from ledger.tasks import start_task

_TASKS_MAX = 256
"""Ledgers in hand, most of which wait for the writers of open ones; more stay marked until there is room."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pause:
    until: float
    length_s: float


class Worker:
    """Runs until it is cancelled. Any number may run in a cluster, Apache's among them."""

    def __init__(
        self,
        ledgers: LedgerClient,
        config: RepairConfig,
        name: str,
        progress: WorkerProgress | None = None,
    ) -> None:
        """`name`: in the locks, for display. `progress`: where it is noted what it does."""
        self._progress = progress or WorkerProgress()
        self._ledgers = ledgers
        self._config = config
        self._locked = LockedRepair(ledgers, config, name, progress=self._progress.copies)
        self._woken = asyncio.Event()
        self._pauses: dict[LedgerId, _Pause] = {}
        self._tasks: dict[LedgerId, asyncio.Task[None]] = {}

    async def run(self) -> None:
        store = self._ledgers.store
        unwatch = [
            store.repair.watch_marks(self._woken.set),
            store.repair.watch_switches(self._woken.set),
            store.watch_bookies(self._bookies_changed),
        ]
        try:
            while True:
                self._woken.clear()
                try:
                    await self._pass()
                except LogStoreError as error:
                    _log.warning("the worker cannot read the marks, and will try again: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._config.poll_s):
                        await self._woken.wait()
        finally:
            for each in unwatch:
                each()
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._locked.close()

    def _bookies_changed(self) -> None:
        """What could not be repaired may be possible now, and a bookie that is back may have made it needless."""
        for pause in self._pauses.values():
            pause.until = 0.0
        self._woken.set()

    async def _pass(self) -> None:
        """Begin with every marked ledger whose pause is over."""
        await self._locked.release_again()
        if not await self._ledgers.store.repair.enabled():
            return
        marked: set[LedgerId] = set()
        now = asyncio.get_running_loop().time
        async for mark in self._ledgers.store.repair.marks():
            ledger_id = mark.ledger_id
            marked.add(ledger_id)
            pause = self._pauses.get(ledger_id)
            if ledger_id in self._tasks or (pause is not None and now() < pause.until):
                continue
            while len(self._tasks) >= _TASKS_MAX:
                await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            self._begin(ledger_id)
        for ledger_id in self._pauses.keys() - marked:
            del self._pauses[ledger_id]  # another worker has repaired it
            self._locked.forget(ledger_id)
        self._progress.waiting = len(self._pauses)

    def _begin(self, ledger_id: LedgerId) -> None:
        task = start_task(self._repair(ledger_id))
        self._tasks[ledger_id] = task
        task.add_done_callback(lambda _: self._ended(ledger_id))

    def _ended(self, ledger_id: LedgerId) -> None:
        task = self._tasks.pop(ledger_id)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the repair of ledger %s failed", ledger_id, exc_info=error)
            self._pause(ledger_id)

    async def _repair(self, ledger_id: LedgerId) -> None:
        try:
            outcome = await self._locked.of_mark(ledger_id)
        except LogStoreError as error:
            _log.warning("ledger %s is not repaired, and will be tried again: %s", ledger_id, error)
            self._pause(ledger_id)
            return
        if outcome is None:
            return
        if outcome.complete:
            self._progress.ledgers += 1
            self._pauses.pop(ledger_id, None)
        else:
            self._pause(ledger_id)
        _log.info("%s", sentence(outcome))

    def _pause(self, ledger_id: LedgerId) -> None:
        before = self._pauses.get(ledger_id)
        length_s = self._config.retry_first_s if before is None else 2 * before.length_s
        length_s = min(length_s, self._config.retry_max_s)
        self._pauses[ledger_id] = _Pause(asyncio.get_running_loop().time() + length_s, length_s)
