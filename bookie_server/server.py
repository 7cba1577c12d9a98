"""One bookie from start to stop.

Start, in this order, each step undone if a later one fails:
 1. lock the directories, bind the port without listening: the address is part of the identity;
 2. prove the identity (cookie.py): nothing of a foreign or emptied disk is touched;
 3. open the storage: the journal's tail is replayed, so every fence is back;
 4. listen, if clients expect no other bookie there (address.py);
 5. register, and see that the store still has the cookie; 6. start upkeep.

Stop is the same in reverse: end the registration, accept nothing more, wait until what was accepted is durable and
answered, close the connections, checkpoint and close the storage. After the first journal error nothing is trusted:
all connections are aborted instead, and the process must exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from bookie_server.address import await_no_other, require_unknown
from bookie_server.config import BookieConfig
from bookie_server.cookie import keep_in_store, own_cookie, prove_identity
from bookie_server.disk.directory_lock import lock_directories
from bookie_server.disk.disk import Disk, DiskLock
from bookie_server.disk.disk_watch import follow_disks, writability_of
from bookie_server.disk.durable import until_durable
from bookie_server.errors import (
    BookieAliveError,
    ClusterMissingError,
    CookieMismatchError,
    PortTakenError,
    StorageError,
)
from bookie_server.net.connections import Connections
from bookie_server.net.listener import bind, claim
from bookie_server.net.port import keep_port, kept_port, parse_range, ports_to_try
from bookie_server.protocol.long_poll import LacWatchers
from bookie_server.protocol.service import BookieService
from bookie_server.registration import Presence, patiently, register
from bookie_server.storage.compaction.task import CompactionTask
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.format import SUFFIX
from bookie_server.storage.garbage_collector import GarbageCollector, GarbageCollectorConfig, GarbageTask
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub.limbo import LimboTask
from bookie_server.storage.scrub.marking import RepairMarks
from bookie_server.storage.scrub.scrubber import Scrubber, ScrubConfig
from bookie_server.storage.storage_paths import StoragePaths
from ledger.environment import Environment
from ledger.errors import LogStoreError, MetadataFormatError, RecordNotFoundError
from ledger.metadata.format.cookie import Cookie
from ledger.metadata.store import MetadataStore, NewestLedger
from ledger.model import DURABLE_DELETIONS, LEDGER_ID_MAX, NETWORK_LOCATION, BookieId, BookieInfo

logger = logging.getLogger(__name__)
T = TypeVar("T")

_NAMED_MAX = 20
"""Of missing files."""
MISSING_FILE = (
    "%s is missing, and the index leads into it: this bookie cannot read its entries, and %s; put the file back while "
    "the bookie is stopped, or let `bookie autorecovery` copy them from other bookies: "
    "docs/operations.md#a-damaged-entry-log"
)
"""Logged as an error: the path, and what marks its ledgers for repair."""
GIVEN_UP = (
    "ledger directory %s is given up as lost: %d entry logs that the index leads into are missing%s; what they held is "
    "answered with EIO until it is stored again; leave --lost-ledger-dir out from the next start on: "
    "docs/operations.md#a-ledger-directory-that-fails"
)
"""Logged once for each start with such directories: their paths, how many, and what marks the ledgers for repair."""
MORE_MISSING_FILES = "and %d more files are missing"
DRAIN_S = 10.0
"""How long a stop waits for peers to read their last responses."""
REGISTER_S = 45.0
"""Longer than a store's session timeout: by then the session of a killed predecessor has ended. Also for one of another
id at the address."""


class BookieServer:
    """A bookie in this process, on the running event loop. `start` it once, then `stop` it."""

    def __init__(
        self, config: BookieConfig, store: MetadataStore, disk: Disk, environment: Environment
    ) -> None:
        self._config = config
        self._store = store
        self._disk = disk
        self._environment = environment
        self._stack = AsyncExitStack()
        self.connections: Connections | None = None
        """Of its clients, once they are accepted; read only."""
        self.failed = asyncio.Event()
        """Set when the bookie must stop: its storage has failed, or another process has taken its id. `failure` is the
        reason."""
        self.failure: Exception | None = None
        self.port = config.port
        self.bookie_id = BookieId("")
        self.instance_id = ""
        """Of its cluster."""
        self.storage: LedgerStorage | None = None
        """Open while the bookie serves; read only."""
        self.service: BookieService | None = None
        """The service behind its connections, while the bookie serves."""
        self.scrubber: Scrubber | None = None
        """While the bookie serves, if it has one; read only."""
        self.garbage: GarbageTask | None = None
        """While the bookie serves; read only."""

    async def start(self) -> None:
        """Start the bookie. On return it is registered and accepts connections, and `bookie_id` and `port` are set.

        After an error everything is closed again, and no request was accepted.

        Raises:
            ClusterMissingError: the metadata store has no cluster.
            DirectoryInUseError, ForeignStorageError: another bookie works on the directories.
            PortTakenError: the port is in use.
            ConfigurationError: the host is not one of this machine.
            CookieMismatchError: the directories are not those of this bookie.
            JournalDamagedError, IndexDamagedError: stored data is damaged (docs/operations.md).
            DiskFullError, DiskFailedError: a disk has no space, or fails.
            BookieAliveError: another process is registered under this id.
            AddressTakenError: clients expect another bookie at this address.
            MetadataUnavailableError: the metadata store does not respond.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Stop the bookie. On return it is not registered, all accepted requests were answered or their connections
        closed, and a checkpoint holds everything acknowledged, so a restart replays nothing.

        After a failure of the storage there is no checkpoint; the next start replays the journal.
        """
        await self._stack.aclose()

    # ---- the steps

    async def _start(self) -> None:
        instance_id = self.instance_id = await self._instance_id()
        await self._lock_directories()
        listener = await self._bind()
        self.bookie_id = self._config.identity(self.port)
        await self._prove_identity(instance_id)
        storage = await self._open_storage()
        service = self.service = self._make_service(storage)
        self.connections = Connections(self._config.limits, service)
        self._stack.push_async_callback(_close_connections, self.connections, storage)
        claim(listener, self._config.host, self.port)
        # No other bookie can begin to serve here any more, so what is not registered now is not served here.
        await await_no_other(self._store, self._own_info(), REGISTER_S)
        await listener.start_serving()
        follow_disks(service, await self._register(storage, service, instance_id))
        collector = GarbageCollector(
            storage, self._store, GarbageCollectorConfig(grace_s=self._config.gc_grace_s)
        )
        self.garbage = GarbageTask(
            collector, self._store, instance_id, self._config.gc_interval_s, on_another_cluster=self._fail
        )
        self._stack.push_async_callback(self.garbage.close)
        compaction = CompactionTask(storage, self._config.storage)
        self._stack.push_async_callback(compaction.close)
        marks = RepairMarks(self._store, self.bookie_id, self._environment)
        if storage.limbo:
            limbo = LimboTask(
                storage,
                self._disk.worker("limbo"),
                self._store,
                instance_id,
                self.bookie_id,
                marks,
                self._config.storage.limbo_check_interval_s,
            )
            self._stack.push_async_callback(limbo.close)
        _report_missing(storage.missing_files, self._config.storage, scrubs=self._config.scrub_interval_s > 0)
        if self._config.scrub_interval_s:
            self.scrubber = self._make_scrubber(storage, marks)
            self._stack.push_async_callback(self.scrubber.close)
            storage.on_directory_failure = self.scrubber.scrub_soon

    def _make_scrubber(self, storage: LedgerStorage, marks: RepairMarks) -> Scrubber:
        return Scrubber(
            storage,
            self._disk,
            StoragePaths.of(self._config.storage),
            marks,
            ScrubConfig(interval_s=self._config.scrub_interval_s, bytes_per_s=self._config.scrub_bytes_per_s),
            self._environment,
            begins_anew=bool(storage.missing_files or storage.failed_directories),
        )

    async def _instance_id(self) -> str:
        try:
            return await self._store.instance_id()
        except RecordNotFoundError as error:
            raise ClusterMissingError(
                f"metadata store {self._store.uri} has no cluster: run `bookie init-cluster --metadata "
                f"{shlex.quote(self._store.uri)}` once, or use `dlog standalone`",
                uri=self._store.uri,
            ) from error

    async def _lock_directories(self) -> None:
        locks: list[DiskLock] = []
        # Before the job: it goes on when a start is cancelled, and what it locks then must be released, too.
        self._stack.callback(_release, locks)
        await self._on_disk(lambda: locks.extend(lock_directories(self._disk, self._config.storage)))

    async def _bind(self) -> asyncio.Server:
        directory = self._config.storage.ledger_directory
        kept = None if self._config.port else await self._on_disk(lambda: kept_port(self._disk, directory))
        given = self._config.port or kept
        listener = await (self._listen(given) if given else self._listen_anywhere())
        self._stack.push_async_callback(_close_listener, listener)
        self.port = int(listener.sockets[0].getsockname()[1])
        if not given:
            await self._on_disk(lambda: keep_port(self._disk, directory, self.port))
        return listener

    async def _listen_anywhere(self) -> asyncio.Server:
        given = self._config.port_range
        *others, last = ports_to_try(self._environment.rng, parse_range(given) if given else None)
        for port in others:
            with contextlib.suppress(PortTakenError):
                return await self._listen_first(port)
        try:
            return await self._listen_first(last)
        except PortTakenError as taken:
            if not given:
                raise
            raise PortTakenError(
                f"each port of port_range {given} is taken on {self._config.host}: give a wider one",
                host=taken.host,
                port=taken.port,
            ) from taken

    async def _listen_first(self, port: int) -> asyncio.Server:
        """A port is chosen when it is ours: another bookie could choose the same one while neither listens."""
        listener = await self._listen(port)
        try:
            claim(listener, self._config.host, port)
        except PortTakenError:
            await _close_listener(listener)
            raise
        return listener

    async def _listen(self, port: int) -> asyncio.Server:
        return await bind(self._config.host, port, self._accept)

    def _accept(self) -> asyncio.BufferedProtocol:
        assert self.connections is not None, "nothing is accepted before step 4"
        return self.connections.make()

    async def _prove_identity(self, instance_id: str) -> None:
        cookie = self._cookie(instance_id)
        await prove_identity(
            self._store,
            self._disk,
            cookie,
            self._config.storage,
            self._environment,
            before_first=self._require_new_address,
        )

    async def _require_new_address(self) -> None:
        await require_unknown(self._store, self._own_info())
        await await_no_other(self._store, self._own_info(), REGISTER_S)

    def _cookie(self, instance_id: str) -> Cookie:
        storage = self._config.storage
        more = storage.more_ledger_directories
        return own_cookie(
            self.bookie_id, storage.journal_directory, storage.ledger_directory, instance_id, more
        )

    async def _open_storage(self) -> LedgerStorage:
        storage = await LedgerStorage.open(self._config.storage, self._disk, self._environment)
        self._stack.push_async_callback(storage.close)
        self.storage = storage
        storage.on_failure = self._fail
        if storage.failed is not None:
            raise storage.failed
        return storage

    def _make_service(self, storage: LedgerStorage) -> BookieService:
        limits = self._config.limits
        watchers = LacWatchers(limits.long_polls_max, limits.long_poll_s_max)
        service = BookieService(storage, watchers, self._environment)
        service.writability = writability_of(storage)
        return service

    async def _register(self, storage: LedgerStorage, service: BookieService, instance_id: str) -> Presence:
        writable = service.writability.adds
        registration = await register(
            self._store,
            replace(self._own_info(), read_only=not writable),
            REGISTER_S,
            _newest_ledger(storage),
        )
        keep_cookie = partial(keep_in_store, self._store, self._cookie(instance_id))
        presence = Presence(
            registration,
            writable=writable,
            on_lost=self._lost_name,
            on_renewed=partial(self._renewed, keep_cookie),
        )
        self._stack.push_async_callback(presence.withdraw)
        await patiently(keep_cookie, REGISTER_S)
        return presence

    def _own_info(self) -> BookieInfo:
        return BookieInfo(
            bookie_id=self.bookie_id,
            host=self._config.advertised_host,
            port=self.port,
            properties=(DURABLE_DELETIONS, *self._location()),
        )

    def _location(self) -> tuple[tuple[str, str], ...]:
        location = self._config.network_location
        return () if location is None else ((NETWORK_LOCATION, location),)

    async def _renewed(self, keep_cookie: Callable[[], Awaitable[None]]) -> None:
        try:
            await keep_cookie()
        except (CookieMismatchError, MetadataFormatError) as error:
            self._fail(error)

    def _lost_name(self, error: LogStoreError) -> None:
        self._fail(
            BookieAliveError(
                f"bookie {self.bookie_id} lost its session with the metadata store, and another process has registered "
                f"its id ({error}): this process exits; stop the other one, then start the bookie again",
                bookie_id=self.bookie_id,
            )
        )

    def _fail(self, error: Exception) -> None:
        self.failure = error
        self.failed.set()

    async def _on_disk(self, work: Callable[[], T]) -> T:
        """Run blocking file work of the start in a worker."""
        worker = self._disk.worker("bookie-start")
        try:
            return await worker.run(work)
        finally:
            await worker.close()


def _newest_ledger(storage: LedgerStorage) -> NewestLedger:
    """As of now. The index is read again only for a limit below the highest id."""
    newest = _newest_up_to(storage, LEDGER_ID_MAX)

    def up_to(limit: int) -> int | None:
        return newest if newest is None or newest <= limit else _newest_up_to(storage, limit)

    return up_to


def _newest_up_to(storage: LedgerStorage, limit: int) -> int | None:
    """None also where the index is damaged, which keeps no bookie from serving what it can read."""
    try:
        return storage.newest_ledger(limit)
    except StorageError:
        return None


def _report_missing(files: Sequence[Path], config: StorageConfig, *, scrubs: bool) -> None:
    directories = (*config.ledger_directories, *config.lost_ledger_directories)
    marking = (
        "its scrubber marks them for repair now" if scrubs else "run `bookie check-copies --full --mark`"
    )
    if config.lost_ledger_directories:
        count = sum(path.suffix == SUFFIX for path in files)
        lost = ", ".join(map(str, config.lost_ledger_directories))
        logger.warning(GIVEN_UP, lost, count, f", and {marking}" if count else "")
    for path in files[:_NAMED_MAX]:
        # It may have been in any of them.
        is_log = path.suffix == SUFFIX and len(directories) > 1
        missing = f"entry log {path.name} of {', '.join(map(str, directories))}" if is_log else path
        logger.error(MISSING_FILE, missing, marking)
    if len(files) > _NAMED_MAX:
        logger.error(MORE_MISSING_FILES, len(files) - _NAMED_MAX)


def _release(locks: Sequence[DiskLock]) -> None:
    for each in locks:
        each.release()


async def _close_listener(listener: asyncio.Server) -> None:
    listener.close()
    await listener.wait_closed()


async def _close_connections(connections: Connections, storage: LedgerStorage) -> None:
    connections.start_draining()
    if storage.failed is not None:
        connections.abort()
        return
    # Everything accepted before has been answered when this returns, or the storage has failed.
    await until_durable(storage.force)
    await connections.close(DRAIN_S)
