"""The reader of one ledger: never fences, never reads beyond what is confirmed.

An open ledger is readable up to the LAC that this handle has learned, a closed one up to its last entry. A read asks
one replica and tries the next one on an error, a damaged copy, or silence.

Protocol: docs/bookkeeper.md#reads, #long-poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ledger.arguments import require_type
from ledger.client_context import ClientContext
from ledger.config import WireProtocol
from ledger.core.distribution import write_set
from ledger.core.read import EntryRead, Verdict
from ledger.errors import (
    BookieUnavailableError,
    ConfigurationError,
    DigestMismatchError,
    EntryNotFoundError,
    LedgerNotFoundError,
    LogStoreError,
    ReadError,
    UnavailableError,
)
from ledger.model import BookieId, EntryId, Fragment, LedgerId, LedgerMetadata, Versioned
from ledger.reading.bookie_reads import BookieAnswer, Entry, open_entry, read_batch, read_entry
from ledger.reading.lac_reader import LacReader
from ledger.reading.speculative_read import speculative_read
from ledger.signal import Signal
from ledger.tasks import start_task
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.v2_connection import V2Connection
from ledger.wire.digest import make_digester
from ledger.wire.messages import V3ReadResponse
from ledger.wire.status import Answer

_SINGLE_READS_AT_ONCE = 64
_BATCH_ENTRIES_MAX = 2**31 - 1
"""What the request's field holds."""
_POLL_PAUSE_FIRST_S = 0.002
_SLOWER_THAN_USUAL = 4
_MOVES_MAX = 10
"""Changes of the bookies of an entry that one read of it follows; repair makes one for each lost bookie."""

Ask = Callable[[EntryConnection], Awaitable[BookieAnswer]]


@dataclass(frozen=True, slots=True)
class _Claim:
    """A long poll's answer with a LAC that is not verified yet."""

    bookie_id: BookieId
    answer: V3ReadResponse


