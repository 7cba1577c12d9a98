"""Does a bookie's memory stay flat while gigabytes are written?

Entries of 4 KiB go to one ledger after another; what each bookie holds is read from the system as the written
bytes grow. The first fifth fills the caches; the result is how much more it took after that. The floor is what a
bookie holds before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.load import ledger_load
from benchmarks.load.ledger_load import ledger_client
from benchmarks.options import MIB, Options
from benchmarks.report import Curves, Report, Row
from benchmarks.usage import resident_bytes
from ledger.client import LedgerClient
from ledger.config import Visibility
from tests.helpers.processes.cluster import Cluster, running_cluster

_ENTRY_BYTES = 4096
_WINDOW_BYTES = 4 * MIB
_LEDGERS = 10
_SAMPLES = 100
_GROWTH_MIB_MAX = 64.0
"""Half of what the write cache may hold: when a flush happens to fall is not growth."""


async def run(options: Options) -> Report:
    report = Report(
        "memory", f"Is a bookie's memory flat while {options.written_bytes / MIB:,.0f} MiB are written?"
    )
    async with running_cluster(options.directory) as cluster, ledger_client(cluster.uri) as client:
        watch = _Watch(cluster, options.written_bytes)
        watch.sample(0)
        written = 0
        for number in range(1, _LEDGERS + 1):
            until = options.written_bytes * number // _LEDGERS
            written += await _fill_ledger(client, written, until, watch.sample)
        watch.sample(written, force=True)
    for name, points in watch.points.items():
        _add_rows(report, name, points)
    report.curves = Curves(x_label="GiB written", y_label="MiB in memory", points=watch.points)
    return report


class _Watch:
    """Memory of every bookie, sampled a hundred times on the way."""

    def __init__(self, cluster: Cluster, written_bytes: int) -> None:
        self._cluster = cluster
        self._step = written_bytes // _SAMPLES
        self._next = 0
        self.points: dict[str, list[tuple[float, float]]] = {
            f"bookie {number}": [] for number in range(1, len(cluster.bookies) + 1)
        }

    def sample(self, written: int, *, force: bool = False) -> None:
        if written < self._next and not force:
            return
        self._next = written + self._step
        for points, bookie in zip(self.points.values(), self._cluster.bookies, strict=True):
            points.append((written / (1024 * MIB), resident_bytes(bookie.pid) / MIB))


async def _fill_ledger(client: LedgerClient, start: int, until: int, sample: Callable[[int], None]) -> int:
    """Write until so many bytes are written in all; returns how many of them went to this ledger."""
    handle = await client.create(ledger_load.QUORUM, visibility=Visibility.FAST)
    payload = bytes(_ENTRY_BYTES)
    while start + handle.length < until:
        await handle.wait_for_capacity(_WINDOW_BYTES)
        for _ in range(64):
            handle.submit(payload)
        sample(start + handle.length)
    await handle.drain()
    await handle.close()
    return handle.length


def _add_rows(report: Report, name: str, points: list[tuple[float, float]]) -> None:
    resident = [value for _, value in points]
    settled = resident[len(resident) // 5]
    report.add(Row(contender=name, case="most of all", unit="MiB", value=max(resident), floor=resident[0]))
    report.add(
        Row(
            contender=name,
            case="growth after the first fifth",
            unit="MiB",
            value=max(0.0, max(resident[len(resident) // 5 :]) - settled),
            target=_GROWTH_MIB_MAX,
        )
    )
