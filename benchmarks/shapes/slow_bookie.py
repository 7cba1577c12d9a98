"""One of three bookies hangs most of the time: its adds must neither hold up the others nor pile up in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from benchmarks.load.ledger_load import QUORUM, WindowedLoad, ledger_client
from benchmarks.options import MIB, Options
from benchmarks.report import Row
from benchmarks.rows import Runs
from benchmarks.usage import Stopwatch, resident_bytes
from ledger.client import LedgerClient
from ledger.config import Visibility
from tests.helpers.processes.cluster import Cluster, running_cluster
from tests.helpers.processes.python import Child

_ENTRY_BYTES = 1024
_WINDOW = 2000
_HANGS_S, _SERVES_S = 0.20, 0.05
_CASE = "1 KiB entries, window 2,000"
_ALL, _SLOW = "three bookies", "one of three hangs four fifths of the time"


async def measure(options: Options, runs: Runs) -> None:
    for _ in range(options.rounds):
        async with running_cluster(options.directory) as cluster, ledger_client(cluster.uri) as client:
            runs.add(_CASE, _ALL, await _rate(client, cluster, options))
            async with _hanging(cluster.bookies[0]):
                runs.add(_CASE, _SLOW, await _rate(client, cluster, options))
                largest = max(resident_bytes(bookie.pid) for bookie in cluster.bookies)
                runs.add(f"{_CASE}, memory of a bookie", _SLOW, largest / MIB)


def rows(options: Options, runs: Runs) -> Iterator[Row]:
    yield runs.row(_CASE, _ALL, "entries/s")
    yield runs.row(_CASE, _SLOW, "entries/s", floor=runs.median(_CASE, _ALL))
    yield runs.row(f"{_CASE}, memory of a bookie", _SLOW, "MiB")


async def _rate(client: LedgerClient, cluster: Cluster, options: Options) -> float:
    load = WindowedLoad(bytes(_ENTRY_BYTES), _WINDOW)
    handle = await client.create(QUORUM, visibility=Visibility.FAST, listener=load)
    load.on_progress(handle, handle.done_through)
    await asyncio.sleep(options.warm_up_s)
    before, stopwatch = handle.done_through, Stopwatch([bookie.pid for bookie in cluster.bookies])
    await asyncio.sleep(2 * options.seconds)
    found = stopwatch.stop(handle.done_through - before)
    load.stop()
    if load.error is not None:
        raise load.error
    await handle.drain()
    await handle.close()
    return found.entries_per_s


@asynccontextmanager
async def _hanging(bookie: Child) -> AsyncIterator[None]:
    async def hang() -> None:
        while True:
            bookie.pause()
            await asyncio.sleep(_HANGS_S)
            bookie.resume()
            await asyncio.sleep(_SERVES_S)

    task = asyncio.create_task(hang())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        bookie.resume()
