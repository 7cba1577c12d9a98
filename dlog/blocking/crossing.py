"""The queue by which appends of blocking callers cross to the loop, in runs.

Invariant: calls of one thread keep their order, whichever method they use, because all of them go through one queue.
What waits to cross counts against the writer's buffer: a call waits while both together hold `buffer_bytes_max`.
Half of what is left of `unacknowledged_bytes_max` is divided among all writers, so what crosses exceeds that limit by
half of it at most. While nothing is left, one call of each writer waits to cross, so that it has its turn on the loop.

Invariant: an interrupted call is in the queue or it is not, and the next call wakes the loop if the interrupted one
has not. For this the loop counts the wakes it has served, and a caller notes the wake it has asked for only after
asking: the worst effect of an interrupt is one wake too many.

Invariant: the handler of a signal may use the writer in whose call it has interrupted the thread. So the lock is
reentrant, what it guards is right when it is entered again at any function call, and the loop, for which the handler
may wait, never takes it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from dlog.blocking.deadline import Deadline
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.pending import Board, Pending
from dlog.core.batching import Headers
from dlog.errors import AppendAbortedError, QueueFullError
from dlog.format.message import Buffer
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError

_CALLS_MAX = 5_000
"""Calls that have not crossed: some milliseconds of work for the loop."""
_CALL_BYTES = 300
"""What a call and its result occupy in addition to the payload."""
_RUN = 100
"""Calls that cross before their bytes are counted as the writer's."""
_RUNS_A_TURN = 10
"""Runs that cross before the loop does other work, which a thread that submits without a pause must not delay."""

Message = tuple[Buffer | None, Buffer | None, Headers]
Call = Callable[[], Coroutine[Any, Any, "asyncio.Future[Any]"]]


