"""RepairStore in ZooKeeper, at the paths of BookKeeper's autorecovery (docs/bookkeeper.md#autorecovery)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from functools import partial

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from ledger.metadata.format.repair import decode_check_time, decode_delay, encode_check_time, encode_delay
from ledger.metadata.repair_store import Candidacy, RepairLock, UnderReplicated
from ledger.metadata.watching import Unwatch, Watch
from ledger.metadata.zookeeper.cluster import Cluster, create_quietly
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.repair.election import Election
from ledger.metadata.zookeeper.repair.locks import Locks
from ledger.metadata.zookeeper.repair.marks import Marks
from ledger.metadata.zookeeper.repair.tree import RepairTree
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.metadata.zookeeper.session.watches import Watches
from ledger.model import BookieId, LedgerId, Versioned


class ZooKeeperRepair:
    def __init__(self, session: ZooKeeperSession, watches: Watches, paths: Paths, cluster: Cluster) -> None:
        root = paths.under_replication
        self._tree = RepairTree(session, paths, cluster)
        self._session = session
        self._watches = watches
        self._disabled = f"{root}/disable"
        self._delay = f"{root}/lostBookieRecoveryDelay"
        self._checked = f"{root}/checkallledgersctime"
        self._placement_checked = f"{root}/placementpolicycheckctime"
        self._ledgers = f"{root}/ledgers"
        self._marks = Marks(self._tree)
        self._locks = Locks(self._tree, self._marks)
        self._election = Election(self._tree, watches)

    # ---- marks

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
        await self._marks.mark(ledger_id, missing, now_ms)

    async def read_mark(self, ledger_id: LedgerId) -> Versioned[UnderReplicated]:
        await self._tree.check_cluster()
        return await self._marks.read(ledger_id)

    async def marks(self) -> AsyncIterator[UnderReplicated]:
        await self._tree.check_cluster()
        async for mark in self._marks.all():
            yield mark

    def watch_marks(self, watch: Watch) -> Unwatch:
        # The top of the tree only: a mark in a directory that is there comes without a call.
        return self._watches.watch_children(self._ledgers, watch)

    # ---- locks

    async def lock(self, ledger_id: LedgerId, holder: str) -> RepairLock | None:
        return await self._locks.lock(ledger_id, holder)

    async def lock_holder(self, ledger_id: LedgerId) -> str | None:
        await self._tree.check_cluster()
        return await self._locks.holder(ledger_id)

    # ---- switches

    async def enabled(self) -> bool:
        return await self._value(self._disabled) is None

    async def set_enabled(self, enabled: bool) -> None:
        if not enabled:
            await self._tree.change(
                "a switch of repair", partial(create_quietly, self._session, self._disabled)
            )
            return
        await self._tree.ensure()
        try:
            await self._session.delete(self._disabled)
        except (NoNodeError, NotEmptyError):
            return

    async def lost_bookie_delay_s(self) -> Versioned[int] | None:
        found = await self._value(self._delay)
        if found is None or not found.value:  # a setting of an earlier version that was cut off
            return None
        return Versioned(decode_delay(found.value), found.version)

    async def set_lost_bookie_delay_s(self, delay_s: int) -> None:
        await self._set(self._delay, encode_delay(delay_s))

    def watch_switches(self, watch: Watch) -> Unwatch:
        unwatch = [self._watches.watch_node(path, watch) for path in (self._disabled, self._delay)]
        return partial(_each, unwatch)

    async def all_checked_ms(self) -> int | None:
        return await self._time(self._checked)

    async def set_all_checked_ms(self, now_ms: int) -> None:
        await self._set(self._checked, encode_check_time(now_ms))

    async def placement_checked_ms(self) -> int | None:
        return await self._time(self._placement_checked)

    async def set_placement_checked_ms(self, now_ms: int) -> None:
        await self._set(self._placement_checked, encode_check_time(now_ms))

    async def _time(self, path: str) -> int | None:
        found = await self._value(path)
        return None if found is None else decode_check_time(found.value)

    async def _value(self, path: str) -> Versioned[bytes] | None:
        await self._tree.check_cluster()
        try:
            data, stat = await self._session.get_fresh(path)
            return Versioned(bytes(data), stat.version)
        except NoNodeError:
            return None

    async def _set(self, path: str, value: bytes) -> None:
        async def put() -> None:
            # In one step: what is cut off between a node and its value leaves one without a value.
            try:
                await self._session.set(path, value)
            except NoNodeError:
                try:
                    await self._session.create(path, value)
                except NodeExistsError:
                    await self._session.set(path, value)

        await self._tree.change("a setting of repair", put)

    # ---- the auditor

    async def stand(self, name: str) -> Candidacy:
        return await self._election.stand(name)

    async def auditor(self) -> str | None:
        await self._tree.check_cluster()
        return await self._election.auditor()


def _each(calls: list[Unwatch]) -> None:
    for call in calls:
        call()
