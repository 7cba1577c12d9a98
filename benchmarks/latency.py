"""How long do appends and deliveries take while a log is used: at a steady rate, at the tail, during rotations?

Strict visibility, 1 KiB messages. Rates are kept whatever the acknowledgements do (open loop), and each latency counts
from when the append was due, by timers of the kernel. Reader and writer are clients of their own in one process.

The floor of the pauses is the longest one in as many intervals of the same load without a rotation, which is due to
the machine. On ZooKeeper a tail also needs the rounds of `benchmarks/floors/seal_rounds.py`, measured next to it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

from benchmarks.floors.paced_floor import measure_two_rounds
from benchmarks.floors.seal_rounds import measure_seal_rounds
from benchmarks.histogram import Summary
from benchmarks.load.paced_appends import append_paced
from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.stores import ZOOKEEPER, cluster_on
from dlog.client import LogClient, connect
from dlog.write.writer import LogWriter
from ledger.model import LedgerId
from tests.helpers.processes.cluster import Cluster

_PADDING = b"x" * 1000
_FAST, _SLOW, _IDLE = 5000, 1000, 50
"""Appends a second: of the load, during rotations, and of a log that is nearly idle."""
_ROTATIONS = 200
"""Of fewer the p99 would be the longest pause."""
_ROTATION_INTERVAL_S = 0.25
_DEATHS = 20
_DEATH_INTERVAL_S = 1.0
_SETTLE_S = 1.0


async def run(options: Options) -> Report:
    report = Report("latency", "How long do appends and deliveries take while a log is used?")
    for store in options.stores:
        async with (
            cluster_on(store, options.directory) as cluster,
            connect(cluster.uri) as writing,
            connect(cluster.uri) as reading,
        ):
            gc.freeze()  # as docs/performance.md advises: what has been imported need not be looked at again
            await _steady(report, store, writing, reading, options)
            await _idle(report, store, writing, reading, options)
            await _rotations(report, store, writing, reading)
            if store == ZOOKEEPER:
                await _seal_rounds(report, store, cluster, writing, reading)
        async with (
            cluster_on(store, options.directory, bookies=4) as cluster,
            connect(cluster.uri) as writing,
        ):
            await _deaths(report, store, cluster, writing)
    return report


class _Tail:
    """When the message with each number came to a reader at the tail."""

    def __init__(self) -> None:
        self.delivered: dict[int, float] = {}

    async def follow(self, client: LogClient, log: str) -> None:
        async with client.reader(log) as reader:
            async for batch in reader.batches():
                now = time.monotonic()
                for message in batch:
                    self.delivered[_number(bytes(message.payload or b""))] = now


@asynccontextmanager
async def _tailed(reading: LogClient, log: str) -> AsyncIterator[_Tail]:
    tail = _Tail()
    task = asyncio.create_task(tail.follow(reading, log))
    try:
        await asyncio.sleep(_SETTLE_S)
        yield tail
        await asyncio.sleep(_SETTLE_S)
    finally:
        task.cancel()
        await asyncio.wait([task])


def _number(payload: bytes) -> int:
    return int(payload[len(_PADDING) :])


async def _append(writer: LogWriter, per_second: int, seconds: float) -> dict[int, tuple[float, float]]:
    """When each append was due and when it was acknowledged."""
    acked: dict[int, tuple[float, float]] = {}

    def on_acked(number: int, due: float, at: float) -> None:
        acked[number] = (due, at)

    await append_paced(writer, per_second=per_second, seconds=seconds, prefix=_PADDING, on_acked=on_acked)
    return acked


async def _steady(
    report: Report, store: str, writing: LogClient, reading: LogClient, options: Options
) -> None:
    seconds = options.seconds * 4
    async with writing.open_writer("steady", create=True) as writer, _tailed(reading, "steady") as tail:
        acked = await _append(writer, _FAST, seconds)
    found = Summary.of(at - due for due, at in acked.values())
    floor = await measure_two_rounds(options.directory, per_second=_FAST, count=int(_FAST * seconds))
    case = f"{store}: {_FAST:,} appends/s of 1 KiB"
    report.add(_row(case, "append, p50", found.p50, floor=floor.p50))
    report.add(_row(case, "append, p99", found.p99, 3.0, floor.p99))
    report.add(_row(case, "append, p99.9", found.p999, 10.0, floor.p999))
    report.add(_row(case, "append to tail, p99", _to_tail(acked, tail).p99, 10.0))


async def _idle(report: Report, store: str, writing: LogClient, reading: LogClient, options: Options) -> None:
    seconds = options.seconds * 4
    async with writing.open_writer("idle", create=True) as writer, _tailed(reading, "idle") as tail:
        acked = await _append(writer, _IDLE, seconds)
    floor = await measure_two_rounds(options.directory, per_second=_IDLE, count=int(_IDLE * seconds))
    case = f"{store}: {_IDLE} appends/s of 1 KiB"
    latency = Summary.of(at - due for due, at in acked.values())
    report.add(_row(case, "append, p50", latency.p50, floor=floor.p50))
    report.add(_row(case, "append to tail, p50", _to_tail(acked, tail).p50, 1.0, floor=floor.p50))


def _to_tail(acked: dict[int, tuple[float, float]], tail: _Tail) -> Summary:
    missing = set(acked) - set(tail.delivered)
    assert not missing, f"{len(missing)} messages did not come to the tail"
    return Summary.of(tail.delivered[number] - due for number, (due, _) in acked.items())


async def _rotations(report: Report, store: str, writing: LogClient, reading: LogClient) -> None:
    async def rotate(writer: LogWriter) -> None:
        await writer.rotate()

    async def leave(_writer: LogWriter) -> None:
        pass

    async with writing.open_writer("left", create=True) as writer, _tailed(reading, "left") as tail:
        floor = await _pauses_around(writer, tail, leave)
    async with writing.open_writer("rotated", create=True) as writer, _tailed(reading, "rotated") as tail:
        acks, deliveries = await _pauses_around(writer, tail, rotate)
    case = f"{store}: rotation under {_SLOW:,} appends/s"
    report.add(_row(case, "longest pause of the appender, p50", acks.p50, floor=floor[0].p50))
    report.add(_row(case, "longest pause of the appender, p99", acks.p99, 5.0, floor[0].p99))
    report.add(_row(case, "longest pause of a tail, p50", deliveries.p50, floor=floor[1].p50))
    report.add(_row(case, "longest pause of a tail, p99", deliveries.p99, 10.0, floor[1].p99))


async def _seal_rounds(
    report: Report, store: str, cluster: Cluster, writing: LogClient, reading: LogClient
) -> None:
    """What ZooKeeper needs until a tail may go on, while appends and deliveries come without a rotation."""
    measuring = asyncio.create_task(
        measure_seal_rounds(cluster.uri, count=_ROTATIONS, interval_s=_ROTATION_INTERVAL_S)
    )
    async with writing.open_writer("watched", create=True) as writer, _tailed(reading, "watched"):
        while not measuring.done():
            await _append(writer, _SLOW, _ROTATION_INTERVAL_S)
    found = await measuring
    case = f"{store}: what a tail waits for at a rotation"
    report.add(_row(case, "bare rounds, p50", found.p50))
    report.add(_row(case, "bare rounds, p99", found.p99))


async def _pauses_around(
    writer: LogWriter, tail: _Tail, act: Callable[[LogWriter], Awaitable[None]]
) -> tuple[Summary, Summary]:
    """The longest pauses of acknowledgements and of deliveries in the intervals that begin with `act`."""
    instants: list[float] = []

    async def act_again_and_again() -> None:
        for _ in range(_ROTATIONS):
            await asyncio.sleep(_ROTATION_INTERVAL_S)
            instants.append(time.monotonic())
            await act(writer)

    acting = asyncio.create_task(act_again_and_again())
    acked = await _append(writer, _SLOW, (_ROTATIONS + 1) * _ROTATION_INTERVAL_S)
    await acting
    await asyncio.sleep(_SETTLE_S)
    acks = _pauses(sorted(at for _, at in acked.values()), instants)
    return acks, _pauses(sorted(set(tail.delivered.values())), instants)


async def _deaths(report: Report, store: str, cluster: Cluster, writing: LogClient) -> None:
    """Again and again a bookie of the ledger is killed while appends come, and started again afterwards."""
    instants: list[float] = []
    ids = [f"{bookie.host}:{bookie.port}" for bookie in cluster.bookies]

    async def kill(writer: LogWriter) -> None:
        for number in range(_DEATHS):
            await asyncio.sleep(_DEATH_INTERVAL_S)
            while (position := writer.position) is None:  # noqa: ASYNC110 - it has no event for this
                await asyncio.sleep(0.01)
            metadata = (await writing.ledgers.store.read_ledger(LedgerId(position.ledger_id))).value
            ensemble = metadata.last_fragment.ensemble
            victim = ids.index(ensemble[number % len(ensemble)])
            instants.append(time.monotonic())
            cluster.bookies[victim].kill()
            await asyncio.sleep(_DEATH_INTERVAL_S)
            await cluster.bookies[victim].stop()
            await cluster.restart(victim)

    async with writing.open_writer("bereaved", create=True) as writer:
        killing = asyncio.create_task(kill(writer))
        acked: dict[int, tuple[float, float]] = {}
        while not killing.done():
            acked |= {
                len(acked) + number: times
                for number, times in (await _append(writer, _SLOW, _DEATH_INTERVAL_S)).items()
            }
        await killing
    case = f"{store}: a bookie dies under {_SLOW:,} appends/s"
    gaps = _pauses(sorted(at for _, at in acked.values()), instants)
    late = Summary.of(
        max(at - due for due, at in acked.values() if due > begin - 1 and due < begin + _ROTATION_INTERVAL_S)
        for begin in instants
    )
    report.add(_row(case, "longest gap between acknowledgements, p50", gaps.p50, 20.0))
    report.add(_row(case, "the same, the worst", gaps.largest))
    report.add(_row(case, "longest latency, p50", late.p50, 60.0))
    report.add(_row(case, "the same, the worst", late.largest))


def _pauses(arrivals: list[float], instants: list[float]) -> Summary:
    """Of each interval that begins at one of the instants, the longest time between two arrivals that touches it."""
    gaps = list(pairwise(arrivals))
    return Summary.of(
        max(
            later - earlier
            for earlier, later in gaps
            if later > begin and earlier < begin + _ROTATION_INTERVAL_S
        )
        for begin in instants
        if begin < arrivals[-1] - _ROTATION_INTERVAL_S
    )


def _row(
    case: str, contender: str, seconds: float, target_ms: float | None = None, floor: float | None = None
) -> Row:
    return Row(
        contender=contender,
        case=case,
        unit="ms",
        value=seconds * 1e3,
        target=target_ms,
        floor=None if floor is None else floor * 1e3,
    )
