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
from typing import Any

import uvloop

from benchmarks.histogram import Summary
from benchmarks.usage import cpu_s, resident_bytes
from dlog.client import LogClient
from dlog.read.reader import Reader
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError
from ledger.metadata.drivers import open_store

PER_WRITER_S = 0.5
_AT_ONCE = 100
_SETTLE_S = 3.0


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
    latencies: list[float] = []
    failures = 0

    async def append(writer: LogWriter, first_s: float) -> None:
        nonlocal failures
        await asyncio.sleep(first_s)
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            due = time.perf_counter() + PER_WRITER_S
            started = time.perf_counter()
            try:
                await writer.append(b"x" * 100)
            except LogStoreError:
                failures += 1
                return
            latencies.append(time.perf_counter() - started)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    began, used = time.perf_counter(), cpu_s(os.getpid())
    await asyncio.gather(
        *(append(writer, PER_WRITER_S * number / count) for number, writer in enumerate(opened))
    )
    passed = time.perf_counter() - began
    summary = Summary.of(latencies or [0.0])
    return {
        "opened_s": opened_s,
        "appends_per_s": len(latencies) / passed,
        "p50_ms": summary.p50 * 1e3,
        "p99_ms": summary.p99 * 1e3,
        "cores": (cpu_s(os.getpid()) - used) / passed,
        "failures": failures,
    }


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
