"""The twin of a disk worker: no thread, but jobs that begin late and end later, on the running loop's clock.

A job runs at one instant, some time after it was handed over; what its calls cost passes before `done` is called
and before the next job begins. So jobs of several workers and the loop interleave job by job, in an order that
the seed decides, while within a job a crash can still fall between any two effects. With `DiskTiming.prompt` a job may
also run within `submit`: what the loop queues in two steps can then fall into two jobs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bookie_server.disk.disk import DiskWorker, Done, T
from bookie_server.errors import DiskFailedError, StorageClosedError
from dlog.testing.disk.effects import SimulatedCrash
from dlog.testing.disk.life import Life
from dlog.testing.disk.timing import DiskClock
from ledger.errors import LogStoreError

_BRIEF_S_MAX = 0.0005
"""As in system_disk.py: after a brief job that took longer, the next one does not run on the loop."""
_STALL_S, _STALL_SHARE = 0.005, 1000
"""As there: after one that took longer than this, none does for so many times as long."""


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], Any]
    done: Callable[[Any, LogStoreError | None], None]
    brief: bool


class SimulatedDiskWorker(DiskWorker):
    """After the end of its disk's life nothing runs any more and no `done` is called."""

    def __init__(self, life: Life, clock: DiskClock, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._life = life
        self._clock = clock
        self._name = name
        self._jobs: deque[_Job] = deque()
        self._under_way = 0
        self._busy = False
        self._closed = False
        self._brief: _Job | None = None
        self._brief_s = _BRIEF_S_MAX + 1.0
        self._in_thread_until = 0.0

    def submit(self, work: Callable[[], T], done: Done[T], *, brief: bool = False) -> None:
        if self._closed:
            raise StorageClosedError(f"disk worker {self._name} has stopped")
        self._life.require()
        job = _Job(work, done, brief)
        idle = self._under_way == 0
        self._under_way += 1
        if brief and idle and self._brief_s <= _BRIEF_S_MAX and self._loop.time() >= self._in_thread_until:
            self._brief = job
            self._loop.call_soon(self._run_brief)
        else:
            self._hand_over_brief()
            self._jobs.append(job)
            if not self._busy and self._clock.is_prompt():
                self._busy = True
                self._begin()
            else:
                self._go_on()

    async def close(self) -> None:
        if not self._closed:
            ended: asyncio.Future[None] = self._loop.create_future()
            self.submit(lambda: None, lambda _result, _error: ended.set_result(None))
            self._closed = True
            await ended

    # ---- on the loop

    def _run_brief(self) -> None:
        job, self._brief = self._brief, None
        if job is not None and self._life.goes_on:
            self._carry_out(job, self._finish)

    def _hand_over_brief(self) -> None:
        """What waits for the end of this iteration comes before what is submitted now."""
        job, self._brief = self._brief, None
        if job is not None:
            self._jobs.append(job)
            self._go_on()

    # ---- as the thread

    def _go_on(self) -> None:
        if self._jobs and not self._busy:
            self._busy = True
            self._loop.call_later(self._clock.draw(self._clock.timing.wake_s), self._begin)

    def _begin(self) -> None:
        if self._life.goes_on:
            self._carry_out(self._jobs.popleft(), self._finish_later)

    def _finish_later(self, job: _Job, result: Any, error: LogStoreError | None, cost_s: float) -> None:
        self._loop.call_later(cost_s, self._end, job, result, error, cost_s)

    def _end(self, job: _Job, result: Any, error: LogStoreError | None, cost_s: float) -> None:
        if self._life.goes_on:
            self._busy = False
            self._go_on()
            self._finish(job, result, error, cost_s)

    def _finish(self, job: _Job, result: Any, error: LogStoreError | None, _cost_s: float) -> None:
        self._under_way -= 1
        job.done(result, error)

    def _carry_out(
        self, job: _Job, deliver: Callable[[_Job, Any, LogStoreError | None, float], object]
    ) -> None:
        result = None
        # If the work has a bug, its exception comes out loudly and the waiter gets this error.
        error: LogStoreError | None = DiskFailedError(f"disk worker {self._name} broke down")
        self._clock.take()  # time that others spent on the loop is not this job's
        try:
            result, error = job.work(), None
        except LogStoreError as failure:
            error = failure
        except SimulatedCrash:
            # The thread ends with its machine: no caller hears of this job again.
            assert not self._life.goes_on
        finally:
            cost_s = self._clock.take()
            if job.brief:
                self._brief_s = cost_s
                if cost_s > _STALL_S:
                    self._in_thread_until = self._loop.time() + cost_s + _STALL_SHARE * cost_s
            if self._life.goes_on:
                deliver(job, result, error, cost_s)
