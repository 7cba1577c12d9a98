"""MetadataStore over any Backend: encodes and checks on the way in, runs the job, decodes on the way out."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from ledger.environment import Environment
from ledger.metadata.bookie_set import DamageReports
from ledger.metadata.format.ledger import encode_ledger_metadata, rewritten
from ledger.metadata.format.service_info import published
from ledger.metadata.record_keys import check_key, check_value
from ledger.metadata.refusals import OLDER_THAN_BOOKIE, checked_ledger_id, intact_ledger, stored_ledger
from ledger.metadata.repair_store import RepairStore
from ledger.metadata.store import (
    NewestLedger,
    OnLost,
    OnRenewed,
    Registration,
    Unwatch,
    Watch,
    ignore_loss,
    ignore_renewal,
)
from ledger.metadata.transactions import bookies, cluster, ledgers, records
from ledger.metadata.transactions.cluster import COOKIE_PREFIX
from ledger.metadata.transactions.key_value import Backend, Job, T, Transaction
from ledger.metadata.transactions.repair_store import KeyValueRepair
from ledger.model import (
    LEDGER_ID_MAX,
    BookieId,
    BookieInfo,
    BookieSet,
    LedgerId,
    LedgerMetadata,
    Versioned,
    check_bookie_id,
)

_log = logging.getLogger(__name__)
_PAGE_IDS = 1000
"""Ledger ids fetched at a time: some 30 KB, and a millisecond of the store's time."""


