"""From the start of a bookie that was killed to its registration, with what it had stored since the last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.full.filling import LARGE, SMALL, fill
from benchmarks.load.ledger_load import ledger_client
from benchmarks.options import MIB, Options
from benchmarks.report import Row
from benchmarks.rows import Runs
from ledger.model import QuorumSizes
from tests.helpers.processes.cluster import running_cluster

_ALONE = QuorumSizes(ensemble=1, write=1, ack=1)
_NEW_BYTES = 32 * MIB
"""Appended before each kill: less than what makes a checkpoint begin."""
_WHOLE = "restart after kill -9"


async def measure(options: Options, runs: Runs) -> None:
    async with running_cluster(options.directory, bookies=1) as cluster, ledger_client(cluster.uri) as client:
        for entry_bytes in (LARGE, SMALL):
            await fill(client, _ALONE, options.stored_bytes // 2, entry_bytes)
        for _ in range(options.rounds):
            await fill(client, _ALONE, _NEW_BYTES, SMALL)
            cluster.bookies[0].kill()
            await cluster.bookies[0].stop()
            began = time.perf_counter()
            await cluster.restart(0)
            runs.add(_WHOLE, _case(options), time.perf_counter() - began)


def rows(options: Options, runs: Runs) -> Iterator[Row]:
    yield runs.row(_WHOLE, _case(options), "s", target=1.0)


def _case(options: Options) -> str:
    return f"a bookie with {options.stored_bytes / 1e9:.3g} GB"
