"""The tree `underreplication` itself: made with BookKeeper's LAYOUT when it is missing, refused when it is another.

A change below it begins with `ensure`, or is made by `change`; a read finds nothing where there is no tree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from kazoo.exceptions import NoNodeError

from ledger.metadata.format.repair import check_repair_layout, encode_repair_layout
from ledger.metadata.rounds import Rounds
from ledger.metadata.zookeeper.cluster import Cluster, create_quietly
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.session.session import ZooKeeperSession

T = TypeVar("T")


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
            MetadataUnavailableError: there is no cluster any more.
            MetadataFormatError: the tree has a layout that is not known here.
        """
        await self.change("the tree of repair", _nothing)

    async def change(self, what: str, apply: Callable[[], Awaitable[T]]) -> T:
        """Change something in the tree: `apply` runs again if a directory that it needs is missing.

        `what`: as the subject of a sentence. Raises as `ensure` and `apply`.
        """
        rounds = Rounds(self.session.environment, what)
        layout = f"{self.paths.under_replication}/LAYOUT"
        while True:
            await self.check_cluster()
            try:
                check_repair_layout(bytes((await self.session.get(layout))[0]))
                return await apply()
            except NoNodeError:
                # The tree is removed, or incomplete: earlier versions made LAYOUT first. Or the cluster is removed,
                # and its layout is what was read before.
                self._cluster.forget_layout()
            with suppress(NoNodeError):
                await self._make()
            await rounds.again()

    async def _make(self) -> None:
        """Create what is missing of it.

        Invariant: LAYOUT comes last, so that a process that dies on the way leaves a tree that `ensure` completes.
        """
        root = self.paths.under_replication
        for path in (root, f"{root}/ledgers", f"{root}/locks"):
            await create_quietly(self.session, path)
        await create_quietly(self.session, f"{root}/LAYOUT", encode_repair_layout())


async def _nothing() -> None:
    """Only the tree itself is wanted."""
