"""Another bookie at the address of a lost one answers for itself: what it denies proves nothing of the lost one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie_server.config import BookieConfig
from bookie_server.config_file import make_config
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.server import BookieServer
from ledger.client import LedgerClient
from ledger.environment import SystemEnvironment
from ledger.errors import LedgerRecoveryError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.model import QuorumSizes
from tests.helpers.processes.ports import free_ports

pytestmark = pytest.mark.integration


def bookie(directory: Path, store: MetadataStore, bookie_id: str, port: int) -> BookieServer:
    settings = {"metadata": store.uri, "data": str(directory), "port": port, "bookie_id": bookie_id}
    config: BookieConfig = make_config(settings, {})
    return BookieServer(config, store, SystemDisk(), SystemEnvironment())


async def test_recovery_does_not_take_it_for_the_lost_bookie(tmp_path: Path) -> None:
    """The client has seen the lost bookie at this address."""
    store = await open_store(f"sqlite:///{tmp_path}/metadata.db")
    await store.init_cluster()
    (port,) = free_ports(1)
    lost = bookie(tmp_path / "lost", store, "lost", port)
    await lost.start()
    client = LedgerClient(store)
    await client.start()
    handle = await client.create(QuorumSizes(ensemble=1, write=1, ack=1))
    assert await handle.add(b"acknowledged") == 0
    await lost.stop()
    other = bookie(tmp_path / "other", store, "other", port)
    await other.start()
    with pytest.raises(LedgerRecoveryError):
        await client.open_with_recovery(handle.ledger_id)
    assert not (await store.read_ledger(handle.ledger_id)).value.closed
    await other.stop()
    again = bookie(tmp_path / "lost", store, "lost", port)
    await again.start()
    assert (await client.open_with_recovery(handle.ledger_id)).last_readable == 0
    await client.close()
    await again.stop()
    await store.close()
