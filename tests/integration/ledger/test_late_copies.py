"""What a slow member has not stored yet as a ledger, or its client, is closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.client import LedgerClient
from ledger.errors import RecordNotFoundError
from ledger.inspection.copies import Verdict
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import BookieId, LedgerId, QuorumSizes
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.cluster import Cluster, forked_cluster

pytestmark = pytest.mark.integration

ENTRIES = 300
PAYLOAD = bytes(64 * 1024)
"""Together far more than a socket takes."""


async def _write(client: LedgerClient) -> LedgerId:
    handle = await client.create(QuorumSizes())
    for _ in range(ENTRIES):
        handle.submit(PAYLOAD)
    await handle.drain()
    await handle.close()
    return handle.ledger_id


async def _connect_all(client: LedgerClient) -> None:
    handle = await client.create(QuorumSizes())
    await handle.add(b"a connection to each member")
    await asyncio.sleep(0.2)
    await handle.close()


async def _verdicts(cluster: Cluster, ledger_id: LedgerId) -> dict[Verdict, int]:
    async with client_of(cluster.uri) as client:
        metadata = (await client.store.read_ledger(ledger_id)).value
        audit = CopyAudit(client)
        found = await audit.audit(ledger_id, metadata, metadata.last_entry)
        await audit.close()
        return dict(found.verdicts)


async def _missing(cluster: Cluster, ledger_id: LedgerId) -> tuple[BookieId, ...]:
    """The bookies in the ledger's mark."""
    async with client_of(cluster.uri) as client:
        try:
            return tuple((await client.store.repair.read_mark(ledger_id)).value.missing)
        except RecordNotFoundError:
            return ()


async def test_a_client_that_closes_waits_for_a_member_that_is_behind(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster:
        async with client_of(cluster.uri) as client:
            await _connect_all(client)
            cluster.bookies[2].pause()
            ledger_id = await _write(client)
            asyncio.get_running_loop().call_later(0.3, cluster.bookies[2].resume)
        assert await _verdicts(cluster, ledger_id) == {Verdict.COMPLETE: ENTRIES}
        assert await _missing(cluster, ledger_id) == ()


async def test_what_a_member_that_hangs_misses_is_marked_as_the_client_closes(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster:
        hung = BookieId(f"{cluster.bookies[2].host}:{cluster.bookies[2].port}")
        async with client_of(cluster.uri) as client:
            await _connect_all(client)
            cluster.bookies[2].pause()
            ledger_id = await _write(client)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 5.0
        cluster.bookies[2].resume()
        assert await _missing(cluster, ledger_id) == (hung,)
        verdicts = await _verdicts(cluster, ledger_id)
        assert verdicts.get(Verdict.COMPLETE, 0) < ENTRIES == sum(verdicts.values())


async def test_a_ledger_that_is_closed_without_a_lost_member_is_marked(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster:
        lost = BookieId(f"{cluster.bookies[2].host}:{cluster.bookies[2].port}")
        async with client_of(cluster.uri) as client:
            await _connect_all(client)
            cluster.bookies[2].kill()
            ledger_id = await _write(client)
        assert await _missing(cluster, ledger_id) == (lost,)
