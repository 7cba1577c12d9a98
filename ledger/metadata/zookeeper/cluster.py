"""The cluster as a whole: which layout it has, init, identity. How it ends is in removal.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from ledger.environment import Environment
from ledger.errors import AlreadyExistsError, MetadataFormatError, RecordNotFoundError
from ledger.metadata.format.layout import Layout, LayoutType, decode_layout, encode_layout, obey
from ledger.metadata.refusals import has_no_instance_id, no_cluster
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import Unwatch
from ledger.metadata.zookeeper.ledgers.id_floor import IdFloor
from ledger.metadata.zookeeper.paths import Paths, parents
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.metadata.zookeeper.session.watches import Watches


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
                self._watches.watch_node(self._paths.layout, self.forget_layout, early=True)
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

    def forget_layout(self) -> None:
        """LAYOUT may have changed: read it again before it is relied on."""
        self._layout = None
        self._changes += 1

    async def _find_layout(self) -> Layout:
        rounds = Rounds(self._environment, "LAYOUT")
        while True:
            try:
                return decode_layout((await self._session.get(self._paths.layout))[0])
            except NoNodeError:
                if await self._session.exists(self._paths.instance_id) is None:
                    raise no_cluster(self._session.uri) from None
            # As in BookKeeper, the first to come writes down what it works with.
            layout = Layout(self._configured or LayoutType.HIERARCHICAL)
            with suppress(NoNodeError):  # the cluster has just been removed
                await create_quietly(self._session, self._paths.layout, encode_layout(layout))
            await rounds.again()

    async def read_layout(self) -> bytes:
        return await self._read(self._paths.layout, "LAYOUT")

    async def instance_id(self) -> str:
        try:
            found = await self._read(self._paths.instance_id, "INSTANCEID")
        except RecordNotFoundError:
            if await self._session.exists(self._paths.layout) is None:
                raise
            raise RecordNotFoundError(has_no_instance_id(self._session.uri), key="INSTANCEID") from None
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
        kind = self._configured or LayoutType.HIERARCHICAL
        layout = encode_layout(Layout(kind))
        instance_id = self._environment.new_uuid().encode()
        rounds = Rounds(self._environment, "the cluster's root")
        while True:
            missing = await self._missing()
            if self._paths.instance_id not in missing or self._paths.layout not in missing:
                if self._paths.instance_id in missing:
                    raise AlreadyExistsError(has_no_instance_id(self._session.uri), key="LAYOUT")
                if self._paths.available in missing:
                    raise AlreadyExistsError(
                        "the metadata store has what an interrupted `bookie nuke-cluster` left of a cluster: run "
                        "`bookie nuke-cluster --force` first, which removes the rest",
                        key="INSTANCEID",
                    )
                raise AlreadyExistsError(
                    "the metadata store holds a cluster already: use it as it is, or give another address",
                    key="INSTANCEID",
                )
            missing += await IdFloor(self._session, self._paths).counters(kind)
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
            await rounds.again()

    async def _missing(self) -> list[str]:
        root = self._paths.root
        wanted = [*parents(root, ""), root, self._paths.available, self._paths.read_only]
        wanted += [self._paths.instance_id, self._paths.layout]
        found = await asyncio.gather(*map(self._session.exists, wanted))
        return [path for path, stat in zip(wanted, found, strict=True) if stat is None]


async def create_quietly(session: ZooKeeperSession, path: str, value: bytes = b"") -> None:
    """Have the node exist."""
    try:
        await session.create(path, value)
    except NodeExistsError:
        return


async def children_quietly(session: ZooKeeperSession, path: str, *, fresh: bool = False) -> list[str]:
    """The names of the children; none where there is no such node. `fresh`: as of `children_fresh`."""
    try:
        return await (session.children_fresh(path) if fresh else session.children(path))
    except NoNodeError:
        return []


async def remove_quietly(session: ZooKeeperSession, paths: Sequence[str]) -> bool:
    """Remove those that have no children. True if all of them are gone."""
    results = await asyncio.gather(*map(session.delete, paths), return_exceptions=True)
    for error in results:
        if isinstance(error, BaseException) and not isinstance(error, (NoNodeError, NotEmptyError)):
            raise error
    return not any(isinstance(error, NotEmptyError) for error in results)
