"""Writers while bookies die, hang, come back, or are too few."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.errors import AddFailedError
from ledger.model import QuorumSizes
from tests.helpers.ledger.appender import Appender, client_of, payload_of, read_all, until
from tests.helpers.processes.cluster import forked_cluster

pytestmark = pytest.mark.integration


async def test_a_dead_bookie_is_replaced_by_a_spare(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path, bookies=4) as cluster, client_of(cluster.uri) as client:
        appender = Appender(await client.create(QuorumSizes()))
        await appender.reached(10)
        ids = [f"{bookie.host}:{bookie.port}" for bookie in cluster.bookies]
        victim = ids.index(appender.handle.metadata.last_fragment.ensemble[0])
        cluster.bookies[victim].kill()
        await until(lambda: len(appender.handle.metadata.fragments) > 1)
        await appender.reached(appender.acked + 20)
        await appender.stop()
        metadata = await appender.handle.close()
        assert ids[victim] not in metadata.last_fragment.ensemble
        assert len(set(metadata.last_fragment.ensemble)) == 3
        assert len(await read_all(client, appender.handle.ledger_id)) >= appender.acked + 1


async def test_without_a_spare_appends_go_on_and_the_bookie_is_taken_back(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        appender = Appender(await client.create(QuorumSizes()))
        await appender.reached(10)
        cluster.bookies[1].kill()
        await appender.reached(appender.acked + 30)
        assert appender.handle.failed_members == 1
        await cluster.bookies[1].stop()
        await cluster.restart(1)
        await until(lambda: appender.handle.failed_members == 0)
        # With the returned bookie counting again, another one may go.
        cluster.bookies[0].kill()
        await appender.reached(appender.acked + 30)
        await appender.stop()
        assert len(appender.handle.metadata.fragments) == 1


async def test_an_idle_writer_replaces_a_lost_member(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path, bookies=4) as cluster,
        client_of(cluster.uri, lost_member_s=1.0) as client,
    ):
        handle = await client.create(QuorumSizes())
        await handle.add(b"then idle")
        ids = [f"{bookie.host}:{bookie.port}" for bookie in cluster.bookies]
        victim = handle.metadata.last_fragment.ensemble[2]
        cluster.bookies[ids.index(victim)].kill()
        await until(lambda: victim not in handle.metadata.last_fragment.ensemble)


async def test_too_few_bookies_end_the_handle_with_a_typed_error(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri, quorum_timeout_s=1.0) as client,
    ):
        handle = await client.create(QuorumSizes())
        await handle.add(b"zero")
        for bookie in cluster.bookies[:2]:
            bookie.kill()
        with pytest.raises(AddFailedError, match="fewer than its ack quorum of 2") as caught:
            await handle.add(b"one")
        assert caught.value.lac == 0
        assert handle.unconfirmed() == [(1, b"one")]


async def test_a_hung_bookie_neither_stops_appends_nor_fills_memory(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri, add_timeout_s=0.5, send_queue_bytes_max=4 * 1024 * 1024) as client,
    ):
        handle = await client.create(QuorumSizes())
        await handle.add(payload_of(0))
        cluster.bookies[2].pause()
        try:
            payload = bytes(64 * 1024)
            async with asyncio.timeout(20):
                for _ in range(400):
                    handle.submit(payload)
                    await handle.wait_for_capacity(1024 * 1024)
                await handle.drain()
            assert handle.failed_members == 1
        finally:
            cluster.bookies[2].resume()
