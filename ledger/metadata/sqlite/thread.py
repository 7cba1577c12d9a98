"""The one seam between the event loop and SQLite: a long-lived thread per file and process.

Nothing else of the driver knows threads. Any loop may ask; answers and watches come back to it by
`call_soon_threadsafe`, one call for all that became ready together. A simulator replaces SqliteThread by
something that calls the engine on its own loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
)
from ledger.metadata.sqlite.engine import Kind, SqliteEngine, Work
from ledger.metadata.sqlite.watches import Watcher

_BATCH_MAX = 64
"""Requests taken from the queue at once, so that one commit serves many and none waits too long."""


@dataclass(eq=False, slots=True)
class Request(Work):
    """Work that somebody on `loop` waits for."""

    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None


class SqliteThread:
    """Serves one file. `handles` counts who uses it (store.py)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._process_id = os.getpid()
        self._engine = SqliteEngine(path)
        self._queue: SimpleQueue[Request] = SimpleQueue()
        self._batch: list[Request] = []
        self._stopping = False
        self._dead: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name=f"metadata {path}", daemon=True)
        self._thread.start()

    async def ask(self, kind: Kind, job: Callable[[Any], Any]) -> Any:
        """Run `job` in the thread and return its answer. One cancelled before its turn is not run."""
        return await self._submit(kind, job)

    def _submit(self, kind: Kind, job: Callable[[Any], Any]) -> asyncio.Future[Any]:
        self._check_usable()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.put(Request(kind, job, loop=loop, future=future))
        if self._dead is not None:  # since the check: it may have given up all requests before this one came
            self._give_up(self._dead)
        return future

    def tell(self, job: Callable[[SqliteEngine], Any]) -> None:
        """Run a CALL job whose answer nobody waits for; nothing when the thread has died."""
        if self._dead is None:
            self._check_usable()
            self._queue.put(Request(Kind.CALL, job))

    async def stop(self) -> None:
        """Returns when the file is closed; a thread that has died is stopped already. Stops it also if cancelled."""
        if self._dead is None:
            # A request that is cancelled before its turn is not run, and the thread would keep the file open.
            await asyncio.shield(self._submit(Kind.CALL, self._stop))

    def _check_usable(self) -> None:
        if os.getpid() != self._process_id:
            raise ConfigurationError(
                f"{self._path} was opened before this process was forked: open it again in the child"
            )
        if self._dead is not None:
            raise self._died(self._dead)

    def _died(self, cause: BaseException, *, is_change: bool = False) -> LogStoreError:
        """`is_change`: the request may have changed something."""
        died = f"the thread of {self._path} has died: {cause!r}"
        return (
            MetadataOutcomeUnknownError(f"{died}; read what became of the change")
            if is_change
            else MetadataUnavailableError(died)
        )

    # ---- in the thread

    def _main(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            # A bug of ours. Nobody may hang on it: fail who waits, refuse who comes, and let it be seen.
            self._dead = error
            self._give_up(error)
            raise
        finally:
            self._engine.close()  # here, since only this thread may; locks of a dead one would stop other processes

    def _serve(self) -> None:
        polled_s = time.monotonic()
        while not self._stopping:
            interval_s = self._engine.watches.interval_s
            wait_s = None if interval_s is None else max(0.0, polled_s + interval_s - time.monotonic())
            self._batch = self._take(wait_s)
            fired = self._engine.run(self._batch)
            if interval_s is not None and time.monotonic() >= polled_s + interval_s:
                fired += self._engine.poll()
                polled_s = time.monotonic()
            _deliver(self._batch, fired)

    def _take(self, wait_s: float | None) -> list[Request]:
        """Everything that waits, up to a limit; nothing when `wait_s` has passed."""
        batch: list[Request] = []
        with contextlib.suppress(Empty):
            batch.append(self._queue.get(timeout=wait_s))
            while len(batch) < _BATCH_MAX:
                batch.append(self._queue.get_nowait())
        return [request for request in batch if request.future is None or not request.future.cancelled()]

    def _stop(self, engine: SqliteEngine) -> None:
        engine.close()
        self._stopping = True

    def _give_up(self, cause: BaseException) -> None:
        """Fail all that wait. Also on the loop, once the thread has died."""
        begun, self._batch = self._batch, []
        for request in begun:
            request.error = self._died(cause, is_change=request.kind in (Kind.WRITE, Kind.CREATE))
        waiting: list[Request] = []
        with contextlib.suppress(Empty):
            while True:
                waiting.append(self._queue.get_nowait())
        for request in waiting:
            request.error = self._died(cause)
        _deliver([*begun, *waiting], [])


class SqliteThreads:
    """The threads that handles share: one per file, as long as anybody uses it."""

    def __init__(self) -> None:
        self._threads: dict[tuple[int, str], tuple[SqliteThread, int]] = {}
        self._lock = threading.Lock()

    def acquire(self, path: str) -> SqliteThread:
        key = os.getpid(), path  # a forked child must not find its parent's thread
        with self._lock:
            thread, handles = self._threads.get(key) or (SqliteThread(path), 0)
            self._threads[key] = thread, handles + 1
        return thread

    async def release(self, path: str, thread: SqliteThread) -> None:
        """Give the thread back; returns when the last handle's file is closed."""
        key = os.getpid(), path
        with self._lock:
            # A forked child has none under this key; its parent's thread refuses to be stopped there.
            _, handles = self._threads.pop(key, (thread, 1))
            if handles > 1:
                self._threads[key] = thread, handles - 1
                return
        await thread.stop()

    def renew_lock(self) -> None:
        """In a forked child: the thread that held the lock at that moment is not there to release it."""
        self._lock = threading.Lock()


process_threads = SqliteThreads()
os.register_at_fork(after_in_child=process_threads.renew_lock)


def _deliver(requests: Iterable[Request], fired: Iterable[Watcher]) -> None:
    by_loop: defaultdict[asyncio.AbstractEventLoop, tuple[list[Request], list[Watcher]]]
    by_loop = defaultdict(lambda: ([], []))
    for request in requests:
        if request.loop is not None:
            by_loop[request.loop][0].append(request)
    for watcher in fired:
        by_loop[watcher.loop][1].append(watcher)
    for loop, (answered, hit) in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens there any more
            loop.call_soon_threadsafe(_arrive, loop, answered, hit)


def _arrive(loop: asyncio.AbstractEventLoop, answered: Iterable[Request], hit: Iterable[Watcher]) -> None:
    """On the event loop: hand out what the thread has finished."""
    for request in answered:
        assert request.future is not None
        if request.future.done():
            continue  # cancelled meanwhile; what was done stays done
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)
    for watcher in hit:
        if watcher.active:
            loop.call_soon(watcher.watch, context=watcher.context)
