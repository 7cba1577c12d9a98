"""Records of logs: values of our own under a key each, with compare-and-set.

A key's parents are nodes without a record (record_values.py), made when needed and removed when nothing is
left below them. A record under a key that is a parent already takes that node over, and its versions go on
from the node's: only there they do not start at 0.
"""

from __future__ import annotations

import asyncio

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from ledger.errors import AlreadyExistsError, LogStoreError, RecordNotFoundError
from ledger.metadata.refusals import no_cluster, record_moved_on, record_not_found
from ledger.metadata.rounds import Rounds
from ledger.metadata.zookeeper.cluster import children_quietly
from ledger.metadata.zookeeper.paths import Paths, parent, parents
from ledger.metadata.zookeeper.record_values import NO_RECORD, decode_value, encode_value
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.model import Versioned


class Records:
    def __init__(self, session: ZooKeeperSession, paths: Paths) -> None:
        self._session = session
        self._paths = paths

    async def create(self, key: str, value: bytes) -> int:
        path, data = self._paths.record(key), encode_value(value)
        rounds = Rounds(self._session.environment, key)
        while True:
            try:
                await self._session.create(path, data)
                return 0
            except NoNodeError:
                await self._create_parents(path)
            except NodeExistsError:
                version = await self._take_over(path, key, data)
                if version is not None:
                    return version
            await rounds.again()

    async def read(self, key: str, *, fresh: bool) -> Versioned[bytes]:
        try:
            path = self._paths.record(key)
            data, stat = await (self._session.get_fresh(path) if fresh else self._session.get(path))
        except NoNodeError:
            raise record_not_found(key) from None
        value = decode_value(data)
        if value is None:
            raise record_not_found(key)
        return Versioned(value, stat.version)

    async def write(self, key: str, value: bytes, version: int) -> int:
        if version == 0:
            # A parent is at 0 too, and must not be taken for the record. At any other version the caller has
            # seen a record: what a record leaves behind as a parent is at a version that nobody was told.
            try:
                await self.read(key, fresh=False)
            except RecordNotFoundError:
                await self.read(key, fresh=True)  # a server that lags does not have it yet
        try:
            return int(
                (await self._session.set(self._paths.record(key), encode_value(value), version)).version
            )
        except NoNodeError:
            raise record_not_found(key) from None
        except BadVersionError:
            raise await self._moved_on(key, version) from None

    async def remove(self, key: str, version: int) -> None:
        path = self._paths.record(key)
        await self.read(key, fresh=True)
        try:
            await self._session.delete(path, version)
        except NotEmptyError:
            await self._become_parent(path, key, version)
        except NoNodeError:
            raise record_not_found(key) from None
        except BadVersionError:
            raise await self._moved_on(key, version) from None
        else:
            await self._remove_empty_parents(path)

    async def children(self, prefix: str) -> list[str]:
        # Fresh: retention takes a cursor that is not listed, and a stream a log, for one that does not exist.
        return sorted(await children_quietly(self._session, self._paths.record(prefix), fresh=True))

    async def _create_parents(self, path: str) -> None:
        records = self._paths.records
        made = [self._session.create(each) for each in (records, *parents(path, records))]
        results = await asyncio.gather(*made, return_exceptions=True)
        if all(isinstance(error, NoNodeError) for error in results):
            raise no_cluster(self._session.uri)
        for error in results:
            if isinstance(error, BaseException) and not isinstance(error, (NodeExistsError, NoNodeError)):
                raise error

    async def _take_over(self, path: str, key: str, data: bytes) -> int | None:
        """Make a record of a node that was only a parent so far. None: it is gone or has changed."""
        try:
            found, stat = await self._session.get_fresh(path)
            if decode_value(found) is not None:
                raise AlreadyExistsError(f"{key} exists already", key=key)
            return int((await self._session.set(path, data, stat.version)).version)
        except (NoNodeError, BadVersionError):
            return None

    async def _become_parent(self, path: str, key: str, version: int) -> None:
        try:
            await self._session.set(path, NO_RECORD, version)
        except NoNodeError:
            raise record_not_found(key) from None
        except BadVersionError:
            raise await self._moved_on(key, version) from None

    async def _moved_on(self, key: str, version: int) -> LogStoreError:
        found = await self.read(key, fresh=False)
        return record_moved_on(key, found.version, version)

    async def _remove_empty_parents(self, path: str) -> None:
        """Bottom up, as far as nothing is left. The record is gone: what goes wrong here matters to nobody."""
        try:
            while (path := parent(path)) != self._paths.records:
                data, stat = await self._session.get(path)
                if stat.children_count or decode_value(data) is not None:
                    return
                await self._session.delete(path, stat.version)
        except (NoNodeError, NotEmptyError, BadVersionError, LogStoreError):
            return
