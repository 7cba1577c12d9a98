"""Metadata in ZooKeeper, laid out as Apache BookKeeper does it: `zk+hierarchical://h1:2181;h2:2181/ledgers`.

Checks and encodes on the way in, decodes on the way out; the work is done by one module per kind of node.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from ledger.environment import Environment
from ledger.errors import (
    AlreadyExistsError,
    ConfigurationError,
    MetadataUnavailableError,
    RecordNotFoundError,
)
from ledger.metadata.format.ledger import encode_ledger_metadata, rewritten
from ledger.metadata.record_keys import check_key, check_value
from ledger.metadata.refusals import checked_ledger_id, has_no_instance_id, intact_ledger, stored_ledger
from ledger.metadata.repair_store import RepairStore
from ledger.metadata.store import NewestLedger, Registration, Unwatch, Watch
from ledger.metadata.uri import MetadataUri
from ledger.metadata.zookeeper.address import ZooKeeperAddress, parse_address
from ledger.metadata.zookeeper.bookie_list import BookieList
from ledger.metadata.zookeeper.cluster import Cluster
from ledger.metadata.zookeeper.cookies import Cookies
from ledger.metadata.zookeeper.ledgers.ids import LedgerIds
from ledger.metadata.zookeeper.ledgers.nodes import LedgerNodes
from ledger.metadata.zookeeper.ledgers.walk import LedgerWalk
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.records import Records
from ledger.metadata.zookeeper.registration import ZooKeeperRegistration
from ledger.metadata.zookeeper.removal import Removal
from ledger.metadata.zookeeper.repair.store import ZooKeeperRepair
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.metadata.zookeeper.session.watches import Watches
from ledger.model import (
    BookieId,
    BookieInfo,
    BookieSet,
    LedgerId,
    LedgerMetadata,
    Versioned,
    check_bookie_id,
)


class ZooKeeperStore:
    def __init__(
        self, address: ZooKeeperAddress, credential: tuple[str, str] | None, environment: Environment
    ) -> None:
        self._environment = environment
        self._address = address
        self._paths = Paths(address.root)
        self._session = ZooKeeperSession(address, credential, environment)
        self._watches = Watches(self._session)
        self._cluster = Cluster(self._session, self._watches, self._paths, address.layout, environment)
        self._removal = Removal(self._session, self._paths, self._cluster, environment)
        self._ids = LedgerIds(self._session, self._paths)
        self._nodes = LedgerNodes(self._session, address.root)
        self._records = Records(self._session, self._paths)
        self._cookies = Cookies(self._session, self._paths)
        self._bookies = BookieList(self._session, self._watches, self._paths)
        self._registrations: dict[BookieId, ZooKeeperRegistration] = {}
        self._repair = ZooKeeperRepair(self._session, self._watches, self._paths, self._cluster)

    @property
    def uri(self) -> str:
        return self._address.uri

    @property
    def repair(self) -> RepairStore:
        return self._repair

    async def open(self) -> None:
        await self._session.open()

    async def close(self) -> None:
        for registration in self._registrations.values():
            registration.abandon()
        await self._session.close()

    # ---- ledgers

    async def new_ledger_id(self) -> LedgerId:
        ledger_id, node = await self._ids.draw(await self._cluster.layout_type())
        self._ids.release(node)
        return ledger_id

    async def create_new_ledger(self, metadata: LedgerMetadata) -> tuple[LedgerId, int]:
        layout = await self._cluster.layout_type()
        data, token = self._encoded(metadata, "a new ledger")
        while True:
            ledger_id, counter = await self._ids.draw(layout)
            try:
                path = self._paths.ledger(layout, ledger_id)
                return ledger_id, await self._nodes.create(path, ledger_id, data, token)
            except AlreadyExistsError:
                continue  # somebody took that id by hand
            finally:
                self._ids.release(counter)

    async def create_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> int:
        path = await self._ledger_path(ledger_id)
        data, token = self._encoded(metadata, f"ledger {ledger_id}")
        return await self._nodes.create(path, ledger_id, data, token)

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        data, version = await self._nodes.read(await self._ledger_path(ledger_id), ledger_id)
        return Versioned(stored_ledger(ledger_id, data), version)

    async def glance_at_ledgers(
        self, ledger_ids: Sequence[LedgerId]
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        layout = await self._cluster.layout_type()
        nodes = await self._nodes.read_many([self._paths.ledger(layout, each) for each in ledger_ids])
        return {
            ledger_id: Versioned(metadata, node[1])
            for ledger_id, node in zip(ledger_ids, nodes, strict=True)
            if node is not None and (metadata := intact_ledger(node[0])) is not None
        }

    async def write_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        path = await self._ledger_path(ledger_id)
        data = encode_ledger_metadata(rewritten(metadata))
        return await self._nodes.write(
            path, ledger_id, check_value(data, f"metadata of ledger {ledger_id}"), _checked_version(version)
        )

    async def remove_ledger(self, ledger_id: LedgerId, version: int | None = None) -> None:
        path = await self._ledger_path(ledger_id)
        await self._nodes.remove(path, ledger_id, None if version is None else _checked_version(version))

    def watch_ledger(self, ledger_id: LedgerId, watch: Watch, *, urgent: bool = False) -> Unwatch:
        checked_ledger_id(ledger_id)
        return self._cluster.watch_in_layout(
            lambda layout: self._watches.watch_node(self._paths.ledger(layout, ledger_id), watch)
        )

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        layout = await self._cluster.layout_type()
        walk = LedgerWalk(self._session, self._watches, self._address.root, layout)
        async for ledger_id in walk.ids():
            yield ledger_id

    # ---- records

    async def create_record(self, key: str, value: bytes) -> int:
        check_value(value, check_key(key))
        await self._cluster.layout_type()
        return await self._records.create(key, value)

    async def read_record(self, key: str, *, fresh: bool = True) -> Versioned[bytes]:
        check_key(key)
        await self._cluster.layout_type()
        return await self._records.read(key, fresh=fresh)

    async def write_record(self, key: str, value: bytes, version: int) -> int:
        check_value(value, check_key(key))
        await self._cluster.layout_type()
        return await self._records.write(key, value, _checked_version(version))

    async def remove_record(self, key: str, version: int) -> None:
        check_key(key)
        await self._cluster.layout_type()
        await self._records.remove(key, _checked_version(version))

    async def list_records(self, prefix: str) -> list[str]:
        if prefix not in ("", "/"):
            check_key(prefix.rstrip("/"))
        await self._cluster.layout_type()
        return await self._records.children(prefix)

    def watch_record(self, key: str, watch: Watch, *, urgent: bool = False) -> Unwatch:
        return self._watches.watch_node(self._paths.record(check_key(key)), watch)

    # ---- bookies

    async def register_bookie(
        self, info: BookieInfo, *, newest_ledger: NewestLedger | None = None
    ) -> Registration:
        registration = ZooKeeperRegistration(self._session, self._watches, self._paths, self._cluster, info)
        replaced = self._registrations.get(info.bookie_id)
        try:
            layout = await self._cluster.layout_type()
            if newest_ledger is not None:
                await self._ids.pass_by(layout, newest_ledger)
            instance_id = await self._instance_id()
            if replaced is not None:
                replaced.abandon()
            await registration.open(instance_id)
        except BaseException:
            registration.abandon()
            raise
        self._registrations[info.bookie_id] = registration
        return registration

    async def _instance_id(self) -> str:
        try:
            return await self._cluster.instance_id()
        except RecordNotFoundError:
            raise MetadataUnavailableError(has_no_instance_id(self.uri)) from None  # it has LAYOUT

    async def bookies(self) -> BookieSet:
        await self._cluster.layout_type()
        return await self._bookies.read()

    def watch_bookies(self, watch: Watch) -> Unwatch:
        return self._bookies.watch(watch)

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[bytes]:
        await self._cluster.layout_type()
        return await self._cookies.read(check_bookie_id(bookie_id))

    async def write_cookie(self, bookie_id: BookieId, cookie: bytes, version: int | None) -> int:
        check_value(cookie, f"the cookie of {check_bookie_id(bookie_id)}")
        await self._cluster.layout_type()
        if version is None:
            return await self._cookies.create(bookie_id, cookie)
        return await self._cookies.write(bookie_id, cookie, _checked_version(version))

    async def remove_cookie(self, bookie_id: BookieId, version: int) -> None:
        await self._cluster.layout_type()
        await self._cookies.remove(check_bookie_id(bookie_id), _checked_version(version))

    async def list_cookies(self) -> list[BookieId]:
        await self._cluster.layout_type()
        return await self._cookies.list()

    # ---- the cluster

    async def init_cluster(self) -> None:
        await self._cluster.init()

    async def format_cluster(self) -> None:
        await self._removal.format()

    async def nuke_cluster(self, instance_id: str | None) -> None:
        await self._removal.nuke(instance_id)

    async def instance_id(self) -> str:
        return await self._cluster.instance_id()

    async def layout(self) -> bytes:
        return await self._cluster.read_layout()

    # ---- values and paths

    async def _ledger_path(self, ledger_id: LedgerId) -> str:
        checked_ledger_id(ledger_id)
        return self._paths.ledger(await self._cluster.layout_type(), ledger_id)

    def _encoded(self, metadata: LedgerMetadata, what: str) -> tuple[bytes, int | None]:
        """The bytes of a new ledger, and the token by which a repeated create is known (format 3 only)."""
        if metadata.format_version == 3 and metadata.c_token is None:
            metadata = replace(metadata, c_token=self._environment.token())
        data = check_value(encode_ledger_metadata(metadata), f"metadata of {what}")
        return data, metadata.c_token if metadata.format_version == 3 else None


async def open_zookeeper(uri: MetadataUri, environment: Environment) -> ZooKeeperStore:
    """A handle with a session of its own; the cluster itself still wants `init_cluster` the first time."""
    address = _absolute(parse_address(uri))
    store = ZooKeeperStore(address, _credential(address), environment)
    await store.open()
    return store


def _absolute(address: ZooKeeperAddress) -> ZooKeeperAddress:
    """The address as it is valid in any directory."""
    if address.auth_file is None or Path(address.auth_file).is_absolute():
        return address
    return address.with_auth_file(str(Path(address.auth_file).absolute()))


def _credential(address: ZooKeeperAddress) -> tuple[str, str] | None:
    """(scheme, credential) from the file that the address names."""
    if address.auth_file is None:
        return None
    wrong = f"auth_file {address.auth_file!r} of the metadata address must hold one line, user:password"
    try:
        text = Path(address.auth_file).read_text("utf-8").strip()
    except (OSError, ValueError) as error:  # no file has such a name, or its text is not UTF-8
        raise ConfigurationError(f"{wrong}, and cannot be read: {error}") from error
    if text.count("\n") or not text.partition(":")[2]:
        raise ConfigurationError(wrong)
    return "digest", text


def _checked_version(version: int) -> int:
    """ZooKeeper takes -1 for any version: no caller of ours means that."""
    if version < 0:
        raise ConfigurationError(f"version {version} is no version: they start at 0")
    return version
