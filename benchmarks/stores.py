"""The metadata stores that benchmarks run on: a SQLite file, or a ZooKeeper server that syncs each change."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.helpers.processes.cluster import Cluster, running_cluster
from tests.helpers.processes.zookeeper import ZooKeeperProcess

SQLITE, ZOOKEEPER = "SQLite", "ZooKeeper"


@asynccontextmanager
async def cluster_on(
    store: str, directory: Path, *, bookies: int = 3, extra: Sequence[str] = ()
) -> AsyncIterator[Cluster]:
    """A running cluster with its metadata in this store."""
    with _metadata(store, directory) as metadata:
        async with running_cluster(directory, bookies=bookies, extra=extra, metadata=metadata) as cluster:
            yield cluster


@contextmanager
def _metadata(store: str, directory: Path) -> Iterator[str | None]:
    """The address of a store without a cluster; None: the default of a cluster, SQLite."""
    if store == SQLITE:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="zookeeper-", dir=directory) as home:
        server = ZooKeeperProcess(Path(home), syncs=True)
        server.start()
        try:
            yield f"zk://{server.address}{server.new_root()}"
        finally:
            server.kill()
