"""A leader that hung while the others elected another one: what it has is old, and it does not know that yet."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from pathlib import Path

from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError, MetadataVersionError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.model import Versioned
from tests.helpers.processes.zookeeper import ZooKeeperProcess
from tests.helpers.processes.zookeeper_ensemble import ZooKeeperEnsemble

_OPTIONS = "session_timeout_ms=60000&request_timeout_ms=30000"
_READS = 20


def _is_leader(server: ZooKeeperProcess) -> bool:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as link:
        link.sendall(b"srvr")
        return re.search(rb"Mode: leader", link.makefile("rb").read()) is not None


async def test_a_deposed_leader_answers_no_read(tmp_path: Path) -> None:
    """Its answer to `sync` comes from itself alone, so a read that relied on it would find the old version."""
    ensemble = ZooKeeperEnsemble(tmp_path)
    await ensemble.start()
    try:
        [leader] = [server for server in ensemble.servers if _is_leader(server)]
        others = ";".join(server.address for server in ensemble.servers if server is not leader)
        behind = await open_store(f"zk+hierarchical://{leader.address}/ledgers?{_OPTIONS}")
        ahead = await open_store(f"zk+hierarchical://{others}/ledgers?{_OPTIONS}")
        await behind.init_cluster()
        assert await behind.create_record("/a", b"old") == 0
        assert (await ahead.read_record("/a")).version == 0

        leader.pause()
        await _write(ahead)
        reading = [asyncio.ensure_future(behind.read_record("/a")) for _ in range(_READS)]
        await asyncio.sleep(0.2)  # they are in the socket of the leader of before
        leader.resume()
        found = await asyncio.gather(*reading, return_exceptions=True)

        for each in found:
            assert isinstance(each, MetadataUnavailableError) or (
                not isinstance(each, BaseException) and each.value == b"new"
            ), each
        await behind.close()
        await ahead.close()
    finally:
        await ensemble.close()


async def _write(store: MetadataStore) -> None:
    """The write is made; until the others have elected a leader none can be."""
    while (await _settled(store)).value != b"new":
        with contextlib.suppress(MetadataUnavailableError, MetadataOutcomeUnknownError, MetadataVersionError):
            await store.write_record("/a", b"new", 0)


async def _settled(store: MetadataStore) -> Versioned[bytes]:
    while True:
        try:
            return await store.read_record("/a")
        except MetadataUnavailableError:
            await asyncio.sleep(0.1)
