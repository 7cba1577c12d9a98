"""The cluster as a whole: which layout it has, init, format, nuke, identity.

Format and nuke take many steps, and may be run again after a failure in the middle. Format gives the new
instance id first, so that no bookie of the old cluster takes missing ledgers for deleted ones; nuke makes it
impossible to register first, and removes LAYOUT and INSTANCEID last. Both leave the id generators and with
them the root: no ledger id is given out twice, whatever old bookies still hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from ledger.environment import Environment
from ledger.errors import AlreadyExistsError, LayoutMismatchError, MetadataFormatError, RecordNotFoundError
from ledger.metadata.errors import ClusterInUseError
from ledger.metadata.layout import Layout, LayoutType, decode_layout, encode_layout, obey
from ledger.metadata.ledger_paths import is_first_level
from ledger.metadata.refusals import no_cluster
from ledger.metadata.store import Unwatch
from ledger.metadata.zookeeper.paths import Paths, parents
from ledger.metadata.zookeeper.session import ZooKeeperSession
from ledger.metadata.zookeeper.watches import Watches

_AT_ONCE = 500
"""Nodes removed by one round of requests."""


class Cluster:
    def __init__(
        self,
        session: ZooKeeperSession,
        watches: Watches,
        paths: Paths,
        configured: LayoutType | None,
        environment: Environment,
    ) -> None:
        self._session = session
        self._watches = watches
        self._paths = paths
        self._configured = configured
        self._environment = environment
        self._layout: LayoutType | None = None
        self._changes = 0
        """Times that LAYOUT may have changed; what was read before the last of them is not kept."""
        self._is_watched = False
        self._pending: list[Callable[[LayoutType], None]] = []

    async def layout_type(self) -> LayoutType:
        """The ledger manager in charge. MetadataUnavailableError while there is no cluster here."""
        if self._layout is None:
            if not self._is_watched:
                self._is_watched = True
                self._watches.watch_node(self._paths.layout, self._forget_layout, early=True)
            changes = self._changes
            layout = obey(await self._find_layout(), self._configured)
            if changes == self._changes:
                self._layout = layout
            pending, self._pending = self._pending, []
            for act in pending:
                act(layout)
            return layout
        return self._layout

    def watch_in_layout(self, set_watch: Callable[[LayoutType], Unwatch]) -> Unwatch:
        """Set a watch on a path that depends on the layout: at once, or before the first read that needs it."""
        self._session.check_usable()
        if self._layout is not None:
            return set_watch(self._layout)
        unwatch: list[Unwatch] = []
        context = copy_context()

        def act(layout: LayoutType) -> None:
            unwatch.append(context.run(set_watch, layout))

        def stop() -> None:
            if act in self._pending:
                self._pending.remove(act)
            for each in unwatch:
                each()

        self._pending.append(act)
        return stop

    def _forget_layout(self) -> None:
        self._layout = None
        self._changes += 1

    async def _find_layout(self) -> Layout:
        while True:
            try:
                return decode_layout((await self._session.get(self._paths.layout))[0])
            except NoNodeError:
                if await self._session.exists(self._paths.instance_id) is None:
                    raise no_cluster(self._session.uri) from None
            # As in BookKeeper, the first to come writes down what it works with.
            layout = Layout(self._configured or LayoutType.HIERARCHICAL)
            await create_quietly(self._session, self._paths.layout, encode_layout(layout))

    async def read_layout(self) -> bytes:
        return await self._read(self._paths.layout, "LAYOUT")

    async def instance_id(self) -> str:
        found = await self._read(self._paths.instance_id, "INSTANCEID")
        try:
            return found.decode("ascii")
        except UnicodeDecodeError as error:
            raise MetadataFormatError(f"INSTANCEID is {found[:40]!r}, not text", key="INSTANCEID") from error

    async def _read(self, path: str, name: str) -> bytes:
        try:
            data, _ = await self._session.get_fresh(path)
        except NoNodeError:
            raise RecordNotFoundError("no cluster is initialised here", key=name) from None
        return bytes(data)

    # ---- init

    async def init(self) -> None:
        layout = encode_layout(Layout(self._configured or LayoutType.HIERARCHICAL))
        instance_id = self._environment.new_uuid().encode()
        while True:
            missing = await self._missing()
            if self._paths.instance_id not in missing or self._paths.layout not in missing:
                raise AlreadyExistsError(
                    "the metadata store holds a cluster already: use it as it is, or give another address",
                    key="INSTANCEID",
                )
            values = {self._paths.layout: layout, self._paths.instance_id: instance_id}
            results = await self._session.commit(
                [("create", path, values.get(path, b"")) for path in missing]
            )
            errors = [result for result in results if isinstance(result, Exception)]
            if not errors:
                return
            # One of the results tells why, the others only that they were rolled back.
            if not any(isinstance(error, (NodeExistsError, NoNodeError)) for error in errors):
                raise self._session.failures.of_commit(errors)

    async def _missing(self) -> list[str]:
        root = self._paths.root
        wanted = [*parents(root, ""), root, self._paths.available, self._paths.read_only]
        wanted += [self._paths.instance_id, self._paths.layout]
        found = await asyncio.gather(*map(self._session.exists, wanted))
        return [path for path, stat in zip(wanted, found, strict=True) if stat is None]

    # ---- format and nuke

    async def format(self) -> None:
        layout = await self.layout_type()
        instance_id = self._environment.new_uuid().encode()
        try:
            await self._session.set(self._paths.instance_id, instance_id)
        except NoNodeError:
            await self._session.create(self._paths.instance_id, instance_id)
        await self._remove_values(layout)

    async def nuke(self, instance_id: str) -> None:
        found = await self.instance_id()
        if found != instance_id:
            raise LayoutMismatchError(
                f"this is cluster {found}, not {instance_id}: nothing was removed, check the address"
            )
        try:
            layout = decode_layout(await self.read_layout()).type
        except RecordNotFoundError:  # an earlier attempt got so far
            layout = LayoutType.HIERARCHICAL
        await self._close_registration()
        await self._remove_values(layout)
        await remove_quietly(self._session, [self._paths.layout])
        await remove_quietly(self._session, [self._paths.instance_id])
        self._forget_layout()

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
                raise ClusterInUseError(
                    f"{len(registered)} bookies are registered ({', '.join(registered[:3])}): "
                    "stop them first",
                    bookies=registered,
                ) from None

    async def _registered(self) -> list[str]:
        found = await children_quietly(self._session, self._paths.available)
        found += await children_quietly(self._session, self._paths.read_only)
        return sorted({name for name in found if name != "readonly"})

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


async def create_quietly(session: ZooKeeperSession, path: str, value: bytes = b"") -> None:
    """Have the node exist."""
    try:
        await session.create(path, value)
    except NodeExistsError:
        return


async def children_quietly(session: ZooKeeperSession, path: str) -> list[str]:
    """The names of the children; none where there is no such node."""
    try:
        return await session.children(path)
    except NoNodeError:
        return []


async def remove_quietly(session: ZooKeeperSession, paths: Sequence[str]) -> bool:
    """Remove those that have no children. True if all of them are gone."""
    results = await asyncio.gather(*map(session.delete, paths), return_exceptions=True)
    for error in results:
        if isinstance(error, BaseException) and not isinstance(error, (NoNodeError, NotEmptyError)):
            raise error
    return not any(isinstance(error, NotEmptyError) for error in results)
