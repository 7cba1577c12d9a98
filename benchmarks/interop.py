"""How fast is our client beside Apache's: on Apache's bookies and on ours, with metadata in ZooKeeper?

Three bookies of each kind, which all run for the whole time, E3 Qw3 Qa2, CRC32C, binary protocol. End to end compares
Apache's client on Apache's bookies with ours on ours, round by round.
Apache's bookies and its client have their defaults, but for the limit of 5,000 adds a second, which is lifted, and for
what they do with a bookie that lags: two acknowledgements of three do not wait for it, so it may be 10,000 adds behind.
It would refuse the next, Apache's client would look for another bookie and, since there is none, give its ledger up; so
the bookies queue without a bound, and the client is patient. Both clients take turns; Apache's has its warm-up before,
since a JVM is slow in its first seconds.

Needs Java and Apache's jars: `tools/fetch-java-libs`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.histogram import Summary
from benchmarks.load import ledger_load
from benchmarks.load.ledger_load import QUORUM, ledger_client
from benchmarks.machine import settle_disk
from benchmarks.options import MIB, Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from ledger.client import LedgerClient
from ledger.config import Visibility
from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.apache.java_client import JavaClient, JavaProcess, compile_driver, java_client

WINDOWS = {100: 2000, 1024: 2000, 10 * 1024: 500, 64 * 1024: 100}
"""By size of an entry: how many are unanswered at most."""
_TARGETS = {100: 3.0, 1024: 2.0, 10 * 1024: 1.5, 64 * 1024: 1.5}
"""Of Apache's rate, end to end."""
_WARM_UP_ENTRIES, _WARM_UP_BYTES = 100_000, 256 * MIB
_PROBE_ENTRIES, _PROBE_BYTES = 20_000, 64 * MIB
_CREATES = 100
_CREATE_SHARE = 1.3
_ALONE = 500
"""Appends one at a time."""
OURS, APACHES = "our client", "Apache's client"
OUR_BOOKIES, THEIR_BOOKIES = "our bookies", "Apache's bookies"
_RATIO = "ours to Apache's"
_LONE = "one append at a time, mean"
_SERVER_JVM = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g")
_CLIENT = {"useV2WireProtocol": "true", "throttle": 0, "addEntryTimeoutSec": 60}
_SETTINGS = {
    "maxPendingAddRequestsPerThread": 0,
    # The defaults of what the cluster for tests makes small.
    "journalPreAllocSizeMB": 16,
    "logSizeLimit": 1 << 30,
    "entryLogFilePreallocationEnabled": True,
    "skipListSizeLimit": 64 << 20,
    "numReadWorkerThreads": 8,
    "numHighPriorityWorkerThreads": 8,
    "serverNumIOThreads": 4,
    "zkTimeout": 10_000,
}


@dataclass(frozen=True, slots=True)
class _Cluster:
    """One kind of bookies and both clients."""

    kind: str
    pids: list[int]
    ours: LedgerClient
    java: JavaClient


