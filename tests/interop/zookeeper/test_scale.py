"""Many ledgers, and what they cost."""

from __future__ import annotations

import tracemalloc

from kazoo.client import KazooClient

from ledger.metadata.drivers import open_store
from tests.helpers.processes.zookeeper import ZooKeeperProcess

LEDGERS = 10_000
BYTES_PER_LEDGER_MAX = 1024


async def test_listing_ten_thousand_ledgers_takes_little_memory(
    zookeeper: ZooKeeperProcess, raw: KazooClient
) -> None:
    """They stand in two directories, short and long ids, made past the driver to be quick."""
    root = zookeeper.new_root()
    store = await open_store(f"zk://{zookeeper.address}{root}")
    await store.init_cluster()
    for directory in ("/00/0000", "/000/0000/0042/9497"):
        raw.ensure_path(root + directory)
        for first in range(0, LEDGERS // 2, 1000):
            changes = raw.transaction()
            for number in range(first, first + 1000):
                changes.create(f"{root}{directory}/L{number:04d}", b"x")
            changes.commit()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        count = 0
        async for _ in store.ledger_ids():
            count += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    await store.close()
    assert count == LEDGERS
    assert (peak - before) / count <= BYTES_PER_LEDGER_MAX