class KeyValueStore:
    """The driver that memory and SQLite share; what differs between them is the Backend."""

    def __init__(self, backend: Backend, environment: Environment) -> None:
        self._backend = backend
        self._environment = environment
        self._damaged_registrations = DamageReports()
        self._repair = KeyValueRepair(backend, self._read, self._write)

    @property
    def uri(self) -> str:
        return self._backend.uri

    @property
    def repair(self) -> RepairStore:
        return self._repair

    async def close(self) -> None:
        await self._backend.close()

    # ---- ledgers

    async def new_ledger_id(self) -> LedgerId:
        return LedgerId(await self._write(ledgers.new_id))

    async def create_new_ledger(self, metadata: LedgerMetadata) -> tuple[LedgerId, int]:
        data = check_value(encode_ledger_metadata(metadata), "metadata of a new ledger")
        return LedgerId(await self._write(partial(ledgers.create_new, data=data))), 0

    async def create_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> int:
        if metadata.format_version == 3 and metadata.c_token is None:
            metadata = replace(metadata, c_token=self._environment.token())
        data = check_value(encode_ledger_metadata(metadata), f"metadata of ledger {ledger_id}")
        token = metadata.c_token if metadata.format_version == 3 else None
        return await self._write(
            partial(ledgers.create, ledger_id=checked_ledger_id(ledger_id), data=data, c_token=token)
        )

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        node = await self._read(partial(ledgers.read, ledger_id=checked_ledger_id(ledger_id)))
        return Versioned(stored_ledger(ledger_id, node.value), node.version)

    async def glance_at_ledgers(
        self, ledger_ids: Sequence[LedgerId]
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        nodes = await self._read(partial(ledgers.read_many, ledger_ids=ledger_ids))
        return {
            ledger_id: Versioned(metadata, node.version)
            for ledger_id, node in nodes.items()
            if (metadata := intact_ledger(node.value)) is not None
        }

    async def write_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        data = encode_ledger_metadata(rewritten(metadata))
        check_value(data, f"metadata of ledger {ledger_id}")
        return await self._write(
            partial(ledgers.write, ledger_id=checked_ledger_id(ledger_id), data=data, version=version)
        )

    async def remove_ledger(self, ledger_id: LedgerId, version: int | None = None) -> None:
        await self._write(partial(ledgers.remove, ledger_id=checked_ledger_id(ledger_id), version=version))

    def watch_ledger(self, ledger_id: LedgerId, watch: Watch, *, urgent: bool = False) -> Unwatch:
        return self._backend.watch_key(ledgers.watch_key(checked_ledger_id(ledger_id)), watch, urgent=urgent)

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        first = 0
        while page := await self._read(partial(ledgers.page, first=first, limit=_PAGE_IDS)):
            for ledger_id in page:
                yield ledger_id
            if len(page) < _PAGE_IDS or page[-1] == LEDGER_ID_MAX:
                break
            first = page[-1] + 1

    # ---- records

    async def create_record(self, key: str, value: bytes) -> int:
        check_value(value, check_key(key))
        return await self._write(lambda tx: records.create(tx, records.PREFIX, key, value))

    async def read_record(self, key: str, *, fresh: bool = True) -> Versioned[bytes]:
        check_key(key)
        node = await self._read(lambda tx: records.read(tx, records.PREFIX, key))
        return Versioned(node.value, node.version)

    async def write_record(self, key: str, value: bytes, version: int) -> int:
        check_value(value, check_key(key))
        return await self._write(lambda tx: records.write(tx, records.PREFIX, key, value, version))

    async def remove_record(self, key: str, version: int) -> None:
        check_key(key)
        await self._write(lambda tx: records.remove(tx, records.PREFIX, key, version))

    async def list_records(self, prefix: str) -> list[str]:
        if prefix not in ("", "/"):
            check_key(prefix.rstrip("/"))
        return await self._read(lambda tx: records.children(tx, prefix))

    def watch_record(self, key: str, watch: Watch, *, urgent: bool = False) -> Unwatch:
        return self._backend.watch_key(records.PREFIX + check_key(key), watch, urgent=urgent)

    # ---- bookies

    async def register_bookie(
        self, info: BookieInfo, *, newest_ledger: NewestLedger | None = None
    ) -> Registration:
        registration = KeyValueRegistration(self._write, info, await self._backend.session())
        await registration.open(info.read_only, newest_ledger)
        return registration

    async def bookies(self) -> BookieSet:
        found = await self._read(bookies.bookies)
        self._damaged_registrations.report(found.damaged)
        return found

    def watch_bookies(self, watch: Watch) -> Unwatch:
        return self._backend.watch_range(bookies.PREFIX, watch)

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[bytes]:
        check_bookie_id(bookie_id)
        node = await self._read(lambda tx: records.read(tx, COOKIE_PREFIX, bookie_id))
        return Versioned(node.value, node.version)

    async def write_cookie(self, bookie_id: BookieId, cookie: bytes, version: int | None) -> int:
        check_bookie_id(bookie_id)
        check_value(cookie, f"the cookie of {bookie_id}")
        if version is None:
            return await self._write(lambda tx: records.create(tx, COOKIE_PREFIX, bookie_id, cookie))
        return await self._write(lambda tx: records.write(tx, COOKIE_PREFIX, bookie_id, cookie, version))

    async def remove_cookie(self, bookie_id: BookieId, version: int) -> None:
        check_bookie_id(bookie_id)
        await self._write(lambda tx: records.remove(tx, COOKIE_PREFIX, bookie_id, version))

    async def list_cookies(self) -> list[BookieId]:
        nodes = await self._read(lambda tx: tx.nodes(COOKIE_PREFIX))
        return [BookieId(key.removeprefix(COOKIE_PREFIX)) for key, _ in nodes]

    # ---- the cluster

    async def init_cluster(self) -> None:
        await self._backend.create(partial(cluster.init, instance_id=self._environment.new_uuid()))

    async def format_cluster(self) -> None:
        await self._write(partial(cluster.format_cluster, instance_id=self._environment.new_uuid()))

    async def nuke_cluster(self, instance_id: str | None) -> None:
        await self._backend.write(partial(cluster.nuke, instance_id=instance_id))

    async def instance_id(self) -> str:
        return await self._backend.read(cluster.read_instance_id)

    async def layout(self) -> bytes:
        return await self._backend.read(cluster.read_layout)

    # ---- jobs that need a cluster

    async def _read(self, job: Job[T]) -> T:
        return await self._backend.read(partial(self._in_cluster, job))

    async def _write(self, job: Job[T]) -> T:
        return await self._backend.write(partial(self._in_cluster, job))

    def _in_cluster(self, job: Job[T], tx: Transaction) -> T:
        cluster.require_cluster(tx, self._backend.uri)
        return job(tx)


class KeyValueRegistration:
    """A registered bookie; its node names the session of the handle that made it."""

    def __init__(
        self, write: Callable[[Job[int | None]], Awaitable[int | None]], info: BookieInfo, session: str
    ) -> None:
        self.on_lost: OnLost = ignore_loss
        self.on_renewed: OnRenewed = ignore_renewal
        self._write = write
        self._bookie_id = check_bookie_id(info.bookie_id)
        self._data = published(info)
        self._session = session

    async def open(self, read_only: bool, newest_ledger: NewestLedger | None) -> None:
        """The first registration."""
        limit: int | None = LEDGER_ID_MAX
        while limit is not None:
            newest = None if newest_ledger is None else newest_ledger(limit)
            limit = await self._write(partial(self._register, read_only=read_only, newest_ledger=newest))

    async def set_read_only(self, read_only: bool) -> None:
        await self._write(partial(self._register, read_only=read_only))

    def _register(self, tx: Transaction, read_only: bool, newest_ledger: int | None = None) -> int | None:
        """None: done. Otherwise nothing is done yet: up to which id the newest ledger is asked for."""
        if newest_ledger is not None and newest_ledger > (reach := ledgers.reach(tx)):
            return reach
        bookies.register(
            tx, bookie_id=self._bookie_id, data=self._data, session=self._session, read_only=read_only
        )
        if newest_ledger is not None and ledgers.pass_by(tx, newest_ledger):
            _log.warning(OLDER_THAN_BOOKIE, newest_ledger)
        return None

    async def close(self) -> None:
        await self._write(partial(bookies.withdraw, bookie_id=self._bookie_id, session=self._session))
