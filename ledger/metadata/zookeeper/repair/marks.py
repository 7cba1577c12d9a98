"""Marks of ledgers that lack copies, as BookKeeper's autorecovery keeps them: ledgers/hhhh/hhhh/hhhh/hhhh/urL<id>.

Protocol: docs/bookkeeper.md#autorecovery.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from functools import partial

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from ledger.errors import LogStoreError
from ledger.metadata.format.repair import merged_mark, shown_mark
from ledger.metadata.refusals import checked_ledger_id, record_not_found
from ledger.metadata.repair_store import UnderReplicated
from ledger.metadata.rounds import Rounds
from ledger.metadata.transactions.repair import marked_again
from ledger.metadata.zookeeper.cluster import children_quietly, create_quietly
from ledger.metadata.zookeeper.paths import parent, parents, under_replicated_id
from ledger.metadata.zookeeper.repair.tree import RepairTree
from ledger.model import BookieId, LedgerId, Versioned

_DIRECTORIES = 4


class Marks:
    def __init__(self, tree: RepairTree) -> None:
        self._tree = tree
        self._session = tree.session
        self._root = f"{tree.paths.under_replication}/ledgers"

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
        what = f"the mark of ledger {ledger_id}"
        await self._tree.change(what, partial(self._mark, what, ledger_id, missing, now_ms))

    async def _mark(self, what: str, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
        """NoNodeError: the directory of all marks is missing."""
        path = self._path(ledger_id)
        rounds = Rounds(self._session.environment, what)
        while True:
            try:
                try:
                    data, stat = await self._session.get_fresh(path)
                except NoNodeError:
                    await self._session.create(path, merged_mark(ledger_id, None, missing, now_ms))
                else:
                    # Written even if it says the same: the version must rise, so that a worker that has begun before
                    # does not clear it. BookKeeper's auditor leaves it as it is.
                    merged = merged_mark(ledger_id, bytes(data), missing, now_ms)
                    await self._session.set(path, merged, stat.version)
                return
            except NoNodeError:
                for each in parents(path, self._root):
                    try:
                        await create_quietly(self._session, each)
                    except NoNodeError:
                        if await self._session.exists(self._root) is None:
                            raise
                        break  # a worker removes empty directories while we make them: begin again
            except (NodeExistsError, BadVersionError):
                pass  # another client marks it, or has cleared it: read again
            await rounds.again()

    async def read(self, ledger_id: LedgerId) -> Versioned[UnderReplicated]:
        try:
            data, stat = await self._session.get_fresh(self._path(ledger_id))
        except NoNodeError:
            raise record_not_found(f"the under-replication mark of ledger {ledger_id}") from None
        return Versioned(shown_mark(ledger_id, bytes(data)), stat.version)

    async def clear(self, ledger_id: LedgerId, version: int, session_id: int) -> None:
        """Remove the mark, within this session only."""
        path = self._path(ledger_id)
        try:
            await self._session.delete(path, version, within=session_id)
        except NoNodeError:
            return
        except BadVersionError:
            raise marked_again(ledger_id, version) from None
        await self._remove_empty_parents(path)

    def all(self) -> AsyncIterator[UnderReplicated]:
        """Ascending by ledger id. One that is repaired while it is looked at is left out."""
        return self._below(self._root, _DIRECTORIES)

    async def _below(self, path: str, directories: int) -> AsyncIterator[UnderReplicated]:
        names = await children_quietly(self._session, path)
        if directories:
            for name in sorted(names):
                async for mark in self._below(f"{path}/{name}", directories - 1):
                    yield mark
            return
        for ledger_id in sorted(found for found in map(under_replicated_id, names) if found is not None):
            try:
                data, _ = await self._session.get(f"{path}/urL{ledger_id:010d}")
            except NoNodeError:
                continue
            yield shown_mark(ledger_id, bytes(data))

    async def _remove_empty_parents(self, path: str) -> None:
        """As BookKeeper does. The mark is deleted: an error here has no effect."""
        try:
            while (path := parent(path)) != self._root:
                await self._session.delete(path)
        except (NoNodeError, NotEmptyError, LogStoreError):
            return

    def _path(self, ledger_id: int) -> str:
        return self._tree.paths.under_replicated(checked_ledger_id(ledger_id))
