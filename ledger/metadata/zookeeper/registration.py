"""A bookie's presence: an ephemeral node in the list of the writable or of the read-only bookies.

It belongs to the session, so ZooKeeper removes it when the process dies, at the latest after the session's
timeout. When the session expired while the process lived, the bookie registers again by itself, in the list
it was in, unless somebody else came meanwhile: another process under its id, or another cluster at its address.
Then it must not serve under that name, and is told so. Whose node it is the session tells: a node of our own
session is ours, whichever call made it.

Invariant: a node is changed or removed within the session that owned it when it was read, or not at all: after the
end of that session the node of the same name is another process's.

Protocol: docs/bookkeeper.md#registration.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from kazoo.exceptions import NodeExistsError, NoNodeError

from ledger.errors import (
    AlreadyExistsError,
    LayoutMismatchError,
    LogStoreError,
    MetadataUnavailableError,
    RecordNotFoundError,
)
from ledger.metadata.format.service_info import published
from ledger.metadata.refusals import no_cluster
from ledger.metadata.store import OnLost, OnRenewed, ignore_loss, ignore_renewal
from ledger.metadata.zookeeper.cluster import Cluster, create_quietly
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.metadata.zookeeper.session.watches import Watches
from ledger.model import BookieInfo, check_bookie_id
from ledger.tasks import start_task

AGAIN_S = 1.0
"""Pause between attempts to register again."""

_TICK_S = 2.0
"""ZooKeeper's usual tickTime."""

_log = logging.getLogger(__name__)


