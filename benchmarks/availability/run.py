"""What works while something is down, and how long does it take? Real processes; metadata in SQLite and in ZooKeeper.

Four bookies, E3 Qw3 Qa2. A process appends 500 messages a second to a log of its own in each trial, a reader tails it.
Then bookies of its ensemble, the process, or both are killed or stopped, and clients that know nothing of that read,
take the log over, append, rotate, shrink it and create another. Every message that was acknowledged must reach the
reader, or the benchmark fails.

ZooKeeper needs Java and its jars: `tools/fetch-java-libs`.
"""

from __future__ import annotations

import asyncio

from benchmarks.availability.outages import BOOKIES, OPERATIONS, OUTAGES, PAUSES, Durations, Outage
from benchmarks.availability.report import AvailabilityReport
from benchmarks.availability.trial import Trial
from benchmarks.machine import settle_disk
from benchmarks.options import Options
from benchmarks.stores import cluster_on
from dlog.client import connect
from tests.helpers.processes.cluster import Cluster

_REGISTERED_S_MAX = 30.0


async def run(options: Options) -> AvailabilityReport:
    report = AvailabilityReport()
    for store in options.stores:
        async with cluster_on(store, options.directory, bookies=BOOKIES) as cluster:
            for number, outage in enumerate(OUTAGES):
                settle_disk()
                found = await _trials(cluster, outage, f"o{number}", options)
                report.add(store, outage, found)
    return report


async def _trials(cluster: Cluster, outage: Outage, name: str, options: Options) -> dict[str, Durations]:
    found = {operation: Durations() for operation in (*OPERATIONS, *PAUSES)}
    for trial in range(options.trials):
        await _all_registered(cluster)
        await Trial(cluster, outage, f"{name}-{trial}", cluster.directory).run(found)
    return found


async def _all_registered(cluster: Cluster) -> None:
    """Return when every bookie takes part again."""
    async with connect(cluster.uri) as client, asyncio.timeout(_REGISTERED_S_MAX):
        store, changed = client.ledgers.store, asyncio.Event()
        unwatch = store.watch_bookies(changed.set)
        try:
            while len((await store.bookies()).writable) < BOOKIES:
                await changed.wait()
                changed.clear()
        finally:
            unwatch()
