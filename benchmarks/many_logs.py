"""What do many logs cost one process: writing to all of them, keeping them open, tailing them, fanning one out?

- Busy: one append in flight in each of 500 logs. The peer is a single log with as many appends in flight.
- Open: 10,000 logs open for writing, two appends a second to each.
- Idle: 1,000 logs tailed, and nothing comes.
- Fan-out: 50 readers at the tail of one log. The peer is one reader.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

from benchmarks.histogram import Summary
from benchmarks.options import MIB, Options
from benchmarks.report import Report, Row
from benchmarks.rows import Runs
from benchmarks.stores import cluster_on
from dlog.client import LogClient, connect
from dlog.config import LogConfig
from dlog.write.writer import LogWriter
from ledger.config import Visibility
from tests.helpers.processes.cluster import Cluster
from tests.helpers.processes.python import start_python

_PAYLOAD = b"x" * 100
_OPENED_AT_ONCE = 50
_TARGETS = {Visibility.STRICT: 25_000.0, Visibility.FAST: 40_000.0}
_P50_MS, _OPEN_MIB, _IDLE_MIB, _IDLE_CORES, _DELIVERIES = 15.0, 400.0, 60.0, 0.02, 200_000.0
_WHOLE_PROCESS_S = 10.0
"""How long a whole process is watched."""
_OPEN_S_MAX = 900.0
_APPENDS_IN_FLIGHT = 64
"""Of the writer whose log is fanned out."""
_SETTLE_S = 1.0
"""Until readers are at the tail."""


async def run(options: Options) -> Report:
    report = Report("many_logs", "What do many logs cost one process?")
    for store in options.stores:
        async with cluster_on(store, options.directory) as cluster:
            await _busy(report, store, cluster, options)
            await _fan_out(report, store, cluster, options)
            await _whole_process(report, store, cluster, options)
    return report


# ---- busy


async def _busy(report: Report, store: str, cluster: Cluster, options: Options) -> None:
    runs = Runs()
    for visibility, target in _TARGETS.items():
        case = f"{store}: appends, {visibility.value}"
        many, one = f"{options.busy_logs} logs, one in flight each", f"one log, {options.busy_logs} in flight"
        config = LogConfig()
        config = replace(config, visibility=visibility)
        async with connect(cluster.uri, config=config) as client:
            writers = await _opened(client, options.busy_logs, visibility.value)
            await _append_in_turn(writers, options.warm_up_s)
            for _ in range(options.rounds):
                for contender, used in ((many, writers), (one, writers[:1] * options.busy_logs)):
                    latencies = await _append_in_turn(used, options.seconds)
                    runs.add(case, contender, len(latencies) / options.seconds)
                    runs.add(f"{case}, p50", contender, Summary.of(latencies).p50 * 1e3)
            for writer in writers:
                writer.abort()
        floor = runs.median(case, one)
        report.add(runs.row(case, one, "appends/s"))
        report.add(runs.row(case, many, "appends/s", floor=floor, target=target))
        report.add(runs.row(f"{case}, p50", one, "ms"))
        report.add(runs.row(f"{case}, p50", many, "ms", target=_P50_MS))


async def _opened(client: LogClient, count: int, name: str) -> list[LogWriter]:
    limit = asyncio.Semaphore(_OPENED_AT_ONCE)

    async def one(number: int) -> LogWriter:
        async with limit:
            return await client.open_writer(f"{name}-{number}", create=True)

    return await asyncio.gather(*(one(number) for number in range(count)))


async def _append_in_turn(writers: list[LogWriter], seconds: float) -> list[float]:
    """Seconds of each append; each writer has one in flight at any time."""
    until = time.perf_counter() + seconds
    latencies: list[float] = []

    async def append(writer: LogWriter) -> None:
        while (started := time.perf_counter()) < until:
            await writer.append(_PAYLOAD)
            latencies.append(time.perf_counter() - started)

    await asyncio.gather(*(append(writer) for writer in writers))
    return latencies


# ---- fan-out


async def _fan_out(report: Report, store: str, cluster: Cluster, options: Options) -> None:
    runs = Runs()
    cases = {
        1: f"{store}: deliveries, one message an entry",
        100: f"{store}: deliveries, 100 messages an entry",
    }
    async with connect(cluster.uri) as writing, connect(cluster.uri) as reading:
        writer = await writing.open_writer("fan-out", create=True)
        for _ in range(options.rounds):
            for batch, case in cases.items():
                for count in (1, options.fan_out):
                    delivered = await _delivered(reading, writer, count, batch, options.seconds)
                    runs.add(case, _readers(count), delivered / options.seconds)
        writer.abort()
    for case in cases.values():
        report.add(runs.row(case, _readers(1), "messages/s"))
        report.add(runs.row(case, _readers(options.fan_out), "messages/s", target=_DELIVERIES))


def _readers(count: int) -> str:
    return "one reader" if count == 1 else f"{count} readers"


async def _delivered(client: LogClient, writer: LogWriter, count: int, batch: int, seconds: float) -> int:
    """Messages that all readers got while the writer appended entry after entry, each with `batch` messages."""
    delivered, appending = 0, True

    async def read() -> None:
        nonlocal delivered
        async with client.reader("fan-out", "latest") as reader:
            async for batch in reader.batches():
                delivered += len(batch)

    async def write() -> None:
        while appending:
            await writer.append_many([_PAYLOAD] * batch)

    readers = [asyncio.create_task(read()) for _ in range(count)]
    await asyncio.sleep(_SETTLE_S)
    writing = [asyncio.create_task(write()) for _ in range(_APPENDS_IN_FLIGHT)]
    await asyncio.sleep(_SETTLE_S / 2)
    before = delivered
    await asyncio.sleep(seconds)
    found = delivered - before
    appending = False
    await asyncio.gather(*writing)
    for task in readers:
        task.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    return found


# ---- whole processes


async def _whole_process(report: Report, store: str, cluster: Cluster, options: Options) -> None:
    open_case, idle_case = f"{store}: logs open for writing", f"{store}: logs tailed, idle"
    writers, tails = f"{options.open_writers:,} logs", f"{options.idle_tails:,} logs"
    found = await _measured(cluster, "writers", options.open_writers)
    report.add(_row(open_case, writers, "MiB", found["bytes"] / MIB, _OPEN_MIB))
    for name, label, unit in (
        ("opened_s", "time to open", "s"),
        ("appends_per_s", "two appends a second each", "appends/s"),
        ("p50_ms", "append, p50", "ms"),
        ("p99_ms", "append, p99", "ms"),
    ):
        report.add(_row(f"{open_case}, {label}", writers, unit, found[name]))
    report.add(_row(f"{open_case}, processor", writers, "cores", found["cores"]))
    report.add(_row(f"{open_case}, failed", writers, "appends", found["failures"]))
    found = await _measured(cluster, "tails", options.idle_tails)
    report.add(_row(idle_case, tails, "MiB", found["bytes"] / MIB, _IDLE_MIB))
    report.add(_row(f"{idle_case}, processor", tails, "cores", found["cores"], _IDLE_CORES))
    report.add(_row(f"{idle_case}, store", tails, "requests/s", found["store_requests_per_s"]))


async def _measured(cluster: Cluster, what: str, count: int) -> dict[str, Any]:
    arguments = ["-m", "benchmarks.load.client_process", cluster.uri, what, str(count), str(_WHOLE_PROCESS_S)]
    child = await start_python(arguments, timeout_s=_OPEN_S_MAX)
    await child.wait(_OPEN_S_MAX)
    found: dict[str, Any] = json.loads(child.last_lines[-1])
    return found


def _row(case: str, contender: str, unit: str, value: float, target: float | None = None) -> Row:
    return Row(contender=contender, case=case, unit=unit, value=value, target=target)