class ZooKeeperRegistration:
    def __init__(
        self,
        session: ZooKeeperSession,
        watches: Watches,
        paths: Paths,
        cluster: Cluster,
        info: BookieInfo,
    ) -> None:
        self.on_lost: OnLost = ignore_loss
        self.on_renewed: OnRenewed = ignore_renewal
        self._session = session
        self._watches = watches
        self._cluster = cluster
        self._instance_id: str | None = None
        self._bookie_id = check_bookie_id(info.bookie_id)
        self._lists = (paths.available, paths.read_only)
        self._data = published(info)
        self._read_only = info.read_only
        self._lock = asyncio.Lock()
        self._is_wanted = True
        self._renewal: asyncio.Task[None] | None = None

    async def open(self, instance_id: str) -> None:
        """The first registration, in the cluster of this name."""
        self._instance_id = instance_id
        # Not before: a renewal that does not know the cluster takes it for another one.
        self._session.listeners.connected.append(self._on_connected)
        await self.set_read_only(self._read_only)

    async def set_read_only(self, read_only: bool) -> None:
        async with self._lock:
            self._read_only = read_only
            await self._publish()

    async def close(self) -> None:
        self.abandon()
        async with self._lock:
            for path in self._nodes():
                await self._remove_own(path)

    def abandon(self) -> None:
        """Do not register again; the node stays to whoever replaces this registration."""
        self._is_wanted = False
        if self._renewal is not None:
            self._renewal.cancel()
        if self._on_connected in self._session.listeners.connected:
            self._session.listeners.connected.remove(self._on_connected)

    # ---- a new session

    def _on_connected(self, is_new: bool) -> None:
        if is_new and self._is_wanted and (self._renewal is None or self._renewal.done()):
            self._renewal = start_task(self._renew())

    async def _renew(self) -> None:
        logged = ""
        while self._is_wanted:
            try:
                session_id = 0
                while session_id != self._session.session_id:  # it may expire again meanwhile
                    async with self._lock:
                        session_id = self._session.session_id
                        await self._check_cluster()
                        await self._publish()
                    await self.on_renewed()
                _log.warning("bookie %s is registered again, with a new session", self._bookie_id)
                return
            except (AlreadyExistsError, LayoutMismatchError) as error:
                # Somebody else is this bookie now; two that serve under one name would contradict each other.
                self._is_wanted = False
                self.on_lost(error)
            except LogStoreError as error:
                if logged != (logged := str(error)):
                    _log.error(
                        "bookie %s cannot register again, will go on trying: %s", self._bookie_id, error
                    )
                await asyncio.sleep(AGAIN_S)

    async def _check_cluster(self) -> None:
        """LayoutMismatchError if the cluster here is no longer the one in which the bookie registered."""
        try:
            found = await self._cluster.instance_id()
        except RecordNotFoundError:
            found = "none"
        if found != self._instance_id:
            raise LayoutMismatchError(
                f"the cluster at {self._session.uri} was {self._instance_id} and is {found} now: "
                f"bookie {self._bookie_id} does not belong to it"
            )

    # ---- the two nodes

    def _nodes(self) -> tuple[str, str]:
        """The node to be, and the one not to be."""
        writable, read_only = (f"{parent}/{self._bookie_id}" for parent in self._lists)
        return (read_only, writable) if self._read_only else (writable, read_only)

    async def _publish(self) -> None:
        """Be in the list that is wanted, then leave the other one: never in neither."""
        wanted, other = self._nodes()
        for path in (wanted, other):
            await self._await_free(path)
        while True:
            try:
                await self._session.create(wanted, self._data, ephemeral=True)
                break
            except NodeExistsError:
                await self._await_free(wanted)
                if await self._update_own(wanted):
                    break
            except NoNodeError:
                await self._create_list()
        if await self._owner(other) not in (None, self._session.session_id):
            # Two processes came at once, one to each list. Each looks after it has made its node, so at least
            # one of them meets the other.
            await self._remove_own(wanted)
            raise self._taken()
        await self._remove_own(other)

    async def _await_free(self, path: str) -> None:
        """Wait for the node of a session that may be dead. AlreadyExistsError once it must be alive."""
        gone = asyncio.Event()
        unwatch = self._watches.watch_node(path, gone.set)
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _expired_after_s(self._session.timeout_s)
        try:
            while await self._owner(path) not in (None, self._session.session_id):
                if loop.time() >= give_up_at:
                    raise self._taken()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(gone.wait(), give_up_at - loop.time())
                gone.clear()
        finally:
            unwatch()

    async def _owner(self, path: str) -> int | None:
        stat = await self._session.exists(path)
        return None if stat is None else int(stat.ephemeralOwner)

    async def _update_own(self, path: str) -> bool:
        """Whether it was ours, and has our data now."""
        session_id = self._session.session_id
        if await self._owner(path) != session_id:
            return False
        try:
            await self._session.set(path, self._data, within=session_id)
        except NoNodeError:
            return False
        except MetadataUnavailableError:
            if self._session.session_id == session_id:
                raise
            return False
        return True

    async def _remove_own(self, path: str) -> None:
        session_id = self._session.session_id
        if await self._owner(path) != session_id:
            return
        try:
            await self._session.delete(path, within=session_id)
        except NoNodeError:
            return
        except MetadataUnavailableError:
            if self._session.session_id == session_id:
                raise
            # ZooKeeper has removed it with its session. A node that is there now is another one.

    async def _create_list(self) -> None:
        try:
            await create_quietly(self._session, self._lists[1])
        except NoNodeError:
            raise no_cluster(self._session.uri) from None
        if await self._session.exists(self._lists[0]) is None:
            raise no_cluster(self._session.uri)

    def _taken(self) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"bookie {self._bookie_id} is registered by another live process, or its session has not expired yet: "
            f"stop that process first",
            key=self._bookie_id,
        )


def _expired_after_s(timeout_s: float) -> float:
    """How long after a process died its session has expired, if it asked for this timeout.

    A server gives no session less than two ticks, ends sessions on a tick, and learns from the others up to half a
    tick later that a session was in use. A longer timeout is mostly that of servers with longer ticks.
    """
    return max(1.5 * timeout_s, max(timeout_s, 2 * _TICK_S) + 2 * _TICK_S)
