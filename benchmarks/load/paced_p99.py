"""p99 in ms of 1,000 appends a second of 1 KiB to a log, and of what is their floor: two rounds of bare servers."""

from __future__ import annotations

from pathlib import Path

from benchmarks.floors.paced_floor import measure_two_rounds
from benchmarks.histogram import Summary
from benchmarks.load.paced_appends import append_paced
from dlog.client import LogClient

CASE, FLOOR = "1,000 appends/s of 1 KiB, p99", "two rounds of bare servers, p99"
_PER_SECOND = 1000
_PADDING = bytes(1024)


async def appends_p99(client: LogClient, seconds: float) -> float:
    latencies: list[float] = []

    def on_acked(_: int, due: float, at: float) -> None:
        latencies.append(at - due)

    async with client.open_writer("paced", create=True) as writer:
        await append_paced(
            writer, per_second=_PER_SECOND, seconds=seconds, prefix=_PADDING, on_acked=on_acked
        )
    return Summary.of(latencies).p99 * 1e3


async def floor_p99(directory: Path, seconds: float) -> float:
    found = await measure_two_rounds(directory, per_second=_PER_SECOND, count=int(_PER_SECOND * seconds))
    return found.p99 * 1e3
