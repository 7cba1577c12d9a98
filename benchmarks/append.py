"""How fast are durable appends: to a ledger by size of entry, one at a time, and to a log in small messages?

Every contender and the floors take turns, round by round, on fresh files. Three bookies, E3 Qw3 Qa2, every
entry synced before it is acknowledged. Floors: three bare servers that only write and sync the same bytes (the
ratio is to them), and the same that look at every frame, which no bookie can leave out; for one append at a
time, an fdatasync.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchmarks.floors.raw_floor import measure_floor
from benchmarks.histogram import Summary
from benchmarks.load import ledger_load, log_load
from benchmarks.load.ledger_load import ledger_client
from benchmarks.machine import measure_fdatasync, measure_fdatasync_at_once, settle_disk
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from benchmarks.usage import Throughput
from dlog.client import connect
from ledger.config import Visibility
from tests.helpers.processes.cluster import Cluster, running_cluster

WINDOW = 2000
_LARGE_WINDOW = 100
_WINDOWS = {10 * 1024: 500, 64 * 1024: _LARGE_WINDOW}
"""For large entries the disk is the limit, and 2,000 of them would only fill buffers."""
_LATENCY_BYTES = 1024
_TARGETS = {100: 150_000.0, 1024: 60_000.0}
_FLOOR_SHARES = {1024: 0.6}
_APPEND_MANY_TARGET = 800_000.0
_SUBMIT_TARGET = 150_000.0
_LATENCY_ALLOWANCE_MS = 0.3
_FDATASYNC_ROUNDS = 200
_CONTENDERS = ("raw floor", "parsed floor", "ledger, fast", "ledger, strict")
_PROCESSOR = "µs/entry"
"""Of processor time: what a busy machine changes least, and what says where the cores went."""


async def run(options: Options) -> Report:
    report = Report("append", "How fast are durable appends?")
    runs = Runs()
    for _ in range(options.rounds):
        # First of all: the disk goes on working for a while after the gigabytes that the others write.
        await _latency_round(options, runs)
    for _ in range(options.rounds):
        for entry_bytes in options.entry_bytes:
            await _ledger_round(options, entry_bytes, runs)
        await _log_round(options, runs)
    for entry_bytes in options.entry_bytes:
        _report_ledger(report, entry_bytes, runs)
    _report_latency(report, runs)
    _report_log(report, runs)
    return report


# ---- entries to a ledger


async def _ledger_round(options: Options, entry_bytes: int, runs: Runs) -> None:
    case, window = _case(entry_bytes), _window(entry_bytes)
    for name, parsed in (("raw floor", False), ("parsed floor", True)):
        found = await measure_floor(
            options.directory, entry_bytes=entry_bytes, window=window, seconds=options.seconds, parsed=parsed
        )
        _keep_throughput(runs, case, name, found)
    settle_disk()
    async with running_cluster(options.directory) as cluster, ledger_client(cluster.uri) as client:
        for visibility in (Visibility.FAST, Visibility.STRICT):
            found = await ledger_load.measure_throughput(
                client,
                [bookie.pid for bookie in cluster.bookies],
                entry_bytes=entry_bytes,
                window=window,
                visibility=visibility,
                warm_up_s=options.warm_up_s,
                seconds=options.seconds,
            )
            _keep_throughput(runs, case, f"ledger, {visibility.value}", found)


def _keep_throughput(runs: Runs, case: str, contender: str, found: Throughput) -> None:
    runs.add(case, contender, found.entries_per_s)
    runs.add(case, f"{contender}: client", found.client_us)
    runs.add(case, f"{contender}: a server", found.server_us)


def _report_ledger(report: Report, entry_bytes: int, runs: Runs) -> None:
    case = _case(entry_bytes)
    floor = runs.median(case, "raw floor")
    target = _TARGETS.get(entry_bytes)
    share = _FLOOR_SHARES.get(entry_bytes)
    wanted = max(target, floor * share) if target and share else target
    report.add(runs.row(case, _CONTENDERS[0], "entries/s"))
    report.add(runs.row(case, _CONTENDERS[1], "entries/s", floor=floor))
    for contender in _CONTENDERS[2:]:
        report.add(runs.row(case, contender, "entries/s", floor=floor, target=wanted))
    for part in ("client", "a server"):
        floor = runs.median(case, f"{_CONTENDERS[0]}: {part}")
        for contender in _CONTENDERS:
            report.add(runs.row(case, f"{contender}: {part}", _PROCESSOR, floor=floor))


def _case(entry_bytes: int) -> str:
    return f"{entry_bytes} B, window {_window(entry_bytes)}"


def _window(entry_bytes: int) -> int:
    return _WINDOWS.get(entry_bytes, WINDOW)


# ---- one append at a time


async def _latency_round(options: Options, runs: Runs) -> None:
    settle_disk()
    async with running_cluster(options.directory) as cluster:
        _keep(runs, "fdatasync", measure_fdatasync(options.directory, rounds=_FDATASYNC_ROUNDS))
        at_once = measure_fdatasync_at_once(options.directory, files=3, rounds=_FDATASYNC_ROUNDS)
        _keep(runs, "fdatasync, three files at once", at_once)
        async with ledger_client(cluster.uri) as client:
            found = await ledger_load.measure_latencies(
                client, entry_bytes=_LATENCY_BYTES, count=options.appends
            )
            _keep(runs, "ledger, fast", Summary.of(found))
        async with connect(cluster.uri) as log_client, log_client.open_writer("bench", create=True) as writer:
            found = await log_load.measure_latencies(
                writer, message_bytes=_LATENCY_BYTES, count=options.appends
            )
            _keep(runs, "log, strict", Summary.of(found))


def _keep(runs: Runs, contender: str, seconds: Summary) -> None:
    runs.add("one append at a time, p50", contender, seconds.p50 * 1e3)
    runs.add("one append at a time, p99", contender, seconds.p99 * 1e3)


def _report_latency(report: Report, runs: Runs) -> None:
    for share in ("p50", "p99"):
        case = f"one append at a time, {share}"
        floor = runs.median(case, "fdatasync")
        report.add(runs.row(case, "fdatasync", "ms"))
        report.add(runs.row(case, "fdatasync, three files at once", "ms"))
        for contender, syncs in (("ledger, fast", 1), ("log, strict", 2)):
            target = syncs * floor + _LATENCY_ALLOWANCE_MS if share == "p50" else None
            report.add(runs.row(case, contender, "ms", floor=floor, target=target))


# ---- messages to a log


async def _log_round(options: Options, runs: Runs) -> None:
    case = f"{log_load.MESSAGE_BYTES} B messages"
    entry_bytes = log_load.BATCH * log_load.MESSAGE_BYTES
    floor = await measure_floor(
        options.directory, entry_bytes=entry_bytes, window=_LARGE_WINDOW, seconds=options.seconds
    )
    runs.add(case, "raw floor, batches of 500", floor.entries_per_s * log_load.BATCH)
    settle_disk()
    async with running_cluster(options.directory) as cluster:
        rate = await _measure_log(cluster, options, log_load.measure_append_many)
        runs.add(case, "log, append_many of 500", rate)
        rate = await _measure_log(cluster, options, log_load.measure_submit)
        runs.add(case, "log, submit", rate)


async def _measure_log(cluster: Cluster, options: Options, measure: Callable[..., Awaitable[float]]) -> float:
    async with connect(cluster.uri) as client, client.open_writer("bench", create=True) as writer:
        return await measure(writer, warm_up_s=options.warm_up_s, seconds=options.seconds)


def _report_log(report: Report, runs: Runs) -> None:
    case = f"{log_load.MESSAGE_BYTES} B messages"
    floor_name = "raw floor, batches of 500"
    floor = runs.median(case, floor_name)
    report.add(runs.row(case, floor_name, "messages/s"))
    for contender, target in (
        ("log, append_many of 500", _APPEND_MANY_TARGET),
        ("log, submit", _SUBMIT_TARGET),
    ):
        report.add(runs.row(case, contender, "messages/s", floor=floor, target=target))
