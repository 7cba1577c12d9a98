"""A bookie is lost for good: how fast its copies are made again, and what that costs appends.

Two bookies hold the same entries, a third is empty. One of the two loses its disk, and `bookie autorecovery` copies
what it had from the other one to the third. The floor of the rate is that of the disk, in synced pieces; that of the
appends is what bare servers that only sync need at the same time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.full.filling import LARGE, SMALL, fill
from benchmarks.load.ledger_load import ledger_client
from benchmarks.load.paced_p99 import CASE, FLOOR, appends_p99, floor_p99
from benchmarks.options import MIB, Options
from benchmarks.report import Row
from benchmarks.rows import Runs
from dlog.client import LogClient, connect
from dlog.config import LogConfig
from ledger.client import LedgerClient
from ledger.model import BookieId, QuorumSizes
from tests.helpers.processes.cluster import running_cluster
from tests.helpers.processes.python import start_python

_TWO = QuorumSizes(ensemble=2, write=2, ack=2)
_POLL_S = 0.2
_REPAIR_S_MAX = 1800.0
_COPIED = "copies made again after the loss of a bookie"
_DISK = "the disk"
_BEFORE, _DURING = "before", "while copies are made"
_RISE_MAX = 2.0


async def measure(options: Options, runs: Runs) -> None:
    runs.add(_COPIED, _DISK, _disk_rate(options.directory, options.read_bytes))
    async with running_cluster(options.directory, bookies=2) as cluster, ledger_client(cluster.uri) as client:
        for entry_bytes in (LARGE, SMALL):
            await fill(client, _TWO, options.lost_bytes // 2, entry_bytes)
        await cluster.add_bookie()
        lost = BookieId(f"{cluster.bookies[0].host}:{cluster.bookies[0].port}")
        cluster.bookies[0].kill()
        await cluster.bookies[0].stop()
        shutil.rmtree(cluster.bookie_directory(0))
        async with connect(cluster.uri, config=LogConfig(quorum=_TWO)) as logs:
            await _appends(options, runs, _BEFORE, logs)
            began = time.monotonic()
            worker = await start_python(
                ["-m", "bookie_server", "autorecovery", "--metadata", cluster.uri, "--lost-bookie-delay", "0"]
            )
            try:
                repaired = asyncio.create_task(_repaired(client, lost))
                while not repaired.done():
                    await _appends(options, runs, _DURING, logs)
                runs.add(_COPIED, _case(options), options.lost_bytes / (await repaired - began) / 1e6)
            finally:
                await worker.stop()


def rows(options: Options, runs: Runs) -> Iterator[Row]:
    yield runs.row(_COPIED, _DISK, "MB/s")
    yield runs.row(_COPIED, _case(options), "MB/s", floor=runs.median(_COPIED, _DISK))
    before = runs.median(CASE, _BEFORE)
    yield runs.row(CASE, _BEFORE, "ms", floor=runs.median(FLOOR, _BEFORE))
    yield runs.row(CASE, _DURING, "ms", floor=runs.median(FLOOR, _DURING), target=_RISE_MAX * before)


def _case(options: Options) -> str:
    return f"{options.lost_bytes / 1e9:.3g} GB"


async def _appends(options: Options, runs: Runs, contender: str, logs: LogClient) -> None:
    """Appends, then their floor."""
    seconds = 4 * options.seconds
    runs.add(CASE, contender, await appends_p99(logs, seconds))
    runs.add(FLOOR, contender, await floor_p99(options.directory, seconds))


async def _repaired(client: LedgerClient, lost: BookieId) -> float:
    """When no ledger names the bookie any more."""
    waiting = [each async for each in client.store.ledger_ids()]
    async with asyncio.timeout(_REPAIR_S_MAX):
        while waiting:
            if lost in (await client.store.read_ledger(waiting[-1])).value.members():
                await asyncio.sleep(_POLL_S)
            else:
                waiting.pop()
    return time.monotonic()


def _disk_rate(directory: Path, size: int) -> float:
    """MB/s of a file that grows by synced pieces of a MiB, as entry logs do."""
    path, piece = directory / "rate.probe", os.urandom(MIB)
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        began = time.perf_counter()
        for number in range(size // MIB):
            os.pwrite(descriptor, piece, number * MIB)
            os.fdatasync(descriptor)
        return size / (time.perf_counter() - began) / 1e6
    finally:
        os.close(descriptor)
        path.unlink()
