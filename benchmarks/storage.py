"""What does it cost, and what does it save, that a bookie writes entries once?

Bookies that write every entry twice (the journal, then an entry log sorted by ledger) and bookies that let runs of a
size stay in the journal take turns: appends by size of entry, bytes written for each byte appended, many interleaved
ledgers, reads of them from a cold disk in sequence and at random, also after half of them were deleted and a
compaction has copied the others, and the restart of a killed bookie. The floor of each case is the kind that writes
twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.histogram import Summary
from benchmarks.load import ledger_load
from benchmarks.load.ledger_load import QUORUM, ledger_client
from benchmarks.machine import drop_from_memory, settle_disk
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from bookie_server.storage.config import StorageConfig
from bookie_server.tools.space import compact, ledger_rows
from ledger.client import LedgerClient
from ledger.config import Visibility
from ledger.errors import UnavailableError
from ledger.model import LedgerId
from tests.helpers.processes.cluster import Cluster, running_cluster

_KIB = 1024
_KINDS = {"twice": 0, "once from 64 KiB": 64 * _KIB, "once from 16 KiB": 16 * _KIB, "once": 1}
_WINDOWS = {_KIB: 2000, 10 * _KIB: 500, 64 * _KIB: 100}
_LEDGERS = 100
_BURST = 16
"""Entries of one ledger that are in flight while all ledgers are written in turns."""
_COLD_READS = 300
_PIECE_BYTES = 1024 * _KIB
_READ = 10
"""Ledgers that are read in sequence."""
_COMPACTED_BELOW = 0.8
_DELETION_S = 60.0
"""A bookie that has not found deletions by then has not collected garbage."""


async def run(options: Options) -> Report:
    runs = Runs()
    for _ in range(options.rounds):
        for kind, bytes_min in _KINDS.items():
            await _round(options, kind, bytes_min, runs)
    report = Report("storage", "What does it cost, and what does it save, to write entries once?")
    for case, unit in _CASES.items():
        for kind in _KINDS:
            report.add(runs.row(case, kind, unit, floor=runs.median(case, "twice")))
    return report


_WRITTEN = "bytes written per byte appended"
_INTERLEAVED = f"{_LEDGERS} interleaved ledgers, 1 KiB entries"
_WARM, _COLD, _RANDOM = "read in sequence, warm", "read in sequence, cold", "read at random, cold, p50"
_COMPACTED = "half deleted, compacted"
_RESTART = "restart after kill -9"
_CASES = {
    **{f"{size} B entries, window {window}": "entries/s" for size, window in _WINDOWS.items()},
    **{f"{size} B entries, a server": "µs/entry" for size in _WINDOWS},
    **{f"{size} B entries, {_WRITTEN}": "bytes" for size in _WINDOWS},
    _INTERLEAVED: "entries/s",
    f"{_INTERLEAVED}, {_WRITTEN}": "bytes",
    f"{_INTERLEAVED}, {_WARM}": "MB/s",
    f"{_INTERLEAVED}, {_COLD}": "MB/s",
    f"{_INTERLEAVED}, {_RANDOM}": "ms",
    f"{_INTERLEAVED}, {_COMPACTED}, copied per live byte": "bytes",
    f"{_INTERLEAVED}, {_COMPACTED}, {_COLD}": "MB/s",
    f"{_INTERLEAVED}, {_COMPACTED}, {_RANDOM}": "ms",
    _RESTART: "s",
}


async def _round(options: Options, kind: str, bytes_min: int, runs: Runs) -> None:
    settle_disk()
    config = options.directory / "storage-benchmark.toml"
    config.write_text(
        f"gc_interval_s = 5\ngc_grace_s = 0\n[storage]\nsingle_write_bytes_min = {bytes_min}\n"
        "minor_compaction_interval_s = 0\n",
        "utf-8",
    )
    extra = ("--config", str(config))
    try:
        async with running_cluster(options.directory, extra=extra) as cluster:
            async with ledger_client(cluster.uri) as client:
                for size in _WINDOWS:
                    await _appends(options, client, cluster, kind, size, runs)
                ledger_ids = await _write_interleaved(client, cluster, kind, options.read_bytes, runs)
                rate = await _read_all(client, ledger_ids[:_READ])
                runs.add(f"{_INTERLEAVED}, {_WARM}", kind, rate)
            await _restart(cluster, kind, extra, runs)
            async with ledger_client(cluster.uri) as client:
                await _read_cold(client, cluster, ledger_ids, kind, _INTERLEAVED, runs)
                await _delete(client, cluster, ledger_ids[1::2])
                copied = await _compact(cluster)
                case, left = f"{_INTERLEAVED}, {_COMPACTED}", ledger_ids[::2]
                live = len(left) * options.read_bytes / _LEDGERS
                runs.add(f"{case}, copied per live byte", kind, copied / live)
                await _read_cold(client, cluster, left, kind, case, runs)
    finally:
        config.unlink()


async def _appends(
    options: Options, client: LedgerClient, cluster: Cluster, kind: str, size: int, runs: Runs
) -> None:
    before = _written(cluster)
    acknowledged = time.perf_counter()
    found = await ledger_load.measure_throughput(
        client,
        [bookie.pid for bookie in cluster.bookies],
        entry_bytes=size,
        window=_WINDOWS[size],
        visibility=Visibility.FAST,
        warm_up_s=options.warm_up_s,
        seconds=options.seconds,
    )
    took_s = time.perf_counter() - acknowledged
    appended = found.entries_per_s * took_s * size
    runs.add(f"{size} B entries, window {_WINDOWS[size]}", kind, found.entries_per_s)
    runs.add(f"{size} B entries, a server", kind, found.server_us)
    runs.add(f"{size} B entries, {_WRITTEN}", kind, (_written(cluster) - before) / 3 / appended)


async def _write_interleaved(
    client: LedgerClient, cluster: Cluster, kind: str, size: int, runs: Runs
) -> list[LedgerId]:
    """Every ledger gets a few entries in its turn."""
    before, payload = _written(cluster), bytes(_KIB)
    handles = [await client.create(QUORUM, visibility=Visibility.FAST) for _ in range(_LEDGERS)]
    began, count = time.perf_counter(), 0
    while count * _KIB < size:
        for handle in handles:
            await handle.wait_for_capacity(_BURST * _KIB)
            for _ in range(_BURST):
                handle.submit(payload)
        count += _BURST * _LEDGERS
    for handle in handles:
        await handle.drain()
    took_s = time.perf_counter() - began
    for handle in handles:
        await handle.close()
    runs.add(_INTERLEAVED, kind, count / took_s)
    runs.add(f"{_INTERLEAVED}, {_WRITTEN}", kind, (_written(cluster) - before) / 3 / (count * _KIB))
    return [handle.ledger_id for handle in handles]


async def _read_cold(
    client: LedgerClient, cluster: Cluster, ledger_ids: Sequence[LedgerId], kind: str, case: str, runs: Runs
) -> None:
    drop_from_memory(cluster.directory)
    runs.add(f"{case}, {_COLD}", kind, await _read_all(client, ledger_ids[:_READ]))
    drop_from_memory(cluster.directory)
    latencies = await _read_random(client, ledger_ids[_READ:])
    runs.add(f"{case}, {_RANDOM}", kind, Summary.of(latencies).p50 * 1e3)


async def _delete(client: LedgerClient, cluster: Cluster, ledger_ids: Sequence[LedgerId]) -> None:
    """Return once no bookie has these ledgers any more."""
    for ledger_id in ledger_ids:
        await client.delete(ledger_id)
    deleted, give_up_at = set(map(int, ledger_ids)), time.monotonic() + _DELETION_S
    for storage in _storages(cluster):
        while deleted & {row["ledger"] for row in await asyncio.to_thread(ledger_rows, storage)}:
            if time.monotonic() > give_up_at:
                raise UnavailableError(f"a bookie has not deleted ledgers within {_DELETION_S:g} s")
            await asyncio.sleep(0.5)


async def _compact(cluster: Cluster) -> float:
    """Bytes that an average bookie has copied."""
    rows = [(await asyncio.to_thread(compact, each, _COMPACTED_BELOW))[0] for each in _storages(cluster)]
    return sum(int(str(row["copied_bytes"])) for row in rows) / len(rows)


def _storages(cluster: Cluster) -> list[StorageConfig]:
    """Where the files of each bookie are."""
    homes = [cluster.bookie_directory(number) for number in range(len(cluster.bookies))]
    return [
        StorageConfig(journal_directory=home / "journal", ledger_directory=home / "ledgers") for home in homes
    ]


async def _read_all(client: LedgerClient, ledger_ids: Sequence[LedgerId]) -> float:
    """Megabytes of payload a second."""
    began, count = time.perf_counter(), 0
    for ledger_id in ledger_ids:
        handle = await client.open(ledger_id)
        at = 0
        while at <= handle.last_readable:
            at += len(await handle.read_batch(at, max_entries=_PIECE_BYTES, max_bytes=_PIECE_BYTES))
        await handle.close()
        count += at
    return count * _KIB / (time.perf_counter() - began) / 1e6


async def _read_random(client: LedgerClient, ledger_ids: Sequence[LedgerId]) -> list[float]:
    chance, latencies = random.Random(1), list[float]()
    handles = [await client.open(ledger_id) for ledger_id in ledger_ids[:30]]
    for _ in range(_COLD_READS):
        handle = chance.choice(handles)
        at = chance.randrange(handle.last_readable + 1)
        began = time.perf_counter()
        await handle.read(at, at)
        latencies.append(time.perf_counter() - began)
    for handle in handles:
        await handle.close()
    return latencies


async def _restart(cluster: Cluster, kind: str, extra: Sequence[str], runs: Runs) -> None:
    """All bookies are killed; how long one start takes until it serves."""
    for number, bookie in enumerate(list(cluster.bookies)):
        bookie.kill()
        await bookie.stop()
        began = time.perf_counter()
        await cluster.restart(number, extra=extra)
        runs.add(_RESTART, kind, time.perf_counter() - began)


# ---- the disk


def _written(cluster: Cluster) -> int:
    """Bytes that the bookies have sent to the disk, or will."""
    total = 0
    for bookie in cluster.bookies:
        lines = Path(f"/proc/{bookie.pid}/io").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))
    return total
