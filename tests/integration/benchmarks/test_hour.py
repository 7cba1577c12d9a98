"""The parts of the benchmark `hour` on real bookies: the load, the tailing process, and the counts of copies."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.hour.load import Load, log_name
from benchmarks.hour.messages import ReadCheck
from benchmarks.hour.watch_process import Watch
from dlog.client import connect
from tests.helpers.processes.cluster import Cluster, running_cluster
from tests.helpers.processes.python import start_python

pytestmark = pytest.mark.integration

LOGS = 3
WAIT_S = 30.0


def last_line(progress: Path) -> dict[str, Any]:
    """What the tailing process has reported last."""
    lines = progress.read_text().rpartition("\n")[0].splitlines() if progress.exists() else []
    return json.loads(lines[-1]) if lines else {}


async def tailed(progress: Path, numbers: list[int]) -> None:
    """Return when the tailing process has got this number of messages of each log."""
    async with asyncio.timeout(WAIT_S):
        while last_line(progress).get("next") != numbers:  # noqa: ASYNC110 -- it is another process
            await asyncio.sleep(0.05)
    assert last_line(progress)["faulty"] == []


async def load_of(cluster: Cluster, progress: Path) -> Load:
    """Appends of half a second, in three logs, of which the last is then deleted; all were read by the tail."""
    async with connect(cluster.uri) as client:
        load = await Load.open(client, LOGS, 300, time.monotonic())
        arguments = ["-m", "benchmarks.hour.tail_process", cluster.uri, str(progress), str(LOGS)]
        tail = await start_python(arguments)
        try:
            appending = asyncio.create_task(load.run())
            while load.every[0].submitted < 50:  # noqa: ASYNC110 -- a count without an event
                await asyncio.sleep(0.01)
            await load.remove(load.every[2])
            load.end()
            await appending
            for log in list(load.logs):
                await load.remove(log)
            await tailed(progress, [log.submitted for log in load.every])
            load.every[2].deleted = await client.delete(log_name(2))
            assert tail.running
        finally:
            await tail.stop()
    return load


async def test_what_was_acknowledged_is_read_and_copies_are_counted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        load = await load_of(cluster, tmp_path / "progress")
        assert load.failures == []
        assert [log.number for log in load.remaining] == [0, 1]
        load.seconds.finish(int(load.now_s()) + 1)
        assert sum(load.seconds.acked) == sum(log.submitted for log in load.every)
        async with connect(cluster.uri) as client:
            for log in load.remaining:
                check = ReadCheck(log.number)
                async with client.reader(log_name(log.number), until="latest") as reader:
                    async for message in reader:
                        check.take(bytes(message.payload or b""))
                assert check.faults(log.acked) == []
            watch = Watch(client.ledgers, cluster.directory, load.began)
            whole = await watch.copies()
            assert (whole.least_copies, whole.short_entries, whole.least_intact) == (3, 0, 3)
            cluster.bookies[0].kill()
            await cluster.bookies[0].stop()
            short = await watch.copies()
            entries = whole.by_copies["3"]
            assert short.by_copies == {"2": entries}
            assert (short.short_entries, short.short_fragments) == (entries, whole_fragments(load))
            assert (short.least_intact, short.mean_intact) == (2, 2)
            assert await cluster.add_bookie() == 3
            space = await watch.space()
            assert set(space.entry_logs_mb) == {f"bookie-{number}" for number in range(4)}
            await watch.close()


def whole_fragments(load: Load) -> int:
    """Each remaining log has one ledger, of one fragment."""
    return len(load.remaining)
