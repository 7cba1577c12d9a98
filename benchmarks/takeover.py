"""How long is a log without a writer when another one takes over?

From `open_writer` to its first acknowledged append, while the writer before it is alive, idle, and has left its
ledger open: so every takeover fences, recovers and seals. Once with all three bookies up, once with one killed.
The floor is one durable change of a record in the same metadata store, of which a takeover needs several.
"""

from __future__ import annotations

import time

from benchmarks.histogram import Summary
from benchmarks.options import Options
from benchmarks.report import Report, Row
from dlog.client import connect
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError
from ledger.metadata.drivers import open_store
from tests.helpers.processes.cluster import running_cluster

_LOG = "bench"
_TARGET_MS = 30.0
_CHANGES = 50


async def run(options: Options) -> Report:
    report = Report(
        "takeover", "How long does a takeover take, from open_writer to the first acknowledged append?"
    )
    async with running_cluster(options.directory) as cluster:
        floor = Summary.of(await _measure_changes(cluster.uri))
        report.add(_row("metadata store", "one durable change of a record, p50", [floor.p50]))
        healthy = await _measure_takeovers(cluster.uri, options.takeovers)
        _add(report, "three bookies", healthy, floor, target_ms=_TARGET_MS)
        cluster.bookies[0].kill()
        degraded = await _measure_takeovers(cluster.uri, options.takeovers)
        _add(report, "one of three bookies dead", degraded, floor)
    return report


async def _measure_changes(uri: str) -> list[float]:
    store = await open_store(uri)
    try:
        key, latencies = "/benchmark", []
        version = await store.create_record(key, b"0")
        for number in range(_CHANGES):
            started = time.perf_counter()
            version = await store.write_record(key, str(number).encode(), version)
            latencies.append(time.perf_counter() - started)
        return latencies
    finally:
        await store.close()


async def _measure_takeovers(uri: str, count: int) -> list[float]:
    """Seconds of every takeover; two clients, each with connections of its own, take the log from each other."""
    async with connect(uri) as one, await connect(uri) as other:
        deposed = await one.open_writer(_LOG, create=True)
        await deposed.append(b"before")
        latencies = []
        for number in range(count):
            client = (other, one)[number % 2]
            started = time.perf_counter()
            writer = await client.open_writer(_LOG, create=True)
            await writer.append(b"first")
            latencies.append(time.perf_counter() - started)
            await _drop(deposed)
            deposed = writer
        await deposed.close()
    return latencies


async def _drop(deposed: LogWriter) -> None:
    """The writer that was taken over has lost nothing and says why it ends."""
    deposed.abort()
    try:
        await deposed.close()
    except LogStoreError:
        return


def _add(
    report: Report, case: str, latencies: list[float], floor: Summary, target_ms: float | None = None
) -> None:
    found = Summary.of(latencies)
    for name, value, target in (("p50", found.p50, target_ms), ("p99", found.p99, None)):
        report.add(
            Row(
                contender="log, open_writer and append",
                case=f"{case}, {name}",
                unit="ms",
                value=value * 1e3,
                runs=tuple(latency * 1e3 for latency in latencies) if name == "p50" else (),
                floor=floor.p50 * 1e3,
                target=target,
            )
        )


def _row(contender: str, case: str, seconds: list[float]) -> Row:
    return Row(contender=contender, case=case, unit="ms", value=seconds[0] * 1e3)
