"""Open with recovery against live writers, dead bookies and other recoverers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.errors import LedgerFencedError, LedgerRecoveryError
from ledger.model import LedgerState, QuorumSizes
from tests.helpers.ledger.appender import Appender, client_of, payload_of, read_all
from tests.helpers.processes.cluster import forked_cluster

pytestmark = pytest.mark.integration


async def test_recovery_fences_a_live_writer_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as client,
        client_of(cluster.uri) as other,
    ):
        for _ in range(5):
            appender = Appender(await client.create(QuorumSizes()))
            await appender.reached(20)
            recovered = await other.open_with_recovery(appender.handle.ledger_id)
            acked = appender.acked
            assert isinstance(await appender.refused(), LedgerFencedError)
            assert recovered.closed
            assert recovered.last_readable >= acked
            assert appender.acked <= recovered.last_readable
            entries = await read_all(other, appender.handle.ledger_id)
            assert entries == [payload_of(e) for e in range(recovered.last_readable + 1)]
            assert recovered.metadata.length == sum(len(entry) for entry in entries)
            with pytest.raises(LedgerFencedError):
                await appender.handle.close()


async def test_recovery_keeps_a_pipeline_in_flight_without_holes(tmp_path: Path) -> None:
    """Hundreds of adds are in flight when the fence comes: a prefix survives, and all that was confirmed."""
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as client,
        client_of(cluster.uri) as other,
    ):
        handle = await client.create(QuorumSizes())
        for entry_id in range(5000):
            handle.submit(payload_of(entry_id))
        await handle.wait(500)
        recovered = await other.open_with_recovery(handle.ledger_id)
        assert recovered.last_readable >= handle.lac
        assert await read_all(other, handle.ledger_id) == [
            payload_of(e) for e in range(recovered.last_readable + 1)
        ]


async def test_concurrent_recoverers_agree(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        handle = await client.create(QuorumSizes())
        for entry_id in range(1000):
            handle.submit(payload_of(entry_id))
        await handle.wait(100)
        async with (
            client_of(cluster.uri) as one,
            client_of(cluster.uri) as two,
            client_of(cluster.uri) as three,
        ):
            found = await asyncio.gather(
                *(recoverer.open_with_recovery(handle.ledger_id) for recoverer in (one, two, three, three))
            )
        assert len({recovered.metadata for recovered in found}) == 1
        assert found[0].last_readable >= handle.lac


async def test_an_empty_ledger_recovers_to_nothing(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        handle = await client.create(QuorumSizes())
        async with client_of(cluster.uri) as other:
            recovered = await other.open_with_recovery(handle.ledger_id)
        assert (recovered.last_readable, recovered.metadata.length) == (-1, 0)
        with pytest.raises(LedgerFencedError):
            await handle.add(b"too late")


async def test_one_dead_bookie_does_not_block_recovery_two_do(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        handle = await client.create(QuorumSizes())
        await handle.add(b"zero")
        cluster.bookies[0].kill()
        await handle.add(b"one")
        cluster.bookies[1].kill()
        async with client_of(cluster.uri) as other:
            with pytest.raises(LedgerRecoveryError, match="start its bookies"):
                await other.open_with_recovery(handle.ledger_id)
            stored = await other.store.read_ledger(handle.ledger_id)
            assert stored.value.state is LedgerState.IN_RECOVERY
            await cluster.bookies[1].stop()
            await cluster.restart(1)
            recovered = await other.open_with_recovery(handle.ledger_id)
            assert recovered.last_readable == 1
            assert await read_all(other, handle.ledger_id) == [b"zero", b"one"]


async def test_a_hung_bookie_does_not_block_recovery(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        handle = await client.create(QuorumSizes())
        for entry_id in range(50):
            handle.submit(payload_of(entry_id))
        await handle.drain()
        cluster.bookies[2].pause()
        try:
            # No timeout of the client's may be what ends the wait for the third bookie.
            patient = dict.fromkeys(("read_timeout_s", "add_timeout_s", "quorum_timeout_s"), 600.0)
            async with client_of(cluster.uri, **patient) as other, asyncio.timeout(30):
                recovered = await other.open_with_recovery(handle.ledger_id)
            assert recovered.last_readable == 49
        finally:
            cluster.bookies[2].resume()
