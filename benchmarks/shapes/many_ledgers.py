"""One bookie with very many ledgers, of which a part stays open and gets entries in turns."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.load.ledger_load import ledger_client
from benchmarks.options import MIB, Options
from benchmarks.report import Row
from benchmarks.rows import Runs
from benchmarks.usage import resident_bytes
from ledger.client import LedgerClient
from ledger.config import Visibility
from ledger.model import LedgerId, QuorumSizes
from ledger.writing.write_handle import WriteHandle
from tests.helpers.processes.cluster import Cluster, running_cluster
from tests.helpers.repository import ROOT

_ALONE = QuorumSizes(ensemble=1, write=1, ack=1)
_PAYLOAD = bytes(100)
_ENTRIES = 3
"""Of each ledger when it is made."""
_AT_ONCE = 256
_ROUNDS = 5
_SETTINGS = "gc_interval_s = 1.0\ngc_grace_s = 1.0\n"
_GONE_S = 300.0
_MEMORY_MIB_MAX = 300.0
_RESTART_S_MAX = 1.0


async def measure(options: Options, runs: Runs) -> None:
    ledgers, still_open = options.bookie_ledgers, options.open_ledgers
    case = f"{ledgers:,} ledgers on a bookie"
    config = options.directory / "shapes-benchmark.toml"
    config.write_text(_SETTINGS, "utf-8")
    try:
        async with running_cluster(options.directory, bookies=1, extra=("--config", str(config))) as cluster:
            async with ledger_client(cluster.uri) as client:
                closed = await _closed_ledgers(client, ledgers - still_open)
                handles = await _open_ledgers(client, still_open)
                await _append(runs, case, handles)
                bookie = cluster.bookies[0]
                runs.add(case, "memory of the bookie", resident_bytes(bookie.pid) / MIB)
                for handle in handles:
                    await handle.close()
            began = time.perf_counter()
            listed = await _ledgers_with_blocks(cluster)
            runs.add(case, "`bookie space --ledgers` while it serves", time.perf_counter() - began)
            assert listed <= ledgers
            bookie.kill()
            await bookie.stop()
            began = time.perf_counter()
            await cluster.restart(0, extra=("--config", str(config)))
            runs.add(case, "restart after kill -9", time.perf_counter() - began)
            async with ledger_client(cluster.uri) as client:
                await _collect(runs, case, cluster, client, closed, still_open)
    finally:
        config.unlink()


def rows(options: Options, runs: Runs) -> Iterator[Row]:
    case = f"{options.bookie_ledgers:,} ledgers on a bookie"
    yield runs.row(case, _appends_to(options.open_ledgers), "appends/s")
    yield runs.row(case, "memory of the bookie", "MiB", target=_MEMORY_MIB_MAX)
    yield runs.row(case, "`bookie space --ledgers` while it serves", "s")
    yield runs.row(case, "restart after kill -9", "s", target=_RESTART_S_MAX)
    yield runs.row(case, "all but the open ones deleted, until the bookie has deleted them", "s")
    yield runs.row(case, "memory after that", "MiB")


def _appends_to(count: int) -> str:
    return f"{count:,} open ones, an append in flight to each"


async def _closed_ledgers(client: LedgerClient, count: int) -> list[LedgerId]:
    async def one() -> LedgerId:
        async with limit:
            handle = await _filled(client)
            await handle.close()
            return handle.ledger_id

    limit = asyncio.Semaphore(_AT_ONCE)
    return await asyncio.gather(*(one() for _ in range(count)))


async def _open_ledgers(client: LedgerClient, count: int) -> list[WriteHandle]:
    async def one() -> WriteHandle:
        async with limit:
            return await _filled(client)

    limit = asyncio.Semaphore(_AT_ONCE)
    return await asyncio.gather(*(one() for _ in range(count)))


async def _filled(client: LedgerClient) -> WriteHandle:
    handle = await client.create(_ALONE, visibility=Visibility.FAST)
    for _ in range(_ENTRIES):
        handle.submit(_PAYLOAD)
    await handle.drain()
    return handle


async def _append(runs: Runs, case: str, handles: Sequence[WriteHandle]) -> None:
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        for handle in handles:
            handle.submit(_PAYLOAD)
        for handle in handles:
            await handle.drain()
        runs.add(case, _appends_to(len(handles)), len(handles) / (time.perf_counter() - began))


async def _collect(
    runs: Runs, case: str, cluster: Cluster, client: LedgerClient, closed: Sequence[LedgerId], still_open: int
) -> None:
    async def delete(ledger_id: LedgerId) -> None:
        async with limit:
            await client.delete(ledger_id)

    limit = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(*(delete(each) for each in closed))
    began = time.perf_counter()
    while await _ledgers_with_blocks(cluster) > still_open:
        assert time.perf_counter() - began < _GONE_S, "the deleted ledgers are still there"
        await asyncio.sleep(0.2)
    took_s = time.perf_counter() - began
    runs.add(case, "all but the open ones deleted, until the bookie has deleted them", took_s)
    runs.add(case, "memory after that", resident_bytes(cluster.bookies[0].pid) / MIB)


async def _ledgers_with_blocks(cluster: Cluster) -> int:
    """As an operator learns it from the running bookie."""
    command = ("-m", "bookie_server", "space", "--ledgers", "-o", "json")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command, "--data", str(_data(cluster))),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return len(json.loads(printed))


def _data(cluster: Cluster) -> Path:
    return cluster.bookie_directory(0)
