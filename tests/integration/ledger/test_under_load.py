"""A pipelining writer on real bookies while they die, hang and come back, and the ledger goes away under it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import median

import pytest

from ledger.client import LedgerClient
from ledger.errors import LedgerFencedError, LedgerNotFoundError, LogStoreError
from ledger.model import EntryId, QuorumSizes
from ledger.writing.write_handle import WriteHandle
from tests.helpers.ledger.appender import client_of, payload_of, read_all, until
from tests.helpers.processes.cluster import Cluster, forked_cluster

pytestmark = pytest.mark.integration

QUICK = {"add_timeout_s": 0.7, "replace_backoff_s": 0.1, "probe_timeout_s": 0.4, "lost_member_s": 0.5}


class Pipeline:
    """Keeps adds in flight and remembers how far they were acknowledged, in the order in which that was told."""

    def __init__(self, handle: WriteHandle) -> None:
        self.handle = handle
        self.acked: list[int] = []
        self.failed: LogStoreError | None = None
        handle.listener = self
        self._stopping = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def on_progress(self, handle: WriteHandle, done_through: EntryId) -> None:
        self.acked.append(done_through)

    def on_failure(self, handle: WriteHandle, error: LogStoreError) -> None:
        self.failed = error

    @property
    def last_acked(self) -> int:
        return self.acked[-1] if self.acked else -1

    async def _run(self) -> None:
        while not self._stopping and self.failed is None:
            for _ in range(20):
                self.handle.submit(payload_of(self.handle.last_add_pushed + 1))
            await asyncio.sleep(0.005)
            await self.handle.wait_for_capacity(64 * 1024)

    async def more(self, count: int) -> None:
        goal = self.last_acked + count
        await until(lambda: self.last_acked >= goal or self.failed is not None, 30)
        assert self.failed is None, self.failed

    async def stop(self) -> None:
        self._stopping = True
        await self._task
        assert self.acked == sorted(set(self.acked)), "acknowledgements rise"


def index_of(cluster: Cluster, handle: WriteHandle, position: int) -> int:
    ids = [f"{bookie.host}:{bookie.port}" for bookie in cluster.bookies]
    return ids.index(handle.metadata.last_fragment.ensemble[position])


async def kill(cluster: Cluster, number: int) -> None:
    cluster.bookies[number].kill()
    await cluster.bookies[number].stop()


async def everything_is_there(client: LedgerClient, handle: WriteHandle) -> None:
    metadata = await handle.close()
    assert await read_all(client, handle.ledger_id) == [payload_of(e) for e in range(metadata.last_entry + 1)]


@pytest.mark.parametrize(
    "sizes",
    [pytest.param((3, 3, 2), id="whole", marks=pytest.mark.nightly), pytest.param((5, 3, 2), id="striped")],
)
async def test_several_bookies_die_under_load_one_after_another(
    sizes: tuple[int, int, int], tmp_path: Path
) -> None:
    """Each is replaced or, for want of a spare, done without; one that comes back is a spare again."""
    async with (
        forked_cluster(tmp_path, bookies=sizes[0] + 1) as cluster,
        client_of(cluster.uri, **QUICK) as client,
    ):
        handle = await client.create(QuorumSizes(ensemble=sizes[0], write=sizes[1], ack=sizes[2]))
        pipeline = Pipeline(handle)
        await pipeline.more(100)
        for position in (0, 2, 1):
            victim = index_of(cluster, handle, position)
            await kill(cluster, victim)
            await until(lambda: handle.failed_members == 0 and len(handle.metadata.fragments) > 1)
            await pipeline.more(100)
            await cluster.restart(victim)
        await pipeline.stop()
        assert pipeline.last_acked <= handle.lac
        await everything_is_there(client, handle)


async def test_bookies_that_hang_and_wake_are_done_without_and_taken_back(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri, **QUICK) as client:
        handle = await client.create(QuorumSizes())
        pipeline = Pipeline(handle)
        await pipeline.more(100)
        for number in range(3):
            cluster.bookies[number].pause()
            await until(lambda: handle.failed_members == 1)
            await pipeline.more(100)
            cluster.bookies[number].resume()
            await until(lambda: handle.failed_members == 0)
            await pipeline.more(100)
        await pipeline.stop()
        assert len(handle.metadata.fragments) == 1
        await everything_is_there(client, handle)


async def test_a_pause_of_all_bookies_is_survived(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri, **QUICK) as client:
        handle = await client.create(QuorumSizes())
        pipeline = Pipeline(handle)
        await pipeline.more(100)
        for bookie in cluster.bookies:
            bookie.pause()
        await until(lambda: handle.failed_members == 3)
        for bookie in cluster.bookies:
            bookie.resume()
        await pipeline.more(100)
        await until(lambda: handle.failed_members == 0)
        await pipeline.stop()
        await everything_is_there(client, handle)


async def test_recovery_after_kills_keeps_all_that_was_acknowledged(tmp_path: Path) -> None:
    """The writer changes ensembles under load; somebody takes the ledger over in the middle of it."""
    async with (
        forked_cluster(tmp_path, bookies=4) as cluster,
        client_of(cluster.uri, **QUICK) as client,
        client_of(cluster.uri, **QUICK) as other,
    ):
        handle = await client.create(QuorumSizes())
        pipeline = Pipeline(handle)
        await pipeline.more(100)
        await kill(cluster, index_of(cluster, handle, 1))
        await pipeline.more(10)
        recovered = await other.open_with_recovery(handle.ledger_id)
        await until(lambda: pipeline.failed is not None)
        await pipeline.stop()
        assert isinstance(pipeline.failed, LedgerFencedError)
        assert pipeline.last_acked <= recovered.last_readable
        entries = await read_all(other, handle.ledger_id)
        assert entries == [payload_of(e) for e in range(recovered.last_readable + 1)]


async def test_a_ledger_deleted_under_load_ends_its_writer_at_the_next_change(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path, bookies=4) as cluster, client_of(cluster.uri, **QUICK) as client:
        handle = await client.create(QuorumSizes())
        pipeline = Pipeline(handle)
        await pipeline.more(50)
        await client.delete(handle.ledger_id)
        await kill(cluster, index_of(cluster, handle, 0))
        await until(lambda: pipeline.failed is not None)
        await pipeline.stop()
        assert isinstance(pipeline.failed, (LedgerNotFoundError, LedgerFencedError))
        with pytest.raises(LogStoreError):
            await handle.add(b"late")


async def test_a_tailing_reader_hears_of_an_add_soon_after_its_writer(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as client,
        client_of(cluster.uri) as other,
    ):
        handle = await client.create(QuorumSizes())
        await handle.add(payload_of(0))
        reader = await other.open(handle.ledger_id)
        adds, delays = [], []
        loop = asyncio.get_running_loop()
        for entry_id in range(1, 30):
            waiting = asyncio.create_task(reader.wait_for_lac(entry_id - 1, timeout_s=60))
            await asyncio.sleep(0.02)
            began = loop.time()
            await handle.add(payload_of(entry_id))
            added = loop.time()
            assert await waiting == entry_id
            adds.append(added - began)
            delays.append(loop.time() - added)
        # An add is what the machine can do now: a round trip to three bookies and their disks.
        assert median(delays) < 10 * median(adds) + 0.01, (adds, delays)
        await reader.close()
