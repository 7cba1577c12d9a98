"""The ledger client: create, open with and without recovery, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ledger.arguments import require_type
from ledger.client_context import ClientContext, OpenWriter
from ledger.config import LedgerClientConfig, Visibility
from ledger.core.placement import PlacementPolicy, choose_ensemble
from ledger.environment import Environment, SystemEnvironment
from ledger.errors import (
    AddFailedError,
    ConfigurationError,
    LedgerNotFoundError,
    LedgerRecoveryError,
    LogStoreError,
    UnauthorizedError,
)
from ledger.metadata.store import MetadataStore, Unwatch
from ledger.model import (
    BookieId,
    BookieInfo,
    BookieSet,
    DigestType,
    EntryId,
    Fragment,
    LedgerId,
    LedgerMetadata,
    QuorumSizes,
    Versioned,
)
from ledger.placement.free_space import FreeSpace
from ledger.placement.placement import Placement
from ledger.reading.closed_ledgers import Beginning, ClosedLedgers
from ledger.reading.read_handle import ReadHandle
from ledger.reading.shared_ledgers import SharedLedger, SharedLedgers
from ledger.tasks import start_task
from ledger.transport.pool import ConnectionPool
from ledger.writing.deferred_handle import DeferredWriteHandle
from ledger.writing.late_copies import LateCopies
from ledger.writing.missed_copies import MissedCopies
from ledger.writing.recovery_runner import Recovered, RecoveryRunner
from ledger.writing.write_handle import WriteHandle, WriteListener

_TICK_S = 0.1
"""How often handles with pending requests check their deadlines. One timer serves all of them."""
_PAUSE_S = 1.0
"""A tick that is later than this shows that this process was stopped, so no bookie is at fault."""
_LOOKUP_INTERVAL_S = 0.2
"""Shortest time between two reads of the store for one bookie that the snapshot does not hold: less than a bookie takes
to start."""


class LedgerClient:
    """One cluster's ledgers: create, open with and without recovery, delete. Everything runs on the loop of `start`.

    Every method that reads or changes metadata raises MetadataUnavailableError if the metadata store cannot be
    reached (the change was not made), and MetadataOutcomeUnknownError if the answer to a change was lost.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        config: LedgerClientConfig | None = None,
        environment: Environment | None = None,
    ) -> None:
        """`store` is not closed with the client. Call `start` before anything else."""
        self.store = store
        self.config = config or LedgerClientConfig()
        self.environment = environment or SystemEnvironment()
        self._bookies = BookieSet()
        # Also those that are not registered now: placement counts on their locations.
        self._last_seen: dict[BookieId, BookieInfo] = {}
        self._pool = ConnectionPool(self._resolve, self.config)
        self.missed_copies = MissedCopies(store, self.environment)
        """What members of its ledgers lack, on the way to being marked for repair."""
        self.late_copies = LateCopies(self.missed_copies.report, self.config.add_timeout_s)
        """What members owe of its ledgers that are closed."""
        self._context = ClientContext(
            store,
            self._pool,
            self.config,
            self.environment,
            self.bookies,
            self.placement,
            self._watch,
            self._forget,
            self.missed_copies.report,
            self.late_copies.follow,
        )
        placement = self.config.placement
        self._placement = Placement(placement)
        self._free_space = FreeSpace(
            self._pool,
            self.bookies,
            interval_s=placement.free_space_interval_s,
            timeout_s=self.config.read_timeout_s,
        )
        # In the order in which they were opened: a set's own order is another in each process.
        self._handles: dict[OpenWriter, None] = {}
        self._ticking: dict[OpenWriter, float] = {}
        """When each of them is to be looked at next, in loop time."""
        self._timer: asyncio.TimerHandle | None = None
        self._tick_due = 0.0
        self._lookup: asyncio.Task[None] | None = None
        self._next_lookup_at: dict[BookieId, float] = {}
        """Of those that were not registered, in loop time."""
        self._unwatch: Unwatch | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """In which it was started: its connections and tasks are of this one."""
        self._refreshing: asyncio.Task[None] | None = None
        self._refresh_again = False
        self._reads_begun = 0
        self._read_adopted = 0
        self.shared = SharedLedgers(self.open)
        """For readers that follow a ledger, perhaps the same one."""
        self._recoveries: dict[LedgerId, asyncio.Task[Recovered]] = {}
        self._is_closed = False

    async def start(self) -> None:
        """Read the registered bookies and follow changes from then on.

        Raises:
            MetadataUnavailableError: there is no cluster, or the metadata store cannot be reached.
            ConfigurationError: the mapping file of the placement settings cannot be read, or makes no sense.
        """
        self._loop = asyncio.get_running_loop()
        self._placement.load()
        self._unwatch = self.store.watch_bookies(self._bookies_may_have_changed)
        await self._read_bookies()
        if self.config.placement.free_space_multiple_max:
            await self._free_space.start()

    def check_loop(self) -> None:
        """Refuse to wait in another event loop than that of `start`: what is waited for might never come.

        Raises:
            ConfigurationError: the client was started in another event loop.
        """
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise ConfigurationError(
                "the client was connected in another event loop, as of an earlier asyncio.run: connect in the one "
                "that uses it"
            )

    async def close(self) -> None:
        """Close connections and watches, but not the metadata store, which is the caller's.

        Open write handles fail with AddFailedError and leave their ledgers open; a recovery in progress ends with
        LedgerRecoveryError. Waits up to 10 s for members that are behind with confirmed entries, and 1 s for one that
        answers nothing; what they miss is marked for repair, for which the metadata store gets as much.
        """
        self._is_closed = True
        if self._unwatch is not None:
            self._unwatch()
        if self._timer is not None:
            self._timer.cancel()
        await self._free_space.close()
        for handle in list(self._handles):
            _fail_closed(handle)
        reads = (self._refreshing, self._lookup)
        tasks = [*self._recoveries.values(), *(each for each in reads if each is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.late_copies.close()
        await self._pool.close()
        await self.missed_copies.close()

    async def settle(self) -> None:
        """What `close` waits for, and nothing else: members that are behind, and marks of what they miss."""
        await self.late_copies.settle()
        await self.missed_copies.settle()

    def hurry(self) -> None:
        """From now on `close` does not wait for members, and for marks 1 s at most."""
        self.late_copies.give_up()
        self.missed_copies.hurry()

    # ---- ledgers

    async def create(
        self,
        quorum: QuorumSizes,
        *,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom: tuple[tuple[str, bytes], ...] = (),
        visibility: Visibility = Visibility.STRICT,
        listener: WriteListener | None = None,
    ) -> WriteHandle:
        """Create a ledger in metadata, open for this writer. No bookie is asked to store anything before the first add.

        `custom`: names and values kept in the ledger's metadata. `listener` is called as adds are confirmed.

        Raises:
            NotEnoughBookiesError: fewer writable bookies than `quorum.ensemble`; nothing was written.
            NotEnoughRacksError: they do not span the racks that the settings enforce; nothing was written.
            MetadataOutcomeUnknownError: an empty ledger that no client knows of may be left in metadata.
            ConfigurationError: an argument has a wrong type, or the client is closed.

        Source: docs/bookkeeper.md#creating-a-ledger.
        """
        require_type("visibility", visibility, Visibility)
        found = await self._create(quorum, digest_type, password, custom)
        handle = WriteHandle(*found, self._context, visibility=visibility, listener=listener)
        self._adopt_writer(handle)
        return handle

    async def create_deferred(
        self,
        quorum: QuorumSizes,
        *,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom: tuple[tuple[str, bytes], ...] = (),
    ) -> DeferredWriteHandle:
        """As `create`, for a writer that decides when its entries become durable: `DeferredWriteHandle.force`.

        Source: docs/bookkeeper.md#deferred-sync.
        """
        found = await self._create(quorum, digest_type, password, custom)
        handle = DeferredWriteHandle(*found, self._context)
        self._adopt_writer(handle)
        return handle

    def _adopt_writer(self, handle: OpenWriter) -> None:
        self._handles[handle] = None
        if self._is_closed:  # while its ledger was created
            _fail_closed(handle)

    async def _create(
        self,
        quorum: QuorumSizes,
        digest_type: DigestType,
        password: bytes,
        custom: tuple[tuple[str, bytes], ...],
    ) -> tuple[LedgerId, Versioned[LedgerMetadata]]:
        self.check_loop()
        require_type("quorum", quorum, QuorumSizes)
        require_type("digest_type", digest_type, DigestType)
        require_type("password", password, bytes)
        _check_custom(custom)
        if self._is_closed:
            raise ConfigurationError("the ledger client is closed; make another one")
        ensemble = await self._choose_ensemble(quorum)
        metadata = LedgerMetadata(
            quorum=quorum,
            fragments=(Fragment(EntryId(0), ensemble),),
            digest_type=digest_type,
            password=password,
            custom=custom,
            c_token=self.environment.token(),
        )
        ledger_id, version = await self.store.create_new_ledger(metadata)
        return ledger_id, Versioned(metadata, version)

    async def _choose_ensemble(self, quorum: QuorumSizes) -> tuple[BookieId, ...]:
        if len(self._bookies.writable) < quorum.ensemble:
            await self._read_bookies()  # the snapshot may miss a bookie that just started
        return choose_ensemble(self._bookies, quorum, self.environment.rng, self.placement())

    async def open(self, ledger_id: LedgerId, password: bytes = b"", *, fresh: bool = True) -> ReadHandle:
        """Open the ledger for reading as it is. Fences nothing and changes nothing.

        An open ledger is readable up to its LAC, which covers every add that had succeeded before the call. With
        `fresh=False` its metadata may be older, and the LAC lower, for one read less of the store.

        Raises:
            LedgerNotFoundError: no such ledger.
            UnauthorizedError: `password` is not the ledger's.
            ReadError: the ledger is open and too few bookies respond to determine its LAC.

        Source: docs/bookkeeper.md#reading-the-lac.
        """
        metadata = await self._read(ledger_id, password, fresh=fresh)
        handle = ReadHandle(ledger_id, metadata, self._context)
        await handle.read_lac()
        return handle

    def open_at(self, beginning: Beginning) -> SharedLedger:
        """A handle, for one reader, on the ledger whose beginning was read. Asks no store."""
        return SharedLedger(ReadHandle(beginning.ledger_id, beginning.metadata, self._context))

    def closed_ledgers(self, password: bytes = b"", *, entries_max: int, bytes_max: int) -> ClosedLedgers:
        """Reads the beginnings of many closed ledgers faster than `open` of each."""
        return ClosedLedgers(self._context, password, entries_max=entries_max, bytes_max=bytes_max)

    async def open_with_recovery(
        self,
        ledger_id: LedgerId,
        password: bytes = b"",
        *,
        read_first: bool = False,
        on_marked: Callable[[], None] | None = None,
    ) -> ReadHandle:
        """Fence the writer and close the ledger. On return it is CLOSED and each of its entries is on an ack quorum.

        Every entry ever acknowledged is kept; any other one is kept or cut off, the same for all readers. A closed
        ledger is only opened. Calls at the same time for one ledger share one recovery; cancelling a call does not
        stop it.

        The handle has the last entry already if recovery has read it; with `read_first` recovery reads the first entry,
        too, while it determines the last. A recovery that this call begins calls `on_marked` when it begins to wait for
        bookies, and not for the metadata store.

        Raises:
            LedgerNotFoundError: no such ledger.
            UnauthorizedError: `password` is not the ledger's.
            LedgerRecoveryError: too few bookies respond. The ledger stays IN_RECOVERY; try again later. Or the client
                is closed.
            ContendedError: the metadata kept changing; try again later.

        Source: docs/bookkeeper.md#recovery, #fencing.
        """
        # An older value will do: recovery begins with a compare-and-set, and a closed ledger stays closed.
        metadata = await self._read(ledger_id, password, fresh=False)
        if metadata.value.closed:
            return ReadHandle(ledger_id, metadata, self._context)
        recovered = await self._recover(ledger_id, metadata, read_first, on_marked)
        return ReadHandle(ledger_id, recovered.metadata, self._context, recovered.read)

    async def _recover(
        self,
        ledger_id: LedgerId,
        metadata: Versioned[LedgerMetadata],
        read_first: bool,
        on_marked: Callable[[], None] | None,
    ) -> Recovered:
        closed = f"ledger {ledger_id} is not recovered: the ledger client was closed"
        if self._is_closed:
            raise LedgerRecoveryError(closed, ledger_id=ledger_id)
        # Two recoveries in one process would do the same work twice: they share one run.
        task = self._recoveries.get(ledger_id)
        if task is None:
            runner = RecoveryRunner(
                ledger_id, metadata, self._context, read_first=read_first, on_marked=on_marked
            )
            task = start_task(runner.run())
            self._recoveries[ledger_id] = task
            task.add_done_callback(lambda done: self._recovered(ledger_id, done))
        await asyncio.wait([task])
        if task.cancelled():
            raise LedgerRecoveryError(closed, ledger_id=ledger_id)
        return task.result()

    def _recovered(self, ledger_id: LedgerId, task: asyncio.Task[Recovered]) -> None:
        del self._recoveries[ledger_id]
        if not task.cancelled():
            task.exception()  # raised to the callers that still wait

    async def delete(self, ledger_id: LedgerId) -> None:
        """Remove the ledger from metadata; bookies delete its entries later. Succeeds if there is no such ledger.

        Does not fence the writer: recover the ledger first if it may have one.

        Source: docs/bookkeeper.md#deleting-a-ledger.
        """
        require_type("a ledger id", ledger_id, int)
        try:
            await self.store.remove_ledger(ledger_id)
        except LedgerNotFoundError:
            return

    async def _read(
        self, ledger_id: LedgerId, password: bytes, *, fresh: bool = True
    ) -> Versioned[LedgerMetadata]:
        self.check_loop()
        require_type("a ledger id", ledger_id, int)
        require_type("password", password, bytes)
        known = {} if fresh else await self.store.glance_at_ledgers((ledger_id,))
        metadata = known.get(ledger_id) or await self.store.read_ledger(ledger_id)
        if metadata.value.password != password:
            raise UnauthorizedError(
                f"the password given does not open ledger {ledger_id}", ledger_id=ledger_id
            )
        return metadata

    # ---- bookies

    def bookies(self) -> BookieSet:
        """The registered bookies as last read. May be stale: only a bookie's answer is proof."""
        return self._bookies

    def placement(self) -> PlacementPolicy:
        """How bookies are chosen, with the locations and the free space that are known now."""
        return self._placement.policy(self._last_seen.values(), self._free_space.known)

    async def ask_free_space(self) -> Mapping[BookieId, int]:
        """Ask every writable bookie for its free bytes; one that does not answer is left out, or as before."""
        await self._free_space.ask()
        return self._free_space.known

    async def _resolve(self, bookie_id: BookieId) -> BookieInfo | None:
        """Where the bookie is registered, None if it is not.

        Invariant: only the bookie itself is asked. No message names it, so another one that listens where it was, or at
        the address that its id is, would answer for it; and what a new, empty bookie denies proves nothing of this one.
        """
        if self._bookies.find(bookie_id) is None:
            await self._look_up(bookie_id)
        return self._bookies.find(bookie_id)

    async def _look_up(self, bookie_id: BookieId) -> None:
        """The snapshot may miss a bookie that just started. All who look at a time share one read of the store."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._lookup is None and now >= self._next_lookup_at.get(bookie_id, now):
            self._next_lookup_at[bookie_id] = now + _LOOKUP_INTERVAL_S
            self._lookup = start_task(self._looked_up())
        if self._lookup is not None:
            await asyncio.shield(self._lookup)

    async def _looked_up(self) -> None:
        try:
            await self._read_bookies()
        except LogStoreError:
            pass  # the store is unavailable: what is known must do
        finally:
            self._lookup = None

    def _bookies_may_have_changed(self) -> None:
        if self._refreshing is not None and not self._refreshing.done():
            self._refresh_again = True
            return
        self._refreshing = start_task(self._refresh_bookies())

    async def _refresh_bookies(self) -> None:
        while True:
            self._refresh_again = False
            try:
                await self._read_bookies()
            except LogStoreError:
                # The store is unavailable; the last list stays, it is only a hint. The change must not be missed.
                await asyncio.sleep(self.config.replace_backoff_s)
                continue
            if not self._refresh_again:
                return

    async def _read_bookies(self) -> None:
        """Read the registrations. Several reads may be in progress, and one may overtake another.

        Each change is followed by a read that begins after it, so the read that began last has seen everything: an
        answer counts unless that of a later read came before.
        """
        self._reads_begun += 1
        number = self._reads_begun
        bookies = await self.store.bookies()
        if number > self._read_adopted:
            self._read_adopted = number
            self._adopt(bookies)

    def _adopt(self, bookies: BookieSet) -> None:
        self._bookies = bookies
        for bookie_id in [each for each in self._next_lookup_at if bookies.find(each) is not None]:
            del self._next_lookup_at[bookie_id]
        for info in (*bookies.writable, *bookies.read_only):
            self._last_seen[info.bookie_id] = info
        for handle in list(self._handles):
            handle.on_bookies_changed(bookies)

    # ---- time

    def _watch(self, handle: OpenWriter) -> None:
        self._ticking.setdefault(handle, 0.0)
        if self._timer is None:
            self._schedule_tick()

    def _schedule_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._tick_due = loop.time() + min(_TICK_S, self.config.lac_interval_s)
        self._timer = loop.call_at(self._tick_due, self._tick)

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time()
        late_s = now - self._tick_due
        self._timer = None
        if self._ticking:
            self._schedule_tick()
        for handle, due in list(self._ticking.items()):
            if late_s > _PAUSE_S:
                handle.extend_deadlines(late_s)
            if due > now:
                continue
            again_at = handle.tick(now)
            if again_at is None:
                self._ticking.pop(handle, None)
            else:
                self._ticking[handle] = again_at

    def _forget(self, handle: OpenWriter) -> None:
        self._handles.pop(handle, None)
        self._ticking.pop(handle, None)


def _check_custom(custom: object) -> None:
    require_type("custom", custom, tuple)
    assert isinstance(custom, tuple)
    names: set[str] = set()
    for pair in custom:
        require_type("a pair in custom", pair, tuple)
        if len(pair) != 2:
            raise ConfigurationError(f"custom must have pairs of a name and its value, got {pair!r:.80}")
        name, value = pair
        require_type("a name in custom", name, str)
        require_type("a value in custom", value, bytes)
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"the name {name[:80]!r} in custom is no text: it has a lone surrogate"
            ) from error
        if name in names:
            raise ConfigurationError(f"custom has the name {name[:80]!r} twice, and readers keep one of them")
        names.add(name)


def _fail_closed(handle: OpenWriter) -> None:
    handle.fail(
        AddFailedError(
            f"the ledger client was closed; ledger {handle.ledger_id} is left open",
            ledger_id=handle.ledger_id,
            lac=handle.lac,
        )
    )
