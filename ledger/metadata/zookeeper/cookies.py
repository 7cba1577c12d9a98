"""Cookies of bookies: `cookies/<bookie id>`, versioned by the node."""

from __future__ import annotations

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from ledger.errors import AlreadyExistsError, LogStoreError
from ledger.metadata.refusals import no_cluster, record_moved_on, record_not_found
from ledger.metadata.zookeeper.cluster import children_quietly, create_quietly
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.model import BookieId, Versioned


class Cookies:
    def __init__(self, session: ZooKeeperSession, paths: Paths) -> None:
        self._session = session
        self._root = paths.cookies

    async def read(self, bookie_id: BookieId) -> Versioned[bytes]:
        try:
            data, stat = await self._session.get_fresh(f"{self._root}/{bookie_id}")
        except NoNodeError:
            raise record_not_found(bookie_id) from None
        return Versioned(data, stat.version)

    async def create(self, bookie_id: BookieId, cookie: bytes) -> int:
        path = f"{self._root}/{bookie_id}"
        try:
            try:
                await self._session.create(path, cookie)
            except NoNodeError:
                await create_quietly(self._session, self._root)
                await self._session.create(path, cookie)
        except NoNodeError:
            raise no_cluster(self._session.uri) from None
        except NodeExistsError:
            raise AlreadyExistsError(f"{bookie_id} exists already", key=bookie_id) from None
        return 0

    async def write(self, bookie_id: BookieId, cookie: bytes, version: int) -> int:
        try:
            return int((await self._session.set(f"{self._root}/{bookie_id}", cookie, version)).version)
        except NoNodeError:
            raise record_not_found(bookie_id) from None
        except BadVersionError:
            raise await self._moved_on(bookie_id, version) from None

    async def remove(self, bookie_id: BookieId, version: int) -> None:
        try:
            await self._session.delete(f"{self._root}/{bookie_id}", version)
        except NoNodeError:
            raise record_not_found(bookie_id) from None
        except BadVersionError:
            raise await self._moved_on(bookie_id, version) from None

    async def list(self) -> list[BookieId]:
        return [BookieId(name) for name in sorted(await children_quietly(self._session, self._root))]

    async def _moved_on(self, bookie_id: BookieId, version: int) -> LogStoreError:
        return record_moved_on(bookie_id, (await self.read(bookie_id)).version, version)
