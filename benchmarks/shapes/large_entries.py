"""Entries as large as they may be, appended and read back."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.load.ledger_load import QUORUM, ledger_client
from benchmarks.options import MIB, Options
from benchmarks.report import Row
from benchmarks.rows import Runs
from benchmarks.usage import peak_resident_bytes
from ledger.config import Visibility
from tests.helpers.processes.cluster import running_cluster

_ENTRY_BYTES = 5_000_000
_IN_FLIGHT = 4
_CASE = "entries of 5 MB"


async def measure(options: Options, runs: Runs) -> None:
    count = max(_IN_FLIGHT, options.read_bytes // _ENTRY_BYTES)
    for _ in range(options.rounds):
        async with running_cluster(options.directory) as cluster, ledger_client(cluster.uri) as client:
            handle = await client.create(QUORUM, visibility=Visibility.FAST)
            payload = bytes(_ENTRY_BYTES)
            began = time.perf_counter()
            for _ in range(count):
                await handle.wait_for_capacity(_IN_FLIGHT * _ENTRY_BYTES)
                handle.submit(payload)
            await handle.drain()
            runs.add(_CASE, "append", count * _ENTRY_BYTES / (time.perf_counter() - began) / 1e6)
            await handle.close()
            reader = await client.open(handle.ledger_id)
            began = time.perf_counter()
            for entry_id in range(count):
                await reader.read(entry_id, entry_id)
            runs.add(_CASE, "read", count * _ENTRY_BYTES / (time.perf_counter() - began) / 1e6)
            await reader.close()
            peak = max(peak_resident_bytes(bookie.pid) for bookie in cluster.bookies)
            runs.add(_CASE, "memory of a bookie, at most", peak / MIB)


def rows(options: Options, runs: Runs) -> Iterator[Row]:
    yield runs.row(_CASE, "append", "MB/s")
    yield runs.row(_CASE, "read", "MB/s")
    yield runs.row(_CASE, "memory of a bookie, at most", "MiB")
