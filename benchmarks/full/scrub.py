"""How fast a scrubber reads, and what appends lose to the scrubbers of all their bookies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.full.filling import LARGE, SMALL, fill
from benchmarks.load.ledger_load import QUORUM, ledger_client, measure_throughput
from benchmarks.machine import drop_from_memory
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.rows import Runs
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.scrub.record import decode_scrub_record
from ledger.client import LedgerClient
from ledger.config import Visibility
from tests.helpers.processes.cluster import Cluster, running_cluster
from tests.helpers.repository import ROOT

_ENTRY_BYTES = 1024
_WINDOW = 2000
_IDLE, _BUSY = "a scrubber of an idle bookie", "1 KiB entries, window 2,000, three bookies"
_ALONE, _SCRUBBED = "alone", "while all three scrub"
_LOSS_MAX = 0.05


async def measure(options: Options, runs: Runs) -> None:
    async with running_cluster(options.directory) as cluster, ledger_client(cluster.uri) as client:
        for entry_bytes in (LARGE, SMALL):
            await fill(client, QUORUM, options.scrubbed_bytes // 2, entry_bytes)
        for number, bookie in enumerate(list(cluster.bookies)):
            await bookie.stop()  # with a checkpoint
            await cluster.restart(number)
        directories = [cluster.bookie_directory(number) for number in range(len(cluster.bookies))]
        drop_from_memory(cluster.directory)
        runs.add(_IDLE, _ALONE, await _scrubbed_rate(directories[0]))
        await _append(options, runs, _ALONE, client, cluster)
        passes = [asyncio.create_task(_scrub(each)) for each in directories]
        await asyncio.sleep(options.warm_up_s)
        await _append(options, runs, _SCRUBBED, client, cluster)
        if any(each.done() for each in passes):
            raise RuntimeError("a scrubber had nothing left to read during the appends: give it more bytes")
    await asyncio.wait(passes)  # which ended with the bookies


def rows(options: Options, runs: Runs) -> Iterator[Row]:
    yield runs.row(_IDLE, _ALONE, "MB/s", target=200.0)
    alone = runs.median(_BUSY, _ALONE)
    yield runs.row(_BUSY, _ALONE, "entries/s")
    yield runs.row(_BUSY, _SCRUBBED, "entries/s", floor=alone, target=(1 - _LOSS_MAX) * alone)


async def _append(
    options: Options, runs: Runs, contender: str, client: LedgerClient, cluster: Cluster
) -> None:
    for _ in range(options.rounds):
        found = await measure_throughput(
            client,
            [bookie.pid for bookie in cluster.bookies],
            entry_bytes=_ENTRY_BYTES,
            window=_WINDOW,
            visibility=Visibility.FAST,
            warm_up_s=options.warm_up_s,
            seconds=options.seconds,
        )
        runs.add(_BUSY, contender, found.entries_per_s)


async def _scrubbed_rate(bookie: Path) -> float:
    """MB of blocks a second, over a whole pass."""
    if errors := await _scrub(bookie):
        raise RuntimeError(f"the scrubber of {bookie} made no pass: {errors}")
    found = decode_scrub_record(SystemDisk().read_file(bookie / "ledgers" / "scrub-record")).last
    assert found is not None and found.ended_ms is not None
    return found.block_bytes / max(1, found.ended_ms - found.began_ms) / 1e3


async def _scrub(bookie: Path) -> str:
    """Have the bookie's scrubber make a pass; until that is complete, or the bookie has ended. What went wrong."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bookie_server", "scrub", "--data", str(bookie)),
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    return errors.decode(errors="replace") if process.returncode else ""
