"""Appends to one ledger as fast as a window allows, and one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from benchmarks.usage import Stopwatch, Throughput
from ledger.client import LedgerClient
from ledger.config import Visibility
from ledger.errors import LogStoreError
from ledger.metadata.drivers import open_store
from ledger.model import EntryId, QuorumSizes
from ledger.writing.write_handle import WriteHandle

QUORUM = QuorumSizes(ensemble=3, write=3, ack=2)


@asynccontextmanager
async def ledger_client(uri: str) -> AsyncIterator[LedgerClient]:
    """A client of the cluster at `uri`, closed with its store at the end."""
    store = await open_store(uri)
    client = LedgerClient(store)
    try:
        await client.start()
        yield client
    finally:
        await client.close()
        await store.close()


class WindowedLoad:
    """Keeps `window` entries in flight: tops up from within the call that brought the acks.

    So a run of acks becomes a run of adds, and nothing is made per entry.
    """

    def __init__(self, payload: bytes, window: int) -> None:
        self._payload = payload
        self._window = window
        self._running = True
        self.error: LogStoreError | None = None

    def on_progress(self, handle: WriteHandle, done_through: EntryId) -> None:
        if self._running:
            submit, payload = handle.submit, self._payload
            for _ in range(done_through + self._window - handle.last_add_pushed):
                submit(payload)

    def on_failure(self, handle: WriteHandle, error: LogStoreError) -> None:
        self.error = error

    def stop(self) -> None:
        self._running = False


async def measure_throughput(
    client: LedgerClient,
    bookie_pids: Sequence[int],
    *,
    entry_bytes: int,
    window: int,
    visibility: Visibility,
    warm_up_s: float,
    seconds: float,
) -> Throughput:
    """Append to a fresh ledger for so long; the ledger is deleted afterwards."""
    load = WindowedLoad(bytes(entry_bytes), window)
    handle = await client.create(QUORUM, visibility=visibility, listener=load)
    load.on_progress(handle, handle.done_through)
    await asyncio.sleep(warm_up_s)
    before, stopwatch = handle.done_through, Stopwatch(bookie_pids)
    await asyncio.sleep(seconds)
    found = stopwatch.stop(handle.done_through - before)
    load.stop()
    if load.error is not None:
        raise load.error
    await handle.drain()
    await handle.close()
    await client.delete(handle.ledger_id)
    return found


async def measure_latencies(client: LedgerClient, *, entry_bytes: int, count: int) -> list[float]:
    """Seconds of every append when the next one waits for it."""
    handle = await client.create(QUORUM, visibility=Visibility.FAST)
    payload = bytes(entry_bytes)
    for _ in range(20):  # connections are made at the first add
        await handle.add(payload)
    latencies = []
    for _ in range(count):
        started = time.perf_counter()
        await handle.add(payload)
        latencies.append(time.perf_counter() - started)
    await handle.close()
    await client.delete(handle.ledger_id)
    return latencies
