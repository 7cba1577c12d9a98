"""Appends at a fixed rate, alone and while another process reads a long cold log from the same bookies."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator

from benchmarks.histogram import Summary
from benchmarks.load.paced_appends import append_paced
from benchmarks.machine import drop_from_memory
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.rows import Runs
from dlog.client import LogClient, connect
from tests.helpers.processes.cluster import Cluster, running_cluster
from tests.helpers.repository import ROOT

_PER_SECOND = 1000
_PADDING = bytes(1024)
_COLD = "cold"
_MESSAGES = 100
_MESSAGE_BYTES = 1024
_CASE = "1,000 appends/s of 1 KiB, p99"
_ALONE, _WITH_READER = "alone", "while a cold log is read"
_RISE_MAX = 3.0


async def measure(options: Options, runs: Runs) -> None:
    for _ in range(options.rounds):
        async with running_cluster(options.directory) as cluster:
            async with connect(cluster.uri) as client:
                await _fill(client, 4 * options.read_bytes)
            for number, bookie in enumerate(list(cluster.bookies)):
                await bookie.stop()
                await cluster.restart(number)
            drop_from_memory(cluster.directory)
            async with connect(cluster.uri) as client:
                await _appended(client, options.warm_up_s)
                runs.add(_CASE, _ALONE, await _appended(client, 4 * options.seconds))
                reading = asyncio.create_task(_read(cluster))
                await asyncio.sleep(options.warm_up_s)
                runs.add(_CASE, _WITH_READER, await _appended(client, 4 * options.seconds))
                runs.add("the reader", _COLD, await reading)


def rows(options: Options, runs: Runs) -> Iterator[Row]:
    alone = runs.median(_CASE, _ALONE)
    yield runs.row(_CASE, _ALONE, "ms")
    yield runs.row(_CASE, _WITH_READER, "ms", floor=alone, target=_RISE_MAX * alone)
    yield runs.row("the reader", _COLD, "MB/s")


async def _fill(client: LogClient, size: int) -> None:
    batch = [bytes(_MESSAGE_BYTES)] * _MESSAGES
    async with client.open_writer(_COLD, create=True) as writer:
        for _ in range(size // (_MESSAGES * _MESSAGE_BYTES)):
            await writer.submit_many(batch)


async def _appended(client: LogClient, seconds: float) -> float:
    """p99 in ms."""
    latencies: list[float] = []

    def on_acked(_: int, due: float, at: float) -> None:
        latencies.append(at - due)

    async with client.open_writer("paced", create=True) as writer:
        await append_paced(
            writer, per_second=_PER_SECOND, seconds=seconds, prefix=_PADDING, on_acked=on_acked
        )
    return Summary.of(latencies).p99 * 1e3


async def _read(cluster: Cluster) -> float:
    """MB/s of a whole read by a process of its own."""
    program = (
        "import sys, dlog\n"
        "with dlog.connect(sys.argv[1]) as client, client.reader(sys.argv[2], until='latest') as reader:\n"
        "    print(sum(len(message.payload) for batch in reader.batches() for message in batch))\n"
    )
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, cluster.uri, _COLD), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return int(printed) / (time.perf_counter() - began) / 1e6