async def run(options: Options) -> Report:
    report = Report("interop", "How fast is our client beside Apache's, on both kinds of bookies?")
    runs = Runs()
    async with AsyncExitStack() as stack:
        jvm = stack.enter_context(_driver())
        clusters = [
            await _started(stack, options.directory, jvm, kind, apache, ours)
            for kind, apache, ours in ((THEIR_BOOKIES, 3, 0), (OUR_BOOKIES, 0, 3))
        ]
        for cluster in clusters:
            for size in WINDOWS:
                await _java_appends(cluster.java, size, min(_WARM_UP_ENTRIES, _WARM_UP_BYTES // size))
        for _ in range(options.rounds):
            for size in WINDOWS:
                for cluster in clusters:
                    await _measure(cluster, size, options, runs)
            for cluster in clusters:
                await _measure_calls(cluster, runs)
    _report_end_to_end(report, runs)
    for cluster in clusters:
        _report_appends(report, cluster.kind, runs)
    _report_creates(report, runs)
    return report


async def _started(
    stack: AsyncExitStack, directory: Path, jvm: JavaProcess, kind: str, apache: int, ours: int
) -> _Cluster:
    cluster = stack.enter_context(_running(directory, apache, ours))
    java = java_client(jvm, kind.replace(" ", "-"), cluster.uri, **_CLIENT)
    client = await stack.enter_async_context(ledger_client(cluster.uri))
    return _Cluster(kind, [bookie.pid for bookie in cluster.bookies], client, java)


async def _measure(cluster: _Cluster, size: int, options: Options, runs: Runs) -> None:
    case = _case(cluster.kind, size)
    settle_disk()
    rate = await _java_appends(cluster.java, size, min(_PROBE_ENTRIES, _PROBE_BYTES // size))
    runs.add(case, APACHES, await _java_appends(cluster.java, size, int(rate * options.seconds)))
    settle_disk()
    found = await ledger_load.measure_throughput(
        cluster.ours,
        cluster.pids,
        entry_bytes=size,
        window=WINDOWS[size],
        visibility=Visibility.FAST,
        warm_up_s=options.warm_up_s,
        seconds=options.seconds,
    )
    runs.add(case, OURS, found.entries_per_s)


async def _measure_calls(cluster: _Cluster, runs: Runs) -> None:
    """What waits for its answer before the next one: lone appends, and ledgers that are created and closed."""
    alone = f"{_LONE}, {cluster.kind}"
    runs.add(alone, APACHES, 1e3 / await _java_appends(cluster.java, 100, _ALONE, window=1))
    latencies = await ledger_load.measure_latencies(cluster.ours, entry_bytes=100, count=_ALONE)
    runs.add(alone, OURS, 1e3 * sum(latencies) / len(latencies))
    for contender, times in (
        (APACHES, await _java_creates(cluster.java)),
        (OURS, await _our_creates(cluster.ours)),
    ):
        summary = Summary.of(times)
        runs.add("create and close, p50", contender, summary.p50 * 1e3)
        runs.add("create and close, p99", contender, summary.p99 * 1e3)


# ---- the contenders


async def _java_appends(java: JavaClient, size: int, count: int, *, window: int | None = None) -> float:
    """Entries a second."""
    ledger = await java.create(QUORUM.ensemble, QUORUM.write, QUORUM.ack, "CRC32C")
    (nanoseconds,) = await ledger.call("bench", count, size, window or WINDOWS[size])
    await ledger.close()
    await java.delete(ledger.ledger_id)
    return count / int(nanoseconds) * 1e9


async def _java_creates(java: JavaClient) -> list[float]:
    words = await java.process.call("bench-create", java.name, _CREATES, QUORUM.ensemble)
    return [int(word) / 1e9 for word in words]


async def _our_creates(client: LedgerClient) -> list[float]:
    """Seconds of each creation with its close."""
    times = []
    for _ in range(_CREATES):
        started = time.perf_counter()
        handle = await client.create(QUORUM)
        await handle.close()
        times.append(time.perf_counter() - started)
    return times


# ---- processes


@contextmanager
def _driver() -> Iterator[JavaProcess]:
    with tempfile.TemporaryDirectory(prefix="driver-") as directory:
        process = JavaProcess(compile_driver(Path(directory)), Path(directory) / "client.log")
        try:
            yield process
        finally:
            process.stop()


@contextmanager
def _running(directory: Path, apache: int, ours: int) -> Iterator[MixedCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="interop-", dir=directory) as home,
        MixedCluster(
            Path(home) / "cluster", apache=apache, ours=ours, jvm=_SERVER_JVM, settings=_SETTINGS
        ) as cluster,
    ):
        yield cluster


# ---- the report


def _case(kind: str, size: int) -> str:
    return f"{size} B, {kind}"


def _report_end_to_end(report: Report, runs: Runs) -> None:
    for size, target in _TARGETS.items():
        pairs = Runs()
        theirs = runs.values(_case(THEIR_BOOKIES, size), APACHES)
        for their_rate, our_rate in zip(theirs, runs.values(_case(OUR_BOOKIES, size), OURS), strict=True):
            pairs.add(f"{size} B, end to end", _RATIO, our_rate / their_rate)
        report.add(pairs.row(f"{size} B, end to end", _RATIO, "times", target=target))


def _report_appends(report: Report, kind: str, runs: Runs) -> None:
    for size in WINDOWS:
        case = _case(kind, size)
        theirs = runs.median(case, APACHES)
        report.add(runs.row(case, APACHES, "entries/s"))
        report.add(runs.row(case, OURS, "entries/s", floor=theirs, target=theirs))
    case = f"{_LONE}, {kind}"
    report.add(runs.row(case, APACHES, "ms"))
    report.add(runs.row(case, OURS, "ms", floor=runs.median(case, APACHES)))


def _report_creates(report: Report, runs: Runs) -> None:
    for share in ("p50", "p99"):
        case = f"create and close, {share}"
        theirs = runs.median(case, APACHES)
        report.add(runs.row(case, APACHES, "ms"))
        target = _CREATE_SHARE * theirs if share == "p50" else None
        report.add(runs.row(case, OURS, "ms", floor=theirs, target=target))
