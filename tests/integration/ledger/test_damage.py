"""One replica's disk gives back other bytes than it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.errors import LogStoreError
from ledger.model import QuorumSizes
from tests.helpers.ledger.appender import client_of, payload_of, read_all
from tests.helpers.processes.cluster import Cluster, forked_cluster

pytestmark = pytest.mark.integration

ENTRIES = 200
MARK = b"0123456789abcdef"


def payload(entry_id: int) -> bytes:
    return payload_of(entry_id) + MARK


async def damage(cluster: Cluster, number: int) -> int:
    """Stop the bookie, flip a bit in every copy of MARK that it has stored, start it; returns how many."""
    assert await cluster.bookies[number].stop() == 0
    flipped = 0
    for path in cluster.bookie_directory(number).rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if MARK in data:
                flipped += data.count(MARK)
                path.write_bytes(data.replace(MARK, bytes([MARK[0] ^ 4]) + MARK[1:]))
    await cluster.restart(number)
    return flipped


@pytest.mark.parametrize("sizes", [(3, 3, 2), (3, 2, 2)], ids=["whole", "striped"])
async def test_damaged_copies_are_passed_over(sizes: tuple[int, int, int], tmp_path: Path) -> None:
    """Every read finds an intact copy; without one it says that the bytes are wrong, and never returns them."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        handle = await client.create(QuorumSizes(ensemble=sizes[0], write=sizes[1], ack=sizes[2]))
        for entry_id in range(ENTRIES):
            handle.submit(payload(entry_id))
        await handle.drain()
        await handle.close()
        assert await damage(cluster, 1) > 0
        assert await read_all(client, handle.ledger_id) == [payload(e) for e in range(ENTRIES)]
        for number in (0, 2):
            cluster.bookies[number].kill()
            await cluster.bookies[number].stop()
        with pytest.raises(LogStoreError):
            await read_all(client, handle.ledger_id)


async def test_recovery_takes_no_damage_for_absence(tmp_path: Path) -> None:
    """The writer is gone without close, and one replica is damaged: all that was acknowledged is recovered."""
    async with forked_cluster(tmp_path) as cluster:
        async with client_of(cluster.uri) as writer:
            handle = await writer.create(QuorumSizes())
            for entry_id in range(ENTRIES):
                handle.submit(payload(entry_id))
            await handle.drain()
        assert await damage(cluster, 2) > 0
        async with client_of(cluster.uri) as client:
            recovered = await client.open_with_recovery(handle.ledger_id)
            assert recovered.last_readable == ENTRIES - 1
            assert await read_all(client, handle.ledger_id) == [payload(e) for e in range(ENTRIES)]
