"""A process of its own for what is measured of a whole process: its memory, processor time and store reads.

    python -m benchmarks.load.client_process URI WHAT COUNT SECONDS

Prints `127.0.0.1:0 is ready`, then one line of JSON at its end. WHAT:

    writers  COUNT logs open for writing, two appends a second to each
    tails    COUNT logs tailed, none of which gets a message
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvloop

from benchmarks.histogram import Summary
from benchmarks.usage import cpu_s, resident_bytes
from dlog.client import LogClient
from dlog.model import MessageId
from dlog.read.reader import Reader
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError
from ledger.metadata.drivers import open_store

PER_WRITER_S = 0.5
WARM_UP_S = 2.0
_AT_ONCE = 100
_SETTLE_S = 3.0
_TICK_S = 0.001
_PER_TURN_MAX = 100
"""Appends submitted before answers are received, if the process is late."""


class CountedStore:
    """Counts the requests to a metadata store, by name."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.requests: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def ask(*args: Any, **options: Any) -> Any:
            self.requests[name] += 1
            return await found(*args, **options)

        return ask


async def _each(count: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Some at the same time."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> None:
        async with limit:
            await work(number)

    await asyncio.gather(*(one(number) for number in range(count)))


async def writers(client: LogClient, count: int, seconds: float) -> dict[str, object]:
    opened: list[LogWriter] = []

    async def open_one(number: int) -> None:
        opened.append(await client.open_writer(f"open-{number}", create=True))

    started = time.perf_counter()
    await _each(count, open_one)
    opened_s = time.perf_counter() - started
    gc.collect()
    gc.freeze()  # as docs/performance.md advises: a collection looks at every object of every writer
    print("127.0.0.1:0 is ready", flush=True)
    await _offered(opened, WARM_UP_S)
    load = await _offered(opened, seconds)
    summary = Summary.of(load.latencies or [0.0])
    return {
        "opened_s": opened_s,
        "appends_per_s": load.in_time / load.seconds,
        "p50_ms": summary.p50 * 1e3,
        "p99_ms": summary.p99 * 1e3,
        "cores": load.cpu_s / load.seconds,
        "failures": load.failures,
    }


@dataclass(slots=True)
class _Load:
    latencies: list[float] = field(default_factory=list)
    """Seconds from when an append was due, since it may be submitted late."""
    failures: int = 0
    seconds: float = 0.0
    """From the first submission to the last; longer than it should be if the process cannot keep up."""
    in_time: int = 0
    """Acknowledged by then."""
    cpu_s: float = 0.0


async def _offered(writers: list[LogWriter], seconds: float) -> _Load:
    """Two appends a second to each of the writers in turn, whatever became of those before.

    One task for all of them: a task and a timer for each would measure these.
    """
    load = _Load()
    in_flight: set[asyncio.Future[MessageId]] = set()
    began, used, pause_s = time.perf_counter(), cpu_s(os.getpid()), PER_WRITER_S / len(writers)

    def on_done(future: asyncio.Future[MessageId], due: float) -> None:
        in_flight.remove(future)
        if isinstance(future.exception(), LogStoreError):
            load.failures += 1
        else:
            load.latencies.append(time.perf_counter() - due)

    count = round(seconds / pause_s)
    for number in range(count):
        due = began + number * pause_s
        if (early_s := due - time.perf_counter()) > 0:
            await asyncio.sleep(max(early_s, _TICK_S))
        try:
            future = await writers[number % len(writers)].submit(b"x" * 100)
        except LogStoreError:
            load.failures += 1
            continue
        in_flight.add(future)
        future.add_done_callback(partial(on_done, due=due))
        if number % _PER_TURN_MAX == 0:
            await asyncio.sleep(0)
    load.seconds, load.in_time = time.perf_counter() - began, len(load.latencies)
    load.cpu_s = cpu_s(os.getpid()) - used
    if in_flight:
        await asyncio.wait(in_flight)
    return load


async def tails(client: LogClient, count: int, seconds: float) -> dict[str, object]:
    readers: list[Reader] = []
    waiting: list[asyncio.Task[Any]] = []

    async def open_one(number: int) -> None:
        reader = client.tail(f"open-{number}")
        readers.append(reader)
        await reader.open()
        waiting.append(asyncio.create_task(anext(aiter(reader))))

    store: Any = client.ledgers.store
    await _each(count, open_one)
    print("127.0.0.1:0 is ready", flush=True)
    await asyncio.sleep(min(_SETTLE_S, seconds))
    requests, used, began = store.requests.total(), cpu_s(os.getpid()), time.perf_counter()
    await asyncio.sleep(seconds)
    passed = time.perf_counter() - began
    found: dict[str, object] = {
        "cores": (cpu_s(os.getpid()) - used) / passed,
        "store_requests_per_s": (store.requests.total() - requests) / passed,
    }
    for task in waiting:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*waiting)
    for reader in readers:
        await reader.close()
    return found


async def main(uri: str, what: str, count: int, seconds: float) -> None:
    store: Any = CountedStore(await open_store(uri))
    async with LogClient(store) as client:
        await client.start()
        before = resident_bytes(os.getpid())
        found = await {"writers": writers, "tails": tails}[what](client, count, seconds)
        found["bytes"] = resident_bytes(os.getpid()) - before
        print(json.dumps(found), flush=True)
        for writer in client.writers:
            writer.abort()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
