"""How fast is our client beside Apache's: on Apache's bookies and on ours, with metadata in ZooKeeper?

Three bookies of each kind, E3 Qw3 Qa2, CRC32C, binary protocol, 2,000 entries unanswered at most. Apache's bookies
and its client have their defaults, but for the limit of 5,000 adds a second, which is lifted, and for what they do
with a bookie that lags: two acknowledgements of three do not wait for it, so it may be 10,000 adds behind. It would
refuse the next, Apache's client would look for another bookie and, since there is none, give its ledger up; so the
bookies queue without a bound, and the client is patient. Both clients take turns in the same run, on the same
bookies; Apache's has its warm-up before, since a JVM is slow in its first seconds.

Needs Java and Apache's jars: `tools/fetch-java-libs`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.histogram import Summary
from benchmarks.load import ledger_load
from benchmarks.load.ledger_load import QUORUM, ledger_client
from benchmarks.machine import settle_disk
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from ledger.client import LedgerClient
from ledger.config import Visibility
from tests.helpers.apache.cluster import Bookie, MixedCluster
from tests.helpers.apache.java_client import JavaClient, JavaProcess, compile_driver, java_client

WINDOW = 2000
ENTRY_BYTES = (100, 1024)
_WARM_UP_ENTRIES = 100_000
_PROBE_ENTRIES = 20_000
_CREATES = 100
_CREATE_SHARE = 1.3
OURS, APACHES = "our client", "Apache's client"
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


async def run(options: Options) -> Report:
    report = Report("interop", "How fast is our client beside Apache's, on both kinds of bookies?")
    runs = Runs()
    with _driver() as jvm:
        for kind, apache, ours in (("Apache's bookies", 3, 0), ("our bookies", 0, 3)):
            with _running(options.directory, apache, ours) as cluster:
                java = java_client(jvm, kind.replace(" ", "-"), cluster.uri, **_CLIENT)
                async with ledger_client(cluster.uri) as client:
                    await _measure(kind, cluster.bookies, client, java, options, runs)
            _report_appends(report, kind, runs)
    _report_creates(report, runs)
    return report


async def _measure(
    kind: str, bookies: list[Bookie], client: LedgerClient, java: JavaClient, options: Options, runs: Runs
) -> None:
    for size in ENTRY_BYTES:
        await _java_appends(java, size, _WARM_UP_ENTRIES)
    for _ in range(options.rounds):
        for size in ENTRY_BYTES:
            case = _case(kind, size)
            settle_disk()
            rate = await _java_appends(java, size, _PROBE_ENTRIES)
            runs.add(case, APACHES, await _java_appends(java, size, int(rate * options.seconds)))
            settle_disk()
            found = await ledger_load.measure_throughput(
                client,
                [bookie.pid for bookie in bookies],
                entry_bytes=size,
                window=WINDOW,
                visibility=Visibility.FAST,
                warm_up_s=options.warm_up_s,
                seconds=options.seconds,
            )
            runs.add(case, OURS, found.entries_per_s)
        for contender, times in (
            (APACHES, await _java_creates(java)),
            (OURS, await _our_creates(client)),
        ):
            summary = Summary.of(times)
            runs.add("create and close, p50", contender, summary.p50 * 1e3)
            runs.add("create and close, p99", contender, summary.p99 * 1e3)


# ---- the contenders


async def _java_appends(java: JavaClient, size: int, count: int) -> float:
    """Entries a second."""
    ledger = await java.create(QUORUM.ensemble, QUORUM.write, QUORUM.ack, "CRC32C")
    (nanoseconds,) = await ledger.call("bench", count, size, WINDOW)
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


def _report_appends(report: Report, kind: str, runs: Runs) -> None:
    for size in ENTRY_BYTES:
        case = _case(kind, size)
        theirs = runs.median(case, APACHES)
        report.add(runs.row(case, APACHES, "entries/s"))
        report.add(runs.row(case, OURS, "entries/s", floor=theirs, target=theirs))


def _report_creates(report: Report, runs: Runs) -> None:
    for share in ("p50", "p99"):
        case = f"create and close, {share}"
        theirs = runs.median(case, APACHES)
        report.add(runs.row(case, APACHES, "ms"))
        target = _CREATE_SHARE * theirs if share == "p50" else None
        report.add(runs.row(case, OURS, "ms", floor=theirs, target=target))