class ReadHandle:
    """Obtained from `LedgerClient.open` or `open_with_recovery`. Used on its client's loop; not thread-safe."""

    def __init__(
        self,
        ledger_id: LedgerId,
        metadata: Versioned[LedgerMetadata],
        context: ClientContext,
        read: Iterable[Entry] = (),
    ) -> None:
        """`read`: entries that were read already. Each is handed out once, and the handle keeps it until then."""
        self.ledger_id = ledger_id
        self._local = metadata
        self._context = context
        self._digester = make_digester(metadata.value.digest_type, metadata.value.password)
        self._lac_reader = LacReader(ledger_id, context, self._digester)
        self._lac = EntryId(metadata.value.last_fragment.first_entry - 1)
        # Handles start at different replicas, so that parallel readers spread over the ensemble; one handle stays
        # with its replica, whose disk then reads sequentially.
        self._preferred = context.environment.rng.randrange(metadata.value.quorum.write)
        self._entry_bytes = context.config.read_window_bytes // _SINGLE_READS_AT_ONCE
        self._usual_s = 0.0
        quorum = metadata.value.quorum
        self._batches = quorum.ensemble == quorum.write and context.config.wire is WireProtocol.V2
        self._changed = Signal()
        self._polled: Entry | None = None
        """The entry that came with the last long poll's answer."""
        self._read = {entry.entry_id: entry for entry in read}
        self._unwatch: Callable[[], None] | None = None

    # ---- facts

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as last read."""
        return self._local.value

    @property
    def closed(self) -> bool:
        """Whether the ledger is CLOSED as of the last read of its metadata."""
        return self.metadata.closed

    @property
    def last_readable(self) -> EntryId:
        """Id of the last entry if closed, else the LAC known here; -1 if there is none."""
        return self.metadata.last_entry if self.closed else self._lac

    @property
    def lac(self) -> EntryId:
        """The same as `last_readable`."""
        return self.last_readable

    # ---- following an open ledger

    def confirm(self, entry_id: int) -> None:
        """Entries up to `entry_id` are confirmed, as another handle has shown: they are readable here, too.

        Two handles may ask different bookies, and only some of these may know the newest LAC.

        Source: docs/bookkeeper.md#reading-the-lac.
        """
        require_type("the confirmed entry", entry_id, int)
        self._lac = EntryId(max(self._lac, entry_id))

    async def refresh(self) -> EntryId:
        """Read metadata and, while the ledger is open, the LAC from enough bookies; return the last readable entry.

        Every add that had succeeded (strict) before the call is at or below the result. A closed ledger costs nothing.

        Raises:
            ReadError: too few bookies respond to determine the LAC.
            LedgerNotFoundError: the ledger was deleted.
            MetadataUnavailableError: the metadata store cannot be reached.

        Source: docs/bookkeeper.md#reading-the-lac.
        """
        if self._changed.is_set():
            await self._glance()  # a ledger that was closed stays so, however old the answer is
        if self.closed:
            return self.last_readable
        with self._covering_changes():
            self._adopt(await self._context.store.read_ledger(self.ledger_id))
        return await self.read_lac()

    async def _glance(self) -> bool:
        """Adopt what the cheapest read finds; False if it finds nothing. It shows each change that the watch has
        reported, and perhaps no later one."""
        with self._covering_changes():
            found = (await self._context.store.glance_at_ledgers((self.ledger_id,))).get(self.ledger_id)
        if found is not None:
            self._adopt(found)
        return found is not None

    @contextmanager
    def _covering_changes(self) -> Iterator[None]:
        """A read of metadata. If it fails or is cancelled, the changes before it remain to be read."""
        self._changed.clear()  # before the read: what changes from now on is not covered by it
        try:
            yield
        except BaseException:
            self._changed.set()
            raise

    async def read_lac(self) -> EntryId:
        """As `refresh`, but with the metadata as last read: what was added since then by way of other bookies may be
        above the result.

        Raises:
            ReadError: too few bookies respond to determine the LAC.
        """
        if not self.closed:
            self.confirm(await self._lac_reader.covering(self.metadata))
        return self.last_readable

    async def is_proved_readable(self, entry_id: int) -> bool:
        """Whether the entry is readable for this handle, or any bookie proves that it is confirmed.

        `refresh` asks only as many bookies as show every entry that was confirmed before it. Another reader may have
        met a bookie that knows more, so this waits for all of them, up to `read_timeout_s`.
        """
        if (
            not self.closed
            and self.last_readable < entry_id
            and await self._lac_reader.is_proved(entry_id, self.metadata)
        ):
            self.confirm(EntryId(entry_id))
        return self.last_readable >= entry_id

    async def wait_for_lac(self, beyond: int, timeout_s: float) -> EntryId:
        """Wait until an entry above `beyond` is readable, the ledger is closed, or `timeout_s` seconds have passed.

        Returns the last readable entry, at or below `beyond` if nothing came. The wait costs one long poll per bookie
        asked. What a bookie reports is only a claim, which that bookie is asked to prove. If it does, that suffices:
        entries up to a verified LAC are confirmed. Otherwise, and when metadata has changed or time is up, this is a
        `refresh`.

        Raises:
            The errors of `refresh`.

        Source: docs/bookkeeper.md#long-poll.
        """
        require_type("beyond", beyond, int)
        require_type("timeout_s", timeout_s, float)
        if self.closed or self.last_readable > beyond:
            return self.last_readable
        if self._unwatch is None:
            self._unwatch = self._context.store.watch_ledger(self.ledger_id, self._changed.set)
            self._changed.set()  # there was no watch since the last read
        if self._changed.is_set():
            if not await self._glance():
                await self.refresh()
            if self.closed or self.last_readable > beyond:
                return self.last_readable
        claim = await self._first_claim(beyond, timeout_s)
        if claim is not None and not self._changed.is_set():
            self._keep(claim.answer, beyond + 1)
            self.confirm(await self._lac_reader.proved_by(claim.bookie_id))
            if self._lac > beyond:
                return self._lac
        if await self.refresh() <= beyond and claim is not None:
            # No bookie proves the claim, which the next long poll will repeat immediately: limit the rate.
            await asyncio.sleep(min(timeout_s, self._context.config.lac_interval_s))
        return self.last_readable

    async def _first_claim(self, beyond: int, timeout_s: float) -> _Claim | None:
        """The first answer that claims a LAC above `beyond`; None if metadata changes first, or time is up."""
        tasks = [
            self._spawn(self._long_poll(bookie_id, beyond, timeout_s)) for bookie_id in self._poll_members()
        ]
        change = self._changed.future()
        try:
            await asyncio.wait((*tasks, change), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, change):
                task.cancel()
            found = await asyncio.gather(*tasks, change, return_exceptions=True)
        return next((each for each in found if isinstance(each, _Claim)), None)

    def _keep(self, answer: V3ReadResponse, entry_id: int) -> None:
        """Keep the entry that came with the answer, so that it need not be read again. A damaged one is dropped."""
        self._polled = None
        if answer.entry is not None and answer.entry_id == entry_id:
            with suppress(DigestMismatchError):
                self._polled = open_entry(memoryview(answer.entry), self.ledger_id, entry_id, self._digester)

    async def _long_poll(self, bookie_id: BookieId, beyond: int, timeout_s: float) -> _Claim | None:
        """Return when the bookie claims a LAC above `beyond`; otherwise only when time is up."""
        loop = asyncio.get_running_loop()
        deadline, pause_s = loop.time() + timeout_s, _POLL_PAUSE_FIRST_S
        answer_s = self._context.config.read_timeout_s
        while (left := deadline - loop.time()) > 0:
            try:
                connection = await self._context.pool.v3(bookie_id)
                answer = await connection.wait_for_lac(self.ledger_id, beyond, left, answer_s)
            except BookieUnavailableError:
                answer = None
            if answer is not None and answer.max_lac is not None and answer.max_lac > beyond:
                return _Claim(bookie_id, answer)
            # Nothing yet, or a bookie that cannot answer such a poll: down, or its first entry is still to come.
            await asyncio.sleep(min(pause_s, max(0.0, deadline - loop.time())))
            pause_s = min(2 * pause_s, self._context.config.lac_interval_s)
        return None

    def _poll_members(self) -> list[BookieId]:
        """Enough members that one of them is in every ack quorum of the whole ensemble."""
        ensemble = self.metadata.last_fragment.ensemble
        quorum = self.metadata.quorum
        count = quorum.ensemble - quorum.ack + 1
        start = self._preferred
        return [ensemble[(start + offset) % len(ensemble)] for offset in range(count)]

    # ---- reading

    async def read(self, first: int, last: int) -> list[Entry]:
        """Read the entries `first` to `last`, both included, in order.

        Raises:
            ConfigurationError: the range is not within 0 to `last_readable`.
            EntryNotFoundError: an entry is confirmed and proved absent: all its copies are lost.
            DigestMismatchError: no intact copy of an entry was found, and at least one copy is damaged.
            ReadError: no replica could be read, and absence is not proved.
            MetadataUnavailableError: an entry is not where it is expected, and the store cannot say whether it has
                moved.

        Source: docs/bookkeeper.md#reads.
        """
        self._check_range(first, last)
        entries: list[Entry] = []
        while first <= last:
            found = await self.read_batch(
                first, max_entries=last - first + 1, max_bytes=self._context.config.read_window_bytes
            )
            entries += found
            first += len(found)
        return entries

    async def read_batch(self, first: int, *, max_entries: int, max_bytes: int) -> list[Entry]:
        """Read at least one entry, consecutive from `first`, at most `max_entries` and about `max_bytes`.

        Raises:
            ConfigurationError: `max_entries` is below 1.
            The errors of `read`.

        Source: docs/bookkeeper.md#batch-reads.
        """
        require_type("max_entries", max_entries, int)
        require_type("max_bytes", max_bytes, int)
        if max_entries < 1:
            raise ConfigurationError(f"max_entries must be at least 1, got {max_entries}")
        self._check_range(first, first)
        polled, self._polled = self._polled, None
        if polled is not None and first == polled.entry_id == self.last_readable:
            return [polled]
        if first in self._read:
            return [self._read.pop(EntryId(first))]
        for _ in range(_MOVES_MAX):
            # Of the read that fails, not of the handle: another read may adopt newer metadata in the meantime.
            asked = self.metadata.fragments
            try:
                return await self._read_batch(first, max_entries, max_bytes)
            except EntryNotFoundError:
                # Absent where this handle believes it to be: that proves nothing before the store has said that it
                # is there, so that an unavailable store is what the caller hears of.
                if not await self._have_moved(asked):
                    raise
            except (ReadError, DigestMismatchError) as error:
                try:
                    moved = await self._have_moved(asked)
                except UnavailableError:
                    raise error from None
                if not moved:
                    raise
        raise ReadError(
            f"entry {first} of ledger {self.ledger_id} was moved {_MOVES_MAX} times while it was read; try again",
            ledger_id=self.ledger_id,
            entry_id=first,
        )

    def _adopt(self, found: Versioned[LedgerMetadata]) -> None:
        """Of several reads at a time the one that began first may end last."""
        if found.version > self._local.version:
            self._local = found

    async def _have_moved(self, known: Sequence[Fragment]) -> bool:
        """Whether the ledger's fragments are not these any more: entries are on other bookies.

        Raises:
            MetadataUnavailableError: the metadata store cannot be reached.
        """
        try:
            self._adopt(await self._context.store.read_ledger(self.ledger_id))
        except LedgerNotFoundError:
            return False
        return self.metadata.fragments != known

    async def _read_batch(self, first: int, max_entries: int, max_bytes: int) -> list[Entry]:
        fragment, end = self._fragment_at(first)
        count = min(max_entries, end - first, _BATCH_ENTRIES_MAX)
        if self._batches:
            return list(
                await self._read_replicas(fragment, first, self._batch_asker(first, count, max_bytes))
            )
        # The sizes are not known beforehand; those read last are the best guess.
        fitting = max_bytes // max(1, self._entry_bytes)
        return await self._read_striped(fragment, first, max(1, min(count, fitting, _SINGLE_READS_AT_ONCE)))

    def _check_range(self, first: int, last: int) -> None:
        require_type("the first entry", first, int)
        require_type("the last entry", last, int)
        if not 0 <= first <= last <= self.last_readable:
            raise ConfigurationError(
                f"entries {first}..{last} of ledger {self.ledger_id} are not readable: "
                f"the range must rise and end at or below {self.last_readable}"
            )

    def _fragment_at(self, first: int) -> tuple[Fragment, int]:
        """The fragment that holds `first`, and the entry after the last one readable in it."""
        fragments = self.metadata.fragments
        following = [fragment.first_entry for fragment in fragments if fragment.first_entry > first]
        return self.metadata.fragment_of(first), min([*following[:1], self.last_readable + 1])

    def _batch_asker(self, first: int, count: int, max_bytes: int) -> Ask:
        timeout_s = self._context.config.read_timeout_s
        budget = min(max_bytes, self._context.config.frame_bytes_max)
        if count == 1:
            return lambda connection: read_entry(connection, self.ledger_id, first, self._digester, timeout_s)

        def batch(connection: EntryConnection) -> Awaitable[BookieAnswer]:
            assert isinstance(connection, V2Connection), "version 3 has no batch read"
            return read_batch(connection, self.ledger_id, first, count, budget, self._digester, timeout_s)

        return batch

    async def _read_striped(self, fragment: Fragment, first: int, count: int) -> list[Entry]:
        async def one(entry_id: int) -> Entry:
            found = await self._read_replicas(fragment, entry_id, self._batch_asker(entry_id, 1, 0))
            return found[0]

        found = await asyncio.gather(
            *(one(first + offset) for offset in range(count)), return_exceptions=True
        )
        entries: list[Entry] = []
        for entry in found:
            if isinstance(entry, BaseException):
                if not entries:
                    raise entry
                break  # those before it are intact; the next read starts at it
            entries.append(entry)
        self._entry_bytes = max(len(entry.payload) for entry in entries)
        return entries

    async def _read_replicas(self, fragment: Fragment, first: int, ask: Ask) -> tuple[Entry, ...]:
        """Ask replicas until one has the entry; the next one after every failure, or when one is slow."""
        positions = write_set(first, self.metadata.quorum)
        rotated = positions[self._preferred :] + positions[: self._preferred]
        if self.metadata.quorum.ensemble == self.metadata.quorum.write:
            rotated = tuple((self._preferred + offset) % len(positions) for offset in range(len(positions)))
        machine = EntryRead(
            [fragment.ensemble[position] for position in rotated], self.metadata.quorum, confirmed=True
        )
        failures: list[BookieAnswer] = []
        loop = asyncio.get_running_loop()
        started = loop.time()
        found = await speculative_read(
            machine, lambda replica: self._ask(replica, ask), self._speculative_s(), failures
        )
        self._usual_s += (loop.time() - started - self._usual_s) / 8
        if found is None:
            raise self._cannot_read(machine, first, failures)
        replica, answer = found
        self._prefer(replica)
        return answer.entries

    def _speculative_s(self) -> float:
        """Slow means slower than usual: bookies that are only busy must not get every read three times."""
        return max(self._context.config.speculative_read_s, _SLOWER_THAN_USUAL * self._usual_s)

    async def _ask(self, bookie_id: BookieId, ask: Ask) -> BookieAnswer:
        connection = self._context.pool.entries_now(bookie_id)
        if connection is None:
            try:
                connection = await self._context.pool.entries(bookie_id)
            except BookieUnavailableError as error:
                return BookieAnswer(Answer.UNKNOWN, reason=error)
        return await ask(connection)

    def _prefer(self, bookie_id: BookieId) -> None:
        """Keep asking the replica that answered, so that a dead one is not asked first each time."""
        ensemble = self.metadata.last_fragment.ensemble
        if self.metadata.quorum.ensemble == self.metadata.quorum.write and bookie_id in ensemble:
            self._preferred = ensemble.index(bookie_id)

    def _cannot_read(self, machine: EntryRead, first: int, failures: list[BookieAnswer]) -> LogStoreError:
        reasons = [answer.reason for answer in failures if answer.reason is not None]
        damaged = [isinstance(reason, DigestMismatchError) for reason in reasons]
        details = "; ".join(dict.fromkeys(str(reason) for reason in reasons))
        if machine.verdict is Verdict.ABSENT:
            return EntryNotFoundError(
                f"entry {first} of ledger {self.ledger_id} is confirmed but lost: {details}",
                ledger_id=self.ledger_id,
                entry_id=first,
            )
        if any(damaged):
            others = "" if all(damaged) else "start the bookies that did not return it, or "
            what = f"entry {first} of ledger {self.ledger_id}"
            return DigestMismatchError(
                f"no intact copy of {what} was found ({details}); {others}restore one on a bookie that should have it",
                ledger_id=self.ledger_id,
                entry_id=first,
            )
        return ReadError(
            f"entry {first} of ledger {self.ledger_id} cannot be read from any replica ({details}); "
            "start its bookies and try again",
            ledger_id=self.ledger_id,
            entry_id=first,
        )

    # ---- the end

    async def close(self) -> None:
        """Stop watching the ledger's metadata; the handle holds nothing else."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = start_task(coroutine)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task
