"""How long is a log without a writer when another one takes over?

From `open_writer` to its first acknowledged append, while the writer before it is alive, idle, and has left its
ledger open: so every takeover fences, recovers and seals. With all three bookies up; with one that has been hanging
(SIGSTOP) for a moment and is still registered, new for each takeover; and with one killed. The first 120 are not
counted: a ZooKeeper that has just started is slow. The floor is one durable change of a record in the same metadata
store, of which a takeover needs several.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.histogram import Summary
from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.stores import cluster_on
from dlog.client import connect
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError
from ledger.metadata.drivers import open_store
from tests.helpers.processes.python import Child

_LOG = "bench"
_TARGETS_MS = {"healthy": 10.0, "hung": 300.0, "dead": 15.0}
_CHANGES = 50
_NOT_COUNTED = 120
_SETTLE_S = 1.0
"""After a bookie went on: what it missed is written, and it counts again."""


async def run(options: Options) -> Report:
    report = Report(
        "takeover", "How long does a takeover take, from open_writer to the first acknowledged append?"
    )
    for store in options.stores:
        async with cluster_on(store, options.directory) as cluster:
            floor = Summary.of(await _measure_changes(cluster.uri))
            report.add(_row(f"{store}: metadata", "one durable change of a record, p50", [floor.p50]))
            await _measure_takeovers(cluster.uri, _NOT_COUNTED)
            healthy = await _measure_takeovers(cluster.uri, options.takeovers)
            _add(report, f"{store}: three bookies", healthy, floor, _TARGETS_MS["healthy"])
            hung = await _measure_takeovers(cluster.uri, options.takeovers, hanging=cluster.bookies[0])
            _add(report, f"{store}: one of three bookies hangs", hung, floor, _TARGETS_MS["hung"])
            cluster.bookies[0].kill()
            dead = await _measure_takeovers(cluster.uri, options.takeovers)
            _add(report, f"{store}: one of three bookies dead", dead, floor, _TARGETS_MS["dead"])
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


async def _measure_takeovers(uri: str, count: int, hanging: Child | None = None) -> list[float]:
    """Seconds of every takeover; two clients, each with connections of its own, take the log from each other.

    `hanging`: a bookie that is stopped before each of them and goes on afterwards.
    """
    async with connect(uri) as one, await connect(uri) as other:
        deposed = await one.open_writer(_LOG, create=True)
        await deposed.append(b"before")
        latencies = []
        for number in range(count):
            client = (other, one)[number % 2]
            with _stopped(hanging):
                started = time.perf_counter()
                writer = await client.open_writer(_LOG, create=True)
                await writer.append(b"first")
                latencies.append(time.perf_counter() - started)
            await _drop(deposed)
            deposed = writer
            if hanging is not None:
                await asyncio.sleep(_SETTLE_S)
        await deposed.close()
    return latencies


@contextmanager
def _stopped(bookie: Child | None) -> Iterator[None]:
    """It hangs for a while: its connections stay, and it answers nothing."""
    if bookie is None:
        yield
        return
    bookie.pause()
    try:
        yield
    finally:
        bookie.resume()


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
