"""How long does it take to find a time in a long log?

A log of ten million messages in many ledgers. `start=` a random time of it, to the first message that is returned; by
a client that has looked for others before (warm), and by a new client each time.
"""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime

from benchmarks.histogram import Summary
from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.stores import cluster_on
from dlog.client import LogClient, connect

_LOG = "long"
_BATCH = 500
_MESSAGE = b"x" * 20
_LEDGERS = 200
_SEEKS = 500
_NEW_CLIENTS = 50
_WARM_UP = 50
_TARGET_MS = 30.0


async def run(options: Options) -> Report:
    report = Report("seek", "How long does it take to find a time in a long log?")
    messages = options.sought_messages
    for store in options.stores:
        async with cluster_on(store, options.directory) as cluster:
            async with connect(cluster.uri) as client:
                began, ended = await _fill(client, messages)
                ledgers = await client.list_ledgers(_LOG)
            rng = random.Random(1)
            times = [rng.uniform(began, ended) for _ in range(_WARM_UP + _SEEKS)]
            async with connect(cluster.uri) as client:
                warm = [await _seek(client, each) for each in times][_WARM_UP:]
            cold = []
            for each in times[:_NEW_CLIENTS]:
                async with connect(cluster.uri) as client:
                    cold.append(await _seek(client, each))
        case = f"{store}: {messages:,} messages in {len(ledgers):,} ledgers"
        for contender, found, target in (("warm", warm, _TARGET_MS), ("a new client", cold, None)):
            summary = Summary.of(found)
            report.add(_row(case, f"{contender}, p50", summary.p50, target))
            report.add(_row(case, f"{contender}, p99", summary.p99))
    return report


async def _fill(client: LogClient, messages: int) -> tuple[float, float]:
    """Append that many messages; return a time before the first one and one before the last ones.

    After a later time there may be no message, and a reader that starts there waits.
    """
    batch = [_MESSAGE] * _BATCH
    async with client.open_writer(_LOG, create=True) as writer:
        began = time.time()
        for _ in range(_LEDGERS):
            last_ones = time.time()
            await asyncio.gather(*(writer.append_many(batch) for _ in range(messages // _BATCH // _LEDGERS)))
            await writer.rotate()
        return began, last_ones


async def _seek(client: LogClient, at: float) -> float:
    """Seconds until the first message appended at or after the time has come."""
    started = time.perf_counter()
    async with client.reader(_LOG, start=datetime.fromtimestamp(at, UTC)) as reader:
        async for message in reader:
            assert message.append_time_us >= int(at * 1e6)
            break
    return time.perf_counter() - started


def _row(case: str, contender: str, seconds: float, target_ms: float | None = None) -> Row:
    return Row(contender=contender, case=case, unit="ms", value=seconds * 1e3, target=target_ms)
