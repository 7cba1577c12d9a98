"""What does a bookie need for what is appended: bytes on its disk, bytes and calls of writing, processor, memory?

A fresh cluster for each size of entry takes the same number of bytes into one ledger, then into many ledgers with few
entries each. All counts are a bookie's, from its own process and its own files, after a checkpoint that follows the
last append; so other programs on the machine change the rates and not the results. Three copies, two of them synced
before an acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.load.ledger_load import QUORUM, ledger_client
from benchmarks.options import MIB, Options
from benchmarks.report import Report, Row
from benchmarks.usage import cpu_s, peak_resident_bytes
from ledger.client import LedgerClient
from ledger.config import Visibility
from tests.helpers.processes.cluster import Cluster, running_cluster

_CHECKPOINT_S = 5
_WINDOW_BYTES = 4 * MIB
_DEFAULT = "once from 64 KiB"
_KINDS = {"twice": 0, _DEFAULT: 64 * 1024}
_ALONE = 1024
"""Entries that are appended one at a time."""
_SMALL_LEDGERS = 2000
_IN_EACH = 5


async def run(options: Options) -> Report:
    report = Report("capacity", "What does a bookie need for what is appended?")
    for kind, bytes_min in _KINDS.items():
        for size in options.entry_bytes:
            count = options.read_bytes // size
            found = await _measured(options, bytes_min, size, [count], _WINDOW_BYTES)
            _add(report, kind, f"{size} B", found)
    found = await _measured(options, _KINDS[_DEFAULT], _ALONE, [min(options.appends, 2000)], 1)
    _add(report, _DEFAULT, f"{_ALONE} B, one at a time", found)
    found = await _measured(options, _KINDS[_DEFAULT], 100, [_IN_EACH] * _SMALL_LEDGERS, _WINDOW_BYTES)
    _add(report, _DEFAULT, f"{_SMALL_LEDGERS} ledgers of {_IN_EACH} entries of 100 B", found)
    return report


_UNITS = {
    "payload": "MB",
    "entry logs per byte": "bytes",
    "journal that stays": "MB",
    "index and states": "KiB",
    "written per byte": "bytes",
    "write calls per entry": "calls",
    "processor per entry": "µs",
    "memory, most": "MiB",
}


def _add(report: Report, kind: str, case: str, found: dict[str, float]) -> None:
    for name, unit in _UNITS.items():
        report.add(Row(contender=kind, case=f"{case}: {name}", unit=unit, value=found[name]))


async def _measured(
    options: Options, bytes_min: int, size: int, counts: Sequence[int], window_bytes: int
) -> dict[str, float]:
    """What an average bookie needed for ledgers with these numbers of entries."""
    config = options.directory / "capacity-benchmark.toml"
    config.write_text(
        f"[storage]\nsingle_write_bytes_min = {bytes_min}\ncheckpoint_interval_s = {_CHECKPOINT_S}\n", "utf-8"
    )
    try:
        async with running_cluster(options.directory, extra=("--config", str(config))) as cluster:
            pids = [bookie.pid for bookie in cluster.bookies]
            before = _Counts(cluster)
            async with ledger_client(cluster.uri) as client:
                await _fill(client, bytes(size), counts, window_bytes)
                await asyncio.sleep(_CHECKPOINT_S + 2)
            after = _Counts(cluster)
            memory = max(map(peak_resident_bytes, pids)) / MIB
            await asyncio.gather(*(bookie.stop() for bookie in cluster.bookies))
            entries = sum(counts)
            payload = entries * size
            return {
                "payload": payload / 1e6,
                "entry logs per byte": _on_disk(cluster, "ledgers/entry-logs") / payload,
                "journal that stays": _on_disk(cluster, "journal") / 1e6,
                "index and states": (
                    _on_disk(cluster, "ledgers/index") + _on_disk(cluster, "ledgers/ledger-states")
                )
                / 1024,
                "written per byte": (after.written - before.written) / payload,
                "write calls per entry": (after.calls - before.calls) / entries,
                "processor per entry": (after.cpu_s - before.cpu_s) * 1e6 / entries,
                "memory, most": memory,
            }
    finally:
        config.unlink()


async def _fill(client: LedgerClient, payload: bytes, counts: Sequence[int], window_bytes: int) -> None:
    for count in counts:
        handle = await client.create(QUORUM, visibility=Visibility.FAST)
        for _ in range(count):
            if window_bytes == 1:
                await handle.add(payload)
            else:
                await handle.wait_for_capacity(window_bytes)
                handle.submit(payload)
        await handle.drain()
        await handle.close()


class _Counts:
    """Of an average bookie, since its process began."""

    def __init__(self, cluster: Cluster) -> None:
        pids = [bookie.pid for bookie in cluster.bookies]
        counters = [_io(pid) for pid in pids]
        self.written = sum(each["write_bytes"] for each in counters) / len(pids)
        self.calls = sum(each["syscw"] for each in counters) / len(pids)
        self.cpu_s = sum(map(cpu_s, pids)) / len(pids)


def _io(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/io").read_text("utf-8").splitlines()
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}


def _on_disk(cluster: Cluster, name: str) -> float:
    """Bytes that the files take on the disk, preallocated ones included."""
    places = [cluster.bookie_directory(number) / name for number in range(len(cluster.bookies))]
    files = [each for place in places for each in (place, *place.rglob("*")) if each.is_file()]
    return sum(each.stat().st_blocks * 512 for each in files) / len(places)
