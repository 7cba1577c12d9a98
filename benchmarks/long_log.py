"""What does a log's history cost: open, rotate, describe, read it all, plan that in Spark, with few ledgers and many?

The logs are made of real ledgers with one entry each, which are written in parallel and then listed in a record as
its owner would have done it. The floor of open and rotate is the shortest list.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from benchmarks.load.ledger_load import QUORUM
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.rows import Runs
from benchmarks.stores import cluster_on
from benchmarks.usage import Stopwatch
from dlog.client import LogClient, connect
from dlog.core.metadata_update import Applied
from dlog.format.entry import encode_entry
from dlog.format.message import Columns
from dlog.model import ListedLedger, Owner, SealFacts
from spark_connector.options.log_choice import NamedLogs
from spark_connector.options.read_options import ReadOptions
from spark_connector.read.planning import plan_read

_LEDGERS_AT_ONCE = 64
_TRIALS = 20
_EXISTING_MAX = 10_000
"""Of a longer list only this number of ledgers exist, and the log is not read: making them would take hours."""
_GROWTH_MAX = 1.5
_READ_TARGET = 20_000.0
_PLAN_TARGET_MS = 2_000.0


async def run(options: Options) -> Report:
    report = Report("long_log", "What does a long history of a log cost?")
    for store in options.stores:
        runs, lengths = Runs(), []
        async with cluster_on(store, options.directory) as cluster, connect(cluster.uri) as client:
            for length in options.listed_ledgers:
                log = f"log-{length}"
                await _make(client, log, length)
                lengths.append(length)
                if length <= _EXISTING_MAX:
                    for _ in range(options.rounds):
                        await _read(runs, store, client, log, length)
                await _plan(runs, store, cluster.uri, log, length, options.rounds)
                await _change(runs, store, client, log, length)
        for case in ("describe, p50", "open_writer, p50", "rotate, p50"):
            floor = runs.median(f"{store}: {case}", _ledgers(lengths[0]))
            for length in lengths:
                target = floor * _GROWTH_MAX if length > lengths[0] else None
                report.add(runs.row(f"{store}: {case}", _ledgers(length), "ms", floor=floor, target=target))
        for length in lengths:
            case = f"{store}: plan of a batch of Spark, p50"
            report.add(runs.row(case, _ledgers(length), "ms", target=_PLAN_TARGET_MS))
        for length in [each for each in lengths if each <= _EXISTING_MAX]:
            report.add(runs.row(f"{store}: full read", _ledgers(length), "ledgers/s", target=_READ_TARGET))
            report.add(runs.row(f"{store}: full read, client's processor", _ledgers(length), "µs/ledger"))
    return report


def _ledgers(length: int) -> str:
    return f"{length:,} ledgers"


async def _make(client: LogClient, log: str, length: int) -> None:
    """A log whose list has that many sealed ledgers, of which the newest exist."""
    now_us = time.time_ns() // 1000
    limit = asyncio.Semaphore(_LEDGERS_AT_ONCE)
    entry = b"".join(encode_entry(Columns([None], [b"x" * 100], [()]), epoch=1, append_time_us=now_us))

    facts = SealFacts(
        last_entry=0, message_count=1, byte_count=100, first_append_us=now_us, last_append_us=now_us
    )

    async def one() -> ListedLedger:
        async with limit:
            handle = await client.ledgers.create(QUORUM)
            handle.submit(entry)
            await handle.drain()
            await handle.close()
        return ListedLedger(ledger_id=handle.ledger_id, epoch=1, created_us=now_us, seal=facts)

    async def id_only() -> ListedLedger:
        async with limit:
            ledger_id = await client.ledgers.store.new_ledger_id()
        return ListedLedger(ledger_id=ledger_id, epoch=1, created_us=now_us, seal=facts)

    older = await asyncio.gather(*(id_only() for _ in range(length - min(length, _EXISTING_MAX))))
    listed = [*older, *await asyncio.gather(*(one() for _ in range(min(length, _EXISTING_MAX))))]
    listed.sort(key=lambda each: each.ledger_id)
    await client.create(log)
    ref = await client.logs.find(client.name(log))
    read = await client.logs.read(ref)
    record = replace(
        read.value,
        epoch=1,
        owner=Owner(instance="benchmark"),
        ledgers=tuple(listed),
        last_ledger_id=listed[-1].ledger_id,
        nonce=1,
    )
    assert isinstance(await client.logs.compare_and_set(ref, record, read.version), Applied)


async def _read(runs: Runs, store: str, client: LogClient, log: str, length: int) -> None:
    """A full read by a reader that knows nothing of the log."""
    stopwatch = Stopwatch(())
    count = 0
    async with client.reader(log, until="latest") as reader:
        async for _ in reader:
            count += 1
    assert count == length
    read = stopwatch.stop(count)
    runs.add(f"{store}: full read", _ledgers(length), read.entries_per_s)
    runs.add(f"{store}: full read, client's processor", _ledgers(length), read.client_us)


async def _plan(runs: Runs, store: str, uri: str, log: str, length: int, rounds: int) -> None:
    """The driver's part of a batch that reads all of the log."""
    for _ in range(rounds):
        started = time.perf_counter()
        plan = await plan_read(ReadOptions(metadata=uri, logs=NamedLogs((log,))))
        case = f"{store}: plan of a batch of Spark, p50"
        runs.add(case, _ledgers(length), (time.perf_counter() - started) * 1e3)
        assert sum(len(partition.extents) for partition in plan.partitions) == length


async def _change(runs: Runs, store: str, client: LogClient, log: str, length: int) -> None:
    """Medians of several calls. Each rotation is one of a ledger that has an entry."""

    async def timed(case: str, call: Callable[[], Awaitable[Any]]) -> Any:
        started = time.perf_counter()
        result = await call()
        runs.add(f"{store}: {case}, p50", _ledgers(length), (time.perf_counter() - started) * 1e3)
        return result

    for _ in range(_TRIALS):
        await timed("describe", lambda: client.describe(log))
        writer = await timed("open_writer", lambda: client.open_writer(log))
        await writer.append(b"x")
        await timed("rotate", writer.rotate)
        writer.abort()
