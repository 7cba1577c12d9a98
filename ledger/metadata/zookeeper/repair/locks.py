"""Locks of ledgers that are repaired: ephemeral nodes locks/urL<id>, of the session that made them."""

from __future__ import annotations

from functools import partial

from kazoo.exceptions import NodeExistsError, NoNodeError

from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.errors import LockLostError
from ledger.metadata.format.repair import encode_holder, shown_name
from ledger.metadata.refusals import checked_ledger_id
from ledger.metadata.rounds import Rounds
from ledger.metadata.zookeeper.repair.marks import Marks
from ledger.metadata.zookeeper.repair.tree import RepairTree
from ledger.model import LedgerId


class Locks:
    def __init__(self, tree: RepairTree, marks: Marks) -> None:
        self.session = tree.session
        self.marks = marks
        self._tree = tree
        self._locked: set[LedgerId] = set()
        """By tasks of this process: a node tells only the session."""

    async def lock(self, ledger_id: LedgerId, holder: str) -> ZooKeeperLock | None:
        path = self.path(ledger_id)
        if ledger_id in self._locked:
            return None
        self._locked.add(ledger_id)
        taken: ZooKeeperLock | None = None
        try:
            taken = await self._tree.change(
                f"the lock of ledger {ledger_id}", partial(self._take, ledger_id, path, holder)
            )
        finally:
            if taken is None:
                self._locked.discard(ledger_id)
        return taken

    async def _take(self, ledger_id: LedgerId, path: str, holder: str) -> ZooKeeperLock | None:
        while True:
            session_id = self.session.session_id
            try:
                await self.session.create(path, encode_holder(holder), ephemeral=True)
            except NodeExistsError:
                # Ours is one that an attempt left whose answer was lost.
                if await self.owner(ledger_id) != session_id and self.session.session_id == session_id:
                    return None
            except MetadataOutcomeUnknownError as unknown:
                try:
                    owner = await self.owner(ledger_id)
                except MetadataUnavailableError:
                    raise unknown from None  # it may be held
                if owner != session_id:
                    raise
            if self.session.session_id == session_id:
                return ZooKeeperLock(self, ledger_id, session_id)
            # The session ended on the way. The node ends with it, or was made in the next one.

    async def holder(self, ledger_id: LedgerId) -> str | None:
        try:
            data, _ = await self.session.get(self.path(ledger_id))
        except NoNodeError:
            return None
        return shown_name(bytes(data))

    async def owner(self, ledger_id: LedgerId) -> int | None:
        stat = await self.session.exists(self.path(ledger_id))
        return None if stat is None else int(stat.ephemeralOwner)

    def path(self, ledger_id: LedgerId) -> str:
        return f"{self._tree.paths.under_replication}/locks/urL{checked_ledger_id(ledger_id):010d}"

    async def release(self, ledger_id: LedgerId, session_id: int) -> None:
        rounds = Rounds(self.session.environment, f"the lock of ledger {ledger_id}")
        while self.session.session_id == session_id and await self.owner(ledger_id) == session_id:
            try:
                await self.session.delete(self.path(ledger_id), within=session_id)
            except NoNodeError:
                break
            except MetadataOutcomeUnknownError as error:
                await rounds.again(error)  # no other client removes it: read, and remove it again
        # Not before: a release that is tried again would end the lock that another task has taken since.
        self._locked.discard(ledger_id)


class ZooKeeperLock:
    """Invariant: what it changes is sent within the session that took it, or not at all."""

    def __init__(self, locks: Locks, ledger_id: LedgerId, session_id: int) -> None:
        self.ledger_id = ledger_id
        self._locks = locks
        self._session_id = session_id

    async def is_held(self) -> bool:
        if self._locks.session.session_id != self._session_id:
            return False
        return await self._locks.owner(self.ledger_id) == self._session_id

    async def clear_mark(self, version: int) -> None:
        if not await self.is_held():
            raise LockLostError(
                f"the lock of ledger {self.ledger_id} was lost before its mark was cleared",
                ledger_id=self.ledger_id,
            )
        await self._locks.marks.clear(self.ledger_id, version, self._session_id)

    async def release(self) -> None:
        await self._locks.release(self.ledger_id, self._session_id)
