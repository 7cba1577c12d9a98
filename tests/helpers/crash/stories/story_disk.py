"""A simulated disk on which threads overlap: a job of one worker may run between two effects of another's.

What the event loop does, which is no job, may fall there, too; so may what it does when it hears of a job that has
ended, while the same worker is already busy with the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from bookie_server.disk.disk import DiskWorker, Done, T
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.effects import Effect
from dlog.testing.disk.image import DiskImage, PowerCut
from dlog.testing.disk.timing import DiskTiming
from dlog.testing.disk.worker import SimulatedDiskWorker
from ledger.errors import LogStoreError
from tests.helpers.simulation.disk import QUICK, CountedNotes, streams

_NOTHING, _EVERYTHING = 0.2, 0.1
"""Probability of the images in which no unsynced change, or each of them, has survived."""


class StoryDisk(SimulatedDisk):
    """`loop_effect` is called before each effect of a worker while the loop is not in the middle of anything."""

    def __init__(
        self,
        seed: str,
        timing: DiskTiming,
        concurrency: float,
        image: DiskImage | None = None,
    ) -> None:
        super().__init__(streams(seed), CountedNotes(), "b1", timing=timing, image=image)  # type: ignore[arg-type]
        self.effect_count = 0
        self.on_effect: Callable[[Effect], None] = _ignore
        self.loop_effect: Callable[[], None] = lambda: None
        self.running: list[StoryWorker] = []
        """Workers in the middle of a job, the innermost last."""
        self.loop_is_idle = False
        self._workers: list[StoryWorker] = []
        self._concurrency = concurrency
        self._nesting = Random(f"{seed} nesting")
        self.watch_effects(self._before)

    def worker(self, name: str) -> SimulatedDiskWorker:
        worker = StoryWorker(self, name)
        self._workers.append(worker)
        return worker

    def image(self, choose: Random) -> DiskImage:
        """A legal image of a power cut now."""
        cut, drawn = PowerCut(self._media.root), choose.random()
        if drawn < _NOTHING:
            return cut.nothing()
        if drawn < _NOTHING + _EVERYTHING and cut.count > 2:
            return list(cut.images(2, choose))[1]
        return cut.one(choose)

    def draws_overlap(self) -> bool:
        return self._concurrency > 0.0 and self._nesting.random() < self._concurrency

    def new_life(self) -> None:
        """Another process is about to use the disk."""
        self._workers.clear()
        self.running.clear()
        self.effect_count = 0

    def _before(self, effect: Effect) -> None:
        self.effect_count += 1
        self.on_effect(effect)
        if not self.running:
            return
        if self.loop_is_idle:
            self.loop_is_idle = False
            for worker in self._workers:
                if worker.unheard and self._nesting.random() < 0.5:
                    worker.hear()
            self.loop_effect()
            self.loop_is_idle = True
        if self.draws_overlap():
            waiting = [worker for worker in self._workers if worker.waits]
            if waiting:
                self._nesting.choice(waiting).run_now()


class StoryWorker(SimulatedDiskWorker):
    def __init__(self, disk: StoryDisk, name: str) -> None:
        super().__init__(disk._media.life, disk._media.clock, name)
        self._disk = disk
        self._timer: object = None
        self.unheard: deque[Callable[[], None]] = deque()
        """Jobs that have ended, and the loop does not know yet."""

    @property
    def waits(self) -> bool:
        """A job is due in this worker's thread and has not begun."""
        return self._timer is not None

    def run_now(self) -> None:
        self._timer.cancel()  # type: ignore[attr-defined]
        self._begin()

    def hear(self) -> None:
        """The loop hears of the job that ended first."""
        self.unheard.popleft()()

    def _end(self, job: Any, result: Any, error: LogStoreError | None, cost_s: float) -> None:
        if not self._life.goes_on:
            return
        self._busy = False
        self._go_on()
        self.unheard.append(partial(self._finish, job, result, error, cost_s))
        if self._disk.draws_overlap():
            self._loop.call_later(self._clock.draw(self._clock.timing.sync_s), self._hear_in_time)
        else:
            self._hear_in_time()

    def _hear_in_time(self) -> None:
        if self.unheard and self._life.goes_on:
            self.hear()

    def _go_on(self) -> None:
        if self._jobs and not self._busy:
            self._busy = True
            delay_s = self._clock.draw(self._clock.timing.wake_s)
            self._timer = self._loop.call_later(delay_s, self._begin_idle)

    def _begin_idle(self) -> None:
        """From the loop itself, which does nothing in the meantime."""
        self._disk.loop_is_idle = True
        try:
            self._begin()
        finally:
            self._disk.loop_is_idle = False

    def _begin(self) -> None:
        self._timer = None
        self._disk.running.append(self)
        try:
            super()._begin()
        finally:
            if self in self._disk.running:
                self._disk.running.remove(self)


class BootDisk(SimulatedDisk):
    """For boots, most of whose time would go into waiting for workers: each job runs when it is submitted."""

    def __init__(self, number: int, image: DiskImage) -> None:
        super().__init__(streams(number), CountedNotes(), "b1", timing=QUICK, image=image)

    def worker(self, name: str) -> PromptWorker:  # type: ignore[override]
        return PromptWorker(name)


class PromptWorker(DiskWorker):
    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()

    def submit(self, work: Callable[[], T], done: Done[T], *, brief: bool = False) -> None:
        try:
            result, error = work(), None
        except LogStoreError as failure:
            result, error = None, failure
        self._loop.call_soon(done, result, error)

    async def close(self) -> None:
        """There is never a job left."""


def _ignore(_effect: Effect) -> None:
    """Until an observer is set."""
