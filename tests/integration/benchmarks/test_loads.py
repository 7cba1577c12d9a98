"""Every load does what its benchmark reports, on real bookies and for an instant."""

import asyncio
import time
from pathlib import Path

import pytest

from benchmarks import read, takeover
from benchmarks.floors.paced_floor import measure_two_rounds
from benchmarks.floors.raw_floor import measure_floor
from benchmarks.floors.read_floor import measure_read_floor
from benchmarks.load import ledger_load, log_load
from benchmarks.load.ticks import Ticks
from benchmarks.machine import measure_fdatasync, measure_fdatasync_at_once
from benchmarks.options import quick
from dlog.client import connect
from ledger.config import Visibility
from tests.helpers.processes.cluster import running_cluster

pytestmark = pytest.mark.integration


async def test_ledger_appends_stay_within_their_window_and_are_counted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, ledger_load.ledger_client(cluster.uri) as client:
        for visibility in Visibility:
            found = await ledger_load.measure_throughput(
                client,
                [bookie.pid for bookie in cluster.bookies],
                entry_bytes=100,
                window=50,
                visibility=visibility,
                warm_up_s=0.05,
                seconds=0.2,
            )
            assert found.entries_per_s > 0
        assert len(await ledger_load.measure_latencies(client, entry_bytes=100, count=5)) == 5


async def test_a_log_is_written_and_read_back_whole(tmp_path: Path) -> None:
    messages = 3 * log_load.BATCH
    async with running_cluster(tmp_path) as cluster, await connect(cluster.uri) as client:
        await read._write_log(client, messages * log_load.MESSAGE_BYTES)
        assert await read._read_batches(client) == messages
        assert await read._read_messages(client) == messages
        async with client.open_writer("other", create=True) as writer:
            assert await log_load.measure_append_many(writer, warm_up_s=0.0, seconds=0.2) > 0
            assert await log_load.measure_submit(writer, warm_up_s=0.0, seconds=0.1) > 0
            assert len(await log_load.measure_latencies(writer, message_bytes=100, count=5)) == 5


async def test_takeovers_go_on_when_a_bookie_dies(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        assert len(await takeover._measure_takeovers(cluster.uri, 2)) == 2
        assert len(await takeover._measure_takeovers(cluster.uri, 1, hanging=cluster.bookies[0])) == 1
        cluster.bookies[0].kill()
        assert len(await takeover._measure_takeovers(cluster.uri, 2)) == 2


async def test_ticks_come_when_they_are_due() -> None:
    """Never before, and none is left out, also when one comes while another is worked on."""
    began, count = time.monotonic(), 0
    with Ticks(began, per_second=1000) as ticks:
        while count < 200:
            count += await ticks.next()
            assert time.monotonic() >= began + (count - 1) * ticks.interval_s
            if count % 7 == 0:
                await asyncio.sleep(0.003)
    assert count <= 1 + (time.monotonic() - began) / ticks.interval_s


async def test_floors_are_measured(tmp_path: Path) -> None:
    parsed = await measure_floor(tmp_path, entry_bytes=100, window=50, seconds=0.2, parsed=True)
    assert parsed.entries_per_s > 0
    assert await measure_read_floor(0.1) > 0
    two_rounds = await measure_two_rounds(tmp_path, per_second=500, count=20)
    assert two_rounds.count == 20
    assert two_rounds.smallest > 0
    assert measure_fdatasync(tmp_path, rounds=5).p50 > 0
    assert measure_fdatasync_at_once(tmp_path, files=3, rounds=5).count == 15


def test_a_quick_run_leaves_the_kept_results_alone(tmp_path: Path) -> None:
    assert quick(tmp_path).results is None
