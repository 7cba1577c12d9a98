"""Adds and reads of ledgers on real bookies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.config import Visibility
from ledger.errors import (
    ConfigurationError,
    EntryTooLargeError,
    LedgerClosedError,
    LedgerNotFoundError,
    NotEnoughBookiesError,
    UnauthorizedError,
)
from ledger.model import ENTRY_BYTES_MAX, DigestType, QuorumSizes
from tests.helpers.ledger.appender import client_of, payload_of, read_all
from tests.helpers.processes.cluster import forked_cluster

pytestmark = pytest.mark.integration


async def test_what_was_added_is_read_back(tmp_path: Path) -> None:
    """Every digest type and several quorums: pipelined adds, close, then all entries from a second client."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as writer:
        ledgers = []
        for digest_type in DigestType:
            for sizes in ((3, 3, 2), (3, 2, 2), (3, 2, 1), (1, 1, 1)):
                quorum = QuorumSizes(ensemble=sizes[0], write=sizes[1], ack=sizes[2])
                handle = await writer.create(quorum, digest_type=digest_type, password=b"")
                for entry_id in range(300):
                    assert handle.submit(payload_of(entry_id)) == entry_id
                await handle.drain()
                metadata = await handle.close()
                assert (metadata.last_entry, metadata.length) == (
                    299,
                    sum(len(payload_of(e)) for e in range(300)),
                )
                ledgers.append(handle.ledger_id)
        async with client_of(cluster.uri) as reader:
            for ledger_id in ledgers:
                assert await read_all(reader, ledger_id) == [payload_of(e) for e in range(300)]


async def test_an_acknowledged_add_is_visible_to_every_later_reader(tmp_path: Path) -> None:
    """Strict visibility: a reader opened after add() returned reads the entry, while the ledger is open."""
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as writer,
        client_of(cluster.uri) as reader,
    ):
        handle = await writer.create(QuorumSizes())
        for entry_id in range(30):
            await handle.add(payload_of(entry_id))
            assert await read_all(reader, handle.ledger_id) == [payload_of(e) for e in range(entry_id + 1)]
        assert (await reader.open(handle.ledger_id)).metadata == handle.metadata


async def test_a_fast_writer_publishes_its_lac_when_idle(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        handle = await client.create(QuorumSizes(), visibility=Visibility.FAST)
        entry_id = await handle.add(b"alone")
        reader = await client.open(handle.ledger_id)
        async with asyncio.timeout(30):
            while await reader.wait_for_lac(-1, timeout_s=1.0) < entry_id:
                pass
        assert bytes((await reader.read(0, 0))[0].payload) == b"alone"


async def test_a_tailing_reader_follows_and_sees_the_close(tmp_path: Path) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri) as writer,
        client_of(cluster.uri) as client,
    ):
        handle = await writer.create(QuorumSizes())
        reader = await client.open(handle.ledger_id)
        seen: list[bytes] = []

        async def tail() -> None:
            while not (reader.closed and len(seen) > reader.last_readable):
                readable = await reader.wait_for_lac(len(seen) - 1, timeout_s=2.0)
                if readable >= len(seen):
                    seen.extend(bytes(entry.payload) for entry in await reader.read(len(seen), readable))

        task = asyncio.create_task(tail())
        for entry_id in range(100):
            await handle.add(payload_of(entry_id))
        await handle.close()
        async with asyncio.timeout(30):
            await task
        assert seen == [payload_of(e) for e in range(100)]


async def test_large_entries(tmp_path: Path) -> None:
    """The largest entry passes; one byte more is refused before anything is sent."""
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        handle = await client.create(QuorumSizes())
        largest = bytes(ENTRY_BYTES_MAX - 36)
        with pytest.raises(EntryTooLargeError, match=str(ENTRY_BYTES_MAX)):
            handle.submit(largest + b"x")
        await handle.add(largest)
        await handle.add(b"small")
        assert await read_all(client, handle.ledger_id) == [largest, b"small"]


async def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path) as cluster, client_of(cluster.uri) as client:
        with pytest.raises(NotEnoughBookiesError, match="needs 5 writable bookies and 3"):
            await client.create(QuorumSizes(ensemble=5, write=3, ack=2))
        with pytest.raises(LedgerNotFoundError, match="4711"):
            await client.open(4711)  # type: ignore[arg-type]
        handle = await client.create(QuorumSizes(), password=b"secret")
        await handle.add(b"x")
        with pytest.raises(UnauthorizedError):
            await client.open(handle.ledger_id, b"guess")
        with pytest.raises(ConfigurationError, match="not readable"):
            await (await client.open(handle.ledger_id, b"secret")).read(0, 1)
        await handle.close()
        with pytest.raises(LedgerClosedError):
            handle.submit(b"late")
        await client.delete(handle.ledger_id)
        await client.delete(handle.ledger_id)
        with pytest.raises(LedgerNotFoundError):
            await client.open(handle.ledger_id, b"secret")
