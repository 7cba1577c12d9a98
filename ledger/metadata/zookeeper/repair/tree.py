"""The tree `underreplication` itself: made with BookKeeper's LAYOUT when it is missing, refused when it is another.

Whoever changes something below it calls `ensure` first; who only reads finds nothing where there is no tree.
"""

from __future__ import annotations

from kazoo.exceptions import NoNodeError

from ledger.metadata.format.repair import check_repair_layout, encode_repair_layout
from ledger.metadata.zookeeper.cluster import Cluster, create_quietly
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.session.session import ZooKeeperSession


class RepairTree:
    def __init__(self, session: ZooKeeperSession, paths: Paths, cluster: Cluster) -> None:
        self.session = session
        self.paths = paths
        self._cluster = cluster

    async def check_cluster(self) -> None:
        """MetadataUnavailableError while there is no cluster."""
        await self._cluster.layout_type()

    async def ensure(self) -> None:
        """Have the tree exist. Looked at each time: `format` removes it under a process that runs.

        Raises:
            MetadataFormatError: it has a layout that is not known here.
        """
        await self.check_cluster()
        root = self.paths.under_replication
        layout = f"{root}/LAYOUT"
        try:
            check_repair_layout(bytes((await self.session.get(layout))[0]))
        except NoNodeError:
            await create_quietly(self.session, root)
            await create_quietly(self.session, layout, encode_repair_layout())
            check_repair_layout(bytes((await self.session.get(layout))[0]))
            for name in ("ledgers", "locks"):
                await create_quietly(self.session, f"{root}/{name}")
