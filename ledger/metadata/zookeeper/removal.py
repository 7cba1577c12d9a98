"""How a cluster ends: format and nuke.

Both take many steps, and may be run again after a failure in the middle. Format gives the new instance id first,
so that no bookie of the old cluster takes missing ledgers for deleted ones; it leaves the id generators. Nuke
makes it impossible to register first, and removes LAYOUT, INSTANCEID and the root last and at once; where ids
go on it leaves beside the root (id_floor.py). The old layouts have no ids to go on with, so there the root stays
with its generator.
"""

from __future__ import annotations

from collections.abc import Iterable

from kazoo.exceptions import NoNodeError, NotEmptyError

from ledger.environment import Environment
from ledger.errors import RecordNotFoundError
from ledger.metadata.format.layout import LayoutType, decode_layout
from ledger.metadata.ledger_paths import is_first_level
from ledger.metadata.refusals import cluster_in_use, not_this_cluster
from ledger.metadata.rounds import Rounds
from ledger.metadata.zookeeper.cluster import Cluster, children_quietly, create_quietly, remove_quietly
from ledger.metadata.zookeeper.ledgers.id_floor import WITH_LONG_IDS, IdFloor
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.session.session import ZooKeeperSession

_AT_ONCE = 500
"""Nodes removed by one round of requests."""


class Removal:
    def __init__(
        self, session: ZooKeeperSession, paths: Paths, cluster: Cluster, environment: Environment
    ) -> None:
        self._session = session
        self._paths = paths
        self._cluster = cluster
        self._environment = environment

    async def format(self) -> None:
        layout = await self._cluster.layout_type()
        instance_id = self._environment.new_uuid().encode()
        try:
            await self._session.set(self._paths.instance_id, instance_id)
        except NoNodeError:
            await self._session.create(self._paths.instance_id, instance_id)
        await self._remove_values(layout)

    async def nuke(self, instance_id: str | None) -> None:
        try:
            found: str | None = await self._cluster.instance_id()
        except RecordNotFoundError:
            if instance_id is not None:
                raise
            await self._cluster.read_layout()
            found = None
        if found != instance_id:
            raise not_this_cluster(found, instance_id)
        layout = await self._layout()
        await self._close_registration()
        await self._remove_values(layout)
        if layout in WITH_LONG_IDS:
            await IdFloor(self._session, self._paths).raise_above_all()
            generators = [self._paths.short_ids(layout), self._paths.long_ids]
            await self._remove_trees(generators)
        await self._end(layout)
        self._cluster.forget_layout()

    async def _layout(self) -> LayoutType:
        try:
            return decode_layout(await self._cluster.read_layout()).type
        except RecordNotFoundError:  # as BookKeeper's metaformat leaves a cluster
            return LayoutType.HIERARCHICAL

    async def _close_registration(self) -> None:
        """Remove the lists of bookies, which ZooKeeper refuses while one is registered."""
        for path in (self._paths.read_only, self._paths.available):
            try:
                await self._session.delete(path)
            except NoNodeError:
                continue
            except NotEmptyError:
                registered = await self._registered()
                await create_quietly(self._session, self._paths.read_only)
                raise cluster_in_use(registered) from None

    async def _registered(self) -> list[str]:
        found = await children_quietly(self._session, self._paths.available)
        found += await children_quietly(self._session, self._paths.read_only)
        return sorted({name for name in found if name != "readonly"})

    async def _end(self, layout: LayoutType) -> None:
        """LAYOUT, INSTANCEID and root, in one step; the root stays if it holds what is not ours to remove."""
        root = [self._paths.root] if layout in WITH_LONG_IDS else []
        rounds = Rounds(self._environment, "the cluster's root")
        while True:
            values = [
                path
                for path in (self._paths.layout, self._paths.instance_id)
                if await self._session.exists(path) is not None
            ]
            if not values:
                return  # another client has just ended it
            paths = [*values, *root]
            results = await self._session.commit([("delete", path, b"") for path in paths])
            errors = [result for result in results if isinstance(result, Exception)]
            if not errors:
                return
            if any(isinstance(error, NotEmptyError) for error in errors):
                root = []
            elif not any(isinstance(error, NoNodeError) for error in errors):
                raise self._session.failures.of_commit(errors)
            await rounds.again()

    async def _remove_values(self, layout: LayoutType) -> None:
        root = self._paths.root
        names = await children_quietly(self._session, root)
        await self._remove_trees([f"{root}/{name}" for name in names if is_first_level(layout, name)])
        await self._remove_trees([self._paths.cookies, self._paths.records, self._paths.under_replication])

    async def _remove_trees(self, paths: Iterable[str]) -> None:
        for path in paths:
            # Somebody may add to the tree while it is removed: then it is walked again.
            while not await self._removed(path):
                await self._remove_trees(
                    [f"{path}/{name}" for name in await children_quietly(self._session, path)]
                )

    async def _removed(self, path: str) -> bool:
        names = await children_quietly(self._session, path)
        for first in range(0, len(names), _AT_ONCE):
            await remove_quietly(
                self._session, [f"{path}/{name}" for name in names[first : first + _AT_ONCE]]
            )
        return await remove_quietly(self._session, [path])
