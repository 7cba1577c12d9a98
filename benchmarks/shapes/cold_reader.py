"""Appends at a fixed rate, alone and while another process reads a long cold log from the same bookies.

The floor is what bare servers that only sync need for the two rounds of a strict append, alone and next to the same
reader of the same bookies: what a machine of few cores takes from any server while the reader and its bookies run.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from benchmarks.load.paced_p99 import CASE, FLOOR, appends_p99, floor_p99
from benchmarks.machine import drop_from_memory
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.rows import Runs
from dlog.client import LogClient, connect
from tests.helpers.processes.cluster import Cluster, running_cluster
from tests.helpers.repository import ROOT

_COLD = "cold"
_MESSAGES = 100
_MESSAGE_BYTES = 1024
_ALONE, _WITH_READER = "alone", "while a cold log is read"
_RISE_MAX = 3.0


async def measure(options: Options, runs: Runs) -> None:
    seconds = 4 * options.seconds
    for _ in range(options.rounds):
        async with running_cluster(options.directory) as cluster:
            async with connect(cluster.uri) as client:
                await _fill(client, 16 * options.read_bytes)
            for number, bookie in enumerate(list(cluster.bookies)):
                await bookie.stop()
                await cluster.restart(number)
            async with connect(cluster.uri) as client:
                await appends_p99(client, options.warm_up_s)
                runs.add(CASE, _ALONE, await appends_p99(client, seconds))
                runs.add(FLOOR, _ALONE, await floor_p99(options.directory, seconds))
                async with _reader(cluster, options, runs):
                    runs.add(CASE, _WITH_READER, await appends_p99(client, seconds))
                async with _reader(cluster, options, runs):
                    runs.add(FLOOR, _WITH_READER, await floor_p99(options.directory, seconds))


def rows(options: Options, runs: Runs) -> Iterator[Row]:
    alone = runs.median(CASE, _ALONE)
    floors = {contender: runs.median(FLOOR, contender) for contender in (_ALONE, _WITH_READER)}
    yield runs.row(CASE, _ALONE, "ms", floor=floors[_ALONE])
    yield runs.row(CASE, _WITH_READER, "ms", floor=floors[_WITH_READER], target=_RISE_MAX * alone)
    yield runs.row("the reader", _COLD, "MB/s")


async def _fill(client: LogClient, size: int) -> None:
    batch = [bytes(_MESSAGE_BYTES)] * _MESSAGES
    async with client.open_writer(_COLD, create=True) as writer:
        for _ in range(size // (_MESSAGES * _MESSAGE_BYTES)):
            await writer.submit_many(batch)


@asynccontextmanager
async def _reader(cluster: Cluster, options: Options, runs: Runs) -> AsyncIterator[None]:
    """A process that reads the log, which is on the disk only, as fast as it can from the warm-up to the end."""
    program = (
        "import sys, time, dlog\n"
        "with dlog.connect(sys.argv[1]) as client:\n"
        "    print(flush=True)\n"
        "    began, read_bytes = time.perf_counter(), 0\n"
        "    while True:\n"
        "        with client.reader(sys.argv[2], until='latest') as reader:\n"
        "            for batch in reader.batches():\n"
        "                read_bytes += sum(len(message.payload) for message in batch)\n"
        "                if time.perf_counter() - began > float(sys.argv[3]):\n"
        "                    print(read_bytes / (time.perf_counter() - began) / 1e6)\n"
        "                    sys.exit()\n"
    )
    drop_from_memory(cluster.directory)
    seconds = options.warm_up_s + 4 * options.seconds
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, cluster.uri, _COLD, str(seconds)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    await asyncio.sleep(options.warm_up_s)
    yield
    printed, _ = await process.communicate()
    assert process.returncode == 0
    runs.add("the reader", _COLD, float(printed))
