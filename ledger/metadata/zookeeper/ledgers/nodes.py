"""The nodes of ledgers: create with their parents, compare-and-set, delete with parents left empty."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    UnimplementedError,
)

from ledger.errors import AlreadyExistsError, LogStoreError
from ledger.metadata.refusals import is_own_create, ledger_moved_on, ledger_not_found, no_cluster
from ledger.metadata.rounds import Rounds
from ledger.metadata.zookeeper.paths import parent, parents
from ledger.metadata.zookeeper.session.multi_read import PATHS_MAX, Read
from ledger.metadata.zookeeper.session.session import ZooKeeperSession


class LedgerNodes:
    """Paths come from `Paths.ledger`, values are bytes."""

    def __init__(self, session: ZooKeeperSession, root: str) -> None:
        self._session = session
        self._root = root
        self._directories: dict[str, asyncio.Future[list[Any]]] = {}
        self._has_multi_read = True
        """Until a server does not know it: one before ZooKeeper 3.6, which then also closes the connection."""

    async def create(self, path: str, ledger_id: int, data: bytes, c_token: int | None) -> int:
        rounds = Rounds(self._session.environment, f"the place of ledger {ledger_id}")
        while True:
            try:
                await self._session.create(path, data)
                return 0
            except NoNodeError:
                await self._create_parents(parent(path))
                await rounds.again()
            except NodeExistsError:
                return await self._own_version(path, ledger_id, c_token)

    async def read(self, path: str, ledger_id: int) -> tuple[bytes, int]:
        try:
            data, stat = await self._session.get_fresh(path)
        except NoNodeError:
            raise ledger_not_found(ledger_id) from None
        return data, stat.version

    async def read_many(self, paths: Sequence[str]) -> list[tuple[bytes, int] | None]:
        """Value and version of each as the server knows it that we are connected to; None for one that is not there."""
        if self._has_multi_read:
            parts = [paths[first : first + PATHS_MAX] for first in range(0, len(paths), PATHS_MAX)]
            try:
                answers = await asyncio.gather(*map(self._session.get_many, parts))
                return [self._found(node) for answer in answers for node in answer]
            except UnimplementedError:
                self._has_multi_read = False
        return await self._read_each(paths)

    def _found(self, node: Read) -> tuple[bytes, int] | None:
        if isinstance(node, NoNodeError):
            return None
        if isinstance(node, Exception):
            raise self._session.failures.of_answer(node, is_change=False)
        return node

    async def _read_each(self, paths: Sequence[str]) -> list[tuple[bytes, int] | None]:
        found: list[tuple[bytes, int] | None] = []
        for node in await asyncio.gather(*map(self._session.get, paths), return_exceptions=True):
            if isinstance(node, NoNodeError):
                found.append(None)
            elif isinstance(node, BaseException):
                raise node
            else:
                data, stat = node
                found.append((data, stat.version))
        return found

    async def write(self, path: str, ledger_id: int, data: bytes, version: int) -> int:
        try:
            return int((await self._session.set(path, data, version)).version)
        except NoNodeError:
            raise ledger_not_found(ledger_id) from None
        except BadVersionError:
            raise await self._moved_on(path, ledger_id, version) from None

    async def remove(self, path: str, ledger_id: int, version: int | None) -> None:
        try:
            await self._session.delete(path, -1 if version is None else version)
        except NoNodeError:
            raise ledger_not_found(ledger_id) from None
        except BadVersionError:
            raise await self._moved_on(path, ledger_id, version or 0) from None
        await self._remove_empty_parents(path)

    async def _create_parents(self, directory: str) -> None:
        """Make the directory of a ledger and what is above it. Many who miss it at once wait for one of them."""
        if directory == self._root:
            raise no_cluster(self._session.uri)
        under_way = self._directories.get(directory)
        if under_way is not None:
            await asyncio.wait([under_way])
            return
        made = [self._session.create(each) for each in (*parents(directory, self._root), directory)]
        under_way = self._directories[directory] = asyncio.gather(*made, return_exceptions=True)
        try:
            results = await under_way
        finally:
            del self._directories[directory]
        if all(isinstance(error, NoNodeError) for error in results):
            raise no_cluster(self._session.uri)
        for error in results:
            if isinstance(error, BaseException) and not isinstance(error, (NodeExistsError, NoNodeError)):
                raise error

    async def _own_version(self, path: str, ledger_id: int, c_token: int | None) -> int:
        taken = AlreadyExistsError(f"ledger {ledger_id} exists already", key=ledger_id)
        try:
            data, stat = await self._session.get_fresh(path)
        except NoNodeError:
            raise taken from None
        if is_own_create(data, c_token):
            return int(stat.version)
        raise taken

    async def _moved_on(self, path: str, ledger_id: int, version: int) -> LogStoreError:
        stat = await self._session.exists(path)
        return (
            ledger_not_found(ledger_id) if stat is None else ledger_moved_on(ledger_id, stat.version, version)
        )

    async def _remove_empty_parents(self, path: str) -> None:
        """Bottom up, as far as they are empty. The ledger is deleted: an error here has no effect."""
        try:
            for each in reversed(parents(path, self._root)):
                stat = await self._session.exists(each)
                if stat is None or stat.children_count:
                    return
                await self._session.delete(each)
        except (NoNodeError, NotEmptyError, LogStoreError):
            return