class Crossing:
    """One writer's queue. `put` may be called from any thread; the rest happens on the loop."""

    def __init__(self, thread: LoopThread, board: Board, writer: LogWriter) -> None:
        self._thread = thread
        self._board = board
        self._writer = writer
        self._calls: deque[tuple[Pending[Any], Message | None, Call | None, int]] = deque()
        self._lock = threading.RLock()
        self._refusal: LogStoreError | None = None
        self._ended = False
        """The loop ends: what is queued from now on would not cross."""
        self._asked = self._served = 0
        self._task: asyncio.Task[None] | None = None
        self._bytes_put = self._bytes_crossed = 0
        self._free_bytes = writer.free_bytes
        """What may wait to cross as of the loop's last count.

        What crossed since is not yet in `_bytes_crossed`, so every byte is counted at least once.
        """

    # ---- callers' threads

    def check_caller(self) -> None:
        """Refuse a call that could not wait for its outcome, before `put`: the error says that nothing was appended.

        Raises:
            ConfigurationError: this is the loop's own thread, or the program is ending.
        """
        self._thread.check_caller()

    def put(
        self,
        message: Message | None,
        call: Call | None,
        size: int,
        deadline: Deadline | None = None,
        *,
        before: Callable[[], None] | None = None,
    ) -> Pending[Any]:
        """Queue the call after all others, waiting only for capacity.

        `before` is called when nothing waits any more, and no call is queued between it and this one, except by the
        handler of a signal.

        Raises:
            QueueFullError: there was none until the deadline; the call is not queued.
            WriterDeposedError, AppendAbortedError: the writer has ended; the call is not queued.
        """
        pending: Pending[Any] = Pending(self._board)
        if len(self._calls) >= _CALLS_MAX or self._bytes_put - self._bytes_crossed >= self._free_bytes:
            self._wait_for_capacity(deadline)
        if not self._thread.usable:
            raise self._thread.refusal()
        with self._lock:
            refusal = self._writer.refusal or self._refusal
            if refusal is not None:
                raise refusal.copy()
            if before is not None:
                before()
            self._append(message, call, size + _CALL_BYTES, pending)
        return pending

    def _wait_for_capacity(self, deadline: Deadline | None) -> None:
        if not self._board.wait_until(self._has_capacity, deadline):
            assert deadline is not None
            raise self._full_error(deadline.timeout_s or 0.0)

    def _full_error(self, waited_s: float) -> QueueFullError:
        error = self._writer.full_error(waited_s)
        if error.queued_bytes >= error.queued_bytes_max:
            return error
        # The writer has accepted less than it may: the rest is what has not crossed yet.
        waiting, crossing_bytes = len(self._calls), self._bytes_put - self._bytes_crossed
        return QueueFullError(
            f"the writer of log {self._writer.log} had no capacity for {waited_s:g} s: {waiting} appends of "
            f"{crossing_bytes} bytes wait for the client's thread, and {error.queued_bytes} bytes are unacknowledged; "
            "wait for appends to succeed, or raise buffer_bytes_max or unacknowledged_bytes_max",
            queued_bytes=error.queued_bytes + crossing_bytes,
            queued_bytes_max=error.queued_bytes_max,
        )

    def put_mark(self, call: Call) -> Pending[Any]:
        """Have the loop call this after everything queued, even if nothing new is accepted."""
        self._thread.check()
        pending: Pending[Any] = Pending(self._board)
        with self._lock:
            self._append(None, call, 0, pending)
            self._ask()  # an interrupted call may have queued something without waking the loop
        return pending

    def _append(self, message: Message | None, call: Call | None, size: int, pending: Pending[Any]) -> None:
        self._bytes_put += size
        queued = (pending, message, call, size)
        self._calls.append(queued)
        if self._asked <= self._served:
            self._ask()
        if self._ended:
            with suppress(ValueError):  # queued before the loop ended: it has failed it
                self._calls.remove(queued)
                raise self._closed_error()

    def refuse(self, error: LogStoreError) -> None:
        """Accept no more calls, with this error as the reason."""
        with self._lock:
            if self._refusal is None:
                self._refusal = error

    @property
    def refusal(self) -> LogStoreError | None:
        """The error that `put` would raise now; None while calls are accepted."""
        refusal = self._writer.refusal or self._refusal
        return None if refusal is None else refusal.copy()

    @property
    def empty(self) -> bool:
        """Whether everything has crossed."""
        return not self._calls and self._task is None

    def _ask(self) -> None:
        # Neither is counted before it is done: an interrupt in between makes the next call ask again.
        asked = self._served + 1
        self._thread.post(self._start)
        self._asked = asked

    def _has_capacity(self) -> bool:
        crossing_bytes = self._bytes_put - self._bytes_crossed
        free = crossing_bytes < self._writer.free_bytes
        return (free and len(self._calls) < _CALLS_MAX // 2) or self._refusal is not None

    # ---- the loop

    async def drain(self) -> None:
        """Return once everything has crossed, or has been refused."""
        while not self.empty:
            self._start()
            if self._task is not None:
                await asyncio.wait((self._task,))

    def _start(self) -> None:
        if self._task is None:
            self._task = self._thread.loop.create_task(self._cross_all())

    async def _cross_all(self) -> None:
        """One call after the other, so that order holds where one waits for capacity."""
        runs = 0
        try:
            while True:
                while self._calls:
                    await self._cross_run()
                    runs += 1
                    if runs % _RUNS_A_TURN == 0:
                        await asyncio.sleep(0)
                self._served += 1  # a call that comes from now on asks again
                if not self._calls:
                    return
        except asyncio.CancelledError:
            self._refuse_the_rest()
            raise
        finally:
            self._task = None
            self._board.changed()

    async def _cross_run(self) -> None:
        crossed = 0
        for _ in range(min(_RUN, len(self._calls))):
            pending, message, call, size = self._calls.popleft()
            crossed += size
            try:
                if message is None:
                    assert call is not None
                    future = await call()
                else:
                    try:
                        future = self._writer.submit_nowait(*message)
                    except QueueFullError:
                        self._count(crossed - size)
                        crossed = size
                        future = await self._writer.submit(*message)
            except asyncio.CancelledError:
                pending.fail(self._closed_error())
                raise
            except Exception as error:  # noqa: BLE001 - the caller that waits for the outcome gets it
                pending.fail(error)
            else:
                future.add_done_callback(pending.settle)
        self._count(crossed)

    def _count(self, size: int) -> None:
        self._free_bytes = self._writer.free_bytes
        self._bytes_crossed += size
        self._board.changed()

    def _refuse_the_rest(self) -> None:
        """The loop ends; a caller in another thread must not wait indefinitely."""
        self._refusal = self._refusal or self._closed_error()
        self._ended = True  # before the queue is emptied: a caller looks at it after it has queued
        with suppress(IndexError):  # it is empty, perhaps because a caller has taken its call back
            while True:
                self._calls.popleft()[0].fail(self._closed_error())

    def _closed_error(self) -> AppendAbortedError:
        return AppendAbortedError(
            f"the client was closed before this append to log {self._writer.log} was sent",
            log=self._writer.log,
        )
