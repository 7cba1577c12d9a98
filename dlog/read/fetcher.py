"""Fetches entries ahead of a reader: executes the steps of `core/tailing`, one after the other.

Invariant (docs/log-semantics.md#rule-26 to #rule-28, #rule-32): the machine decides, this module waits. Fetched entries
stay within the reader's byte limit and within that of all readers of the client. A wait for the log to grow ends with
the long poll, with a watch on the log metadata, or at the latest with a slow poll. While bookies or the metadata store
are unavailable, the task tries again until it succeeds. A consumer of a reader without `until` that has read before
waits as long; that of any other one gets the error after `unavailable_timeout_s`, and its next call waits anew.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from dlog.backoff import Backoff
from dlog.core.commands import ReadRecord
from dlog.core.tailing import (
    CountMessages,
    Finish,
    Gap,
    OpenLedger,
    ReadEntries,
    ReportGap,
    Step,
    Tailing,
    WaitForEntries,
    WaitForLedger,
)
from dlog.errors import EntryFormatError
from dlog.metadata.fresh_record import is_damaged_ledger
from dlog.metadata.log_ref import LogRef
from dlog.metadata.record_news import Found, RecordNews
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, LogName, MessageId
from dlog.read.batch import MessageBatch
from dlog.read.config import ReaderConfig
from dlog.read.entry_count import message_count
from dlog.read.ledgers_ahead import LedgersAhead
from dlog.read.next_ledger import NextLedger
from dlog.read.slow_polls import SlowPolls
from dlog.read_ahead_budget import ReadAheadBudget
from ledger.buggify import buggify
from ledger.client import LedgerClient
from ledger.errors import (
    ConfigurationError,
    EntryNotFoundError,
    LedgerNotFoundError,
    LogStoreError,
    MetadataFormatError,
    UnavailableError,
)
from ledger.metadata.store import Unwatch
from ledger.model import LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.closed_ledgers import Beginning
from ledger.reading.entry_runs import Decoded, EntryRun, run_of
from ledger.reading.shared_ledgers import SharedLedger
from ledger.tasks import start_task

_LISTED_FIRST, _LISTED_MAX = 64, 1024
"""Ledgers of the list that are read together: few for a reader of little, more for one that goes on."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Consecutive entries of one ledger. Messages of the first one below `first_index` are not part of the range."""

    ledger_id: int
    first_index: int
    entries: Sequence[Entry]
    entry_bytes: int
    decoded: Decoded | None
    """Batches that other readers of these entries have decoded, as far as they are kept; None if there are none."""


@dataclass(frozen=True, slots=True)
class _Outage:
    """One kind of step has failed since this time, last with this error."""

    since: float
    error: UnavailableError


Taken: TypeAlias = tuple[Fetched | MessageBatch | Gap, MessageId]
"""What was taken from a reader as it was fetched, and the reader's position after it."""


def undecodable(error: EntryFormatError, log: LogName, ledger_id: int, entry_id: int) -> EntryFormatError:
    """The same error with the place of the entry."""
    return EntryFormatError(
        f"entry {entry_id} of ledger {ledger_id}, log {log}: {error}", ledger_id=ledger_id, entry_id=entry_id
    )


class NotYetError(Exception):
    """Nothing came before the time at which the caller gives up. Never reaches a program."""


class Fetcher:
    """Background task of one reader. Call `start` once, `take` until it returns None, and `close` in any case."""

    def __init__(
        self,
        machine: Tailing,
        logs: LogMetadataStore,
        ref: LogRef,
        ledgers: LedgerClient,
        config: ReaderConfig,
        slow_polls: SlowPolls,
        read_ahead: ReadAheadBudget,
        *,
        password: bytes = b"",
        tail: MessageId = EARLIEST_ID,
        waits_forever: bool = False,
    ) -> None:
        """`tail`: entries of its ledger below it are known to be confirmed."""
        self._tail = tail
        self._waits_forever = waits_forever
        self._has_worked = False
        self._password = password
        self._machine = machine
        self._logs = logs
        self._ref = ref
        self._ledgers = ledgers
        self._config = config
        self._slow_polls = slow_polls
        self._ready: deque[Fetched | Gap] = deque()
        self._ready_bytes = 0
        self._taken_bytes = 0
        """Of what was taken last, until the next is wanted: the reader returns it one entry after the other."""
        self._share = read_ahead.open_share()
        self._something_ready = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self._news = RecordNews(self._window)
        self._ahead = LedgersAhead(ledgers, password, config, machine.sealed_ahead)
        self._next_ledger = NextLedger(ledgers, password, lambda: logs.read(ref, fresh=False))
        self._handle: SharedLedger | None = None
        self._beginning: Beginning | None = None
        """Of the ledger at the position, if it was read ahead and nothing of it was fetched yet."""
        self._beginning_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._is_abandoned = False
        self._unwatch: Unwatch | None = None
        self._waits_for: str | None = None
        self._ledgers_wanted = _LISTED_FIRST
        self._poll_s = config.first_poll_s
        self._backoff = Backoff(ledgers.environment)
        self._stuck_at = machine.position
        self._outages: dict[type[Step], _Outage] = {}
        """Of each kind of step that has failed at this position and has not succeeded since."""
        self._step: Step | None = None
        self._began_at = 0.0
        """When the attempt of that step began, by the loop's time."""
        self._raised_at = 0.0
        """When an outage was last raised: the next one begins then at the earliest."""
        self._record_read_at = 0.0
        """When a step last read the record, by the loop's time."""

    # ---- the consumer's side

    def start(self) -> None:
        self._unwatch = self._logs.watch(self._ref, self._news.changed)
        self._task = start_task(self._run(), name=f"dlog reader of {self._ref}")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # retrieved: the next `take` raises it, unless the reader was abandoned
        self._something_ready.set()

    async def take(self, give_up_at: float | None = None) -> Fetched | Gap | None:
        """Wait for the next item; None at the end. After all items, raises the error that ended the fetching.

        Raises:
            NotYetError: nothing was fetched before the loop's time `give_up_at`.
            UnavailableError: fetching has failed for `unavailable_timeout_s`. It goes on: the next call waits anew.
            ConfigurationError: the program has cancelled the task that fetches.
        """
        self._taken_bytes = 0
        if not self._ready:
            self._count()
        while not self._ready:
            assert self._task is not None
            if self._task.cancelled():
                if not self._is_abandoned:
                    # Not the end of the log, which is not invented.
                    raise ConfigurationError(
                        "the task of this reader was cancelled by the program, as by one that cancels all tasks of its "
                        "loop; open another reader at its position"
                    )
                return None  # closed by another task during this wait
            if self._task.done():
                self._share.close()
                self._task.result()
                return None
            await self._wait_until_ready(give_up_at)
        found = self._ready.popleft()
        if isinstance(found, Fetched):
            self._ready_bytes -= found.entry_bytes
            self._taken_bytes = found.entry_bytes
            self._has_capacity.set()
        self._count()
        return found

    async def _wait_until_ready(self, give_up_at: float | None) -> None:
        """May return before anything is ready. An attempt under way goes on when an earlier one's error is raised."""
        self._something_ready.clear()
        now = asyncio.get_running_loop().time
        outage = self._raised_outage()
        raise_at = None if outage is None else outage.since + self._config.unavailable_timeout_s
        if outage is not None and raise_at is not None and now() >= raise_at:
            self._outages.clear()
            self._raised_at = now()
            raise outage.error
        ends = [at for at in (give_up_at, raise_at) if at is not None and at < math.inf]
        try:
            async with asyncio.timeout_at(min(ends, default=None)):
                await self._something_ready.wait()
        except TimeoutError:
            if give_up_at is not None and now() >= give_up_at:
                raise NotYetError from None

    def _raised_outage(self) -> _Outage | None:
        """The one that is raised once it has lasted too long, if there is one."""
        waits = self._waits_forever and self._has_worked
        # At the tail nothing is wanted of what failed before the wait.
        is_at_tail = isinstance(self._step, WaitForEntries | WaitForLedger)
        if waits or is_at_tail or self._machine.position != self._stuck_at:
            return None
        return self._oldest_outage()

    def _oldest_outage(self) -> _Outage | None:
        return min(self._outages.values(), key=lambda outage: outage.since, default=None)

    @property
    def is_ahead(self) -> bool:
        """Whether what was fetched will do for some time."""
        return len(self._ready) > 1

    @property
    def waits_for(self) -> str | None:
        """Why there is no message to return now, as a sentence; None while there is one."""
        return None if self._ready else self._waits_for

    @property
    def outage(self) -> UnavailableError | None:
        """The latest error of what fails at this position and is tried again; None once it has succeeded."""
        if self._ready or self._machine.position != self._stuck_at:
            return None
        # At the tail nothing is wanted of what failed before the wait.
        if isinstance(self._step, WaitForEntries | WaitForLedger):
            found = self._outages.get(type(self._step))
        else:
            found = self._oldest_outage()
        return None if found is None else found.error

    @property
    def at_tail(self) -> bool:
        return not self._ready and self._machine.at_tail

    def abandon(self) -> None:
        """Stop fetching, without waiting for the end. `take` must not be called any more."""
        if self._task is not None and not self._is_abandoned:
            self._task.cancel()  # once: a second one would end its clean-up
        self._is_abandoned = True
        self._ready.clear()
        self._share.close()

    async def close(self) -> None:
        """Stop fetching and drop what was fetched; on return the task has ended."""
        self.abandon()
        if self._task is not None:
            await asyncio.wait((self._task,))  # and if this is cancelled, the clean-up goes on

    # ---- the loop

    async def _run(self) -> None:
        try:
            await self._follow()
        finally:
            if self._unwatch is not None:
                self._unwatch()
            self._news.close()
            self._ahead.close()
            self._beginning = None
            self._count()
            try:
                await self._next_ledger.close()
            finally:  # also if the reader is closed during this
                await self._close_handle()

    async def _follow(self) -> None:
        while True:
            self._take_news()
            step = self._machine.next_step()
            if isinstance(step, Finish):
                return
            self._step, self._began_at = step, asyncio.get_running_loop().time()
            try:
                await self._execute(step)
                self._outages.pop(type(step), None)
            except UnavailableError as error:
                await self._back_off(step, error)
            except MetadataFormatError as error:
                self._pass_damage(step, error)

    def _take_news(self) -> None:
        match self._news.take():
            case None:
                pass
            case LogStoreError():
                self._machine.on_record_changed()  # the step that it asks for raises the error, or makes up for it
            case read, window:
                self._machine.on_newer_record(read.value, window)

    async def _execute(self, step: Step) -> None:
        match step:
            case ReadEntries():
                await self._read_entries(step)
            case ReadRecord():
                await self._read_record()
            case OpenLedger(ledger_id):
                await self._open_ledger(LedgerId(ledger_id))
            case CountMessages(ledger_id, entry_id):
                await self._count_messages(ledger_id, entry_id)
            case WaitForEntries():
                await self._wait_for_entries(step)
            case WaitForLedger(why):
                self._waits_for = why
                with self._slow_polls.waiting():
                    has_news = await self._wait_for_news()
                if not has_news:
                    self._machine.on_record_changed()  # the slow poll
            case ReportGap(gap):
                self._offer(gap)
            case Finish():
                raise AssertionError("the loop ends at Finish")
            case _:
                assert_never(step)

    async def _back_off(self, step: Step, error: UnavailableError) -> None:
        """Pause before the next attempt.

        Invariant: only success of this kind of step, or a position that moves, ends an outage. The metadata of a busy
        log can be read successfully while the bookies of the ledger being read are down.
        """
        now = asyncio.get_running_loop().time()
        if self._machine.position != self._stuck_at:
            self._stuck_at, self._outages = self._machine.position, {}
        if not self._outages:
            self._backoff.reset()
        # A wait at the tail was none for the bookies, until it failed.
        began_at = now if isinstance(step, WaitForEntries) else max(self._began_at, self._raised_at)
        known = self._outages.get(type(step))
        self._outages[type(step)] = _Outage(began_at if known is None else known.since, error)
        self._step = None
        self._waits_for = str(error)
        self._something_ready.set()  # the consumer may wait no longer than the outage lets it
        with self._slow_polls.waiting():
            if now - self._record_read_at >= self._slow_polls.interval_s(self._config.slow_poll_s):
                self._machine.on_record_changed()  # the slow poll: what cannot be read may have been trimmed
            await asyncio.sleep(self._backoff.next_s())

    # ---- steps

    async def _read_record(self) -> None:
        read, window = await self._news.read()
        self._record_read_at = asyncio.get_running_loop().time()
        self._machine.on_record(read.value, window)
        self._ledgers_wanted = min(4 * self._ledgers_wanted, _LISTED_MAX)

    async def _window(self, fresh: bool) -> Found:
        return await self._logs.read_window(
            self._ref, self._machine.position.ledger_id, self._ledgers_wanted, fresh=fresh
        )

    async def _open_ledger(self, ledger_id: LedgerId) -> None:
        await self._close_handle()
        self._beginning = None
        self._ahead.ask_from(ledger_id, self._ready_bytes, self._share.free)
        self._count()
        self._beginning = await self._ahead.take(ledger_id)
        self._beginning_bytes = 0
        if self._beginning is not None:
            self._beginning_bytes = sum([len(entry.payload) for entry in self._beginning.entries])
        self._count()
        if self._beginning is not None:
            self._has_worked = True
            self._machine.on_ledger(ledger_id, readable=self._beginning.last_entry, sealed=True)
            return
        try:
            handle = await self._next_ledger.take(ledger_id)
            if handle is None:
                handle = await self._ledgers.shared.open(ledger_id, self._password)
        except LedgerNotFoundError:
            self._machine.on_ledger_missing(ledger_id)
            return
        self._handle = handle
        if ledger_id == self._tail.ledger_id:
            handle.confirm(self._tail.entry_id - 1)
        self._report(handle)

    async def _read_entries(self, step: ReadEntries) -> None:
        await self._wait_for_capacity()
        if self._beginning is not None and self._take_beginning(self._beginning, step):
            return
        handle = self._open_handle(step.ledger_id)
        first_index = self._machine.position.batch_index
        entries_max = 1 if buggify("reader.small-fetch") else self._config.fetch_entries_max
        max_bytes = await self._share.ask(self._config.fetch_bytes)
        self._began_at = asyncio.get_running_loop().time()
        try:
            run = await handle.read_batch(
                step.first, max_entries=min(step.last - step.first + 1, entries_max), max_bytes=max_bytes
            )
            self._fetched(step.ledger_id, first_index, run)
        except EntryNotFoundError:
            self._machine.on_entry_missing(step.ledger_id)
        finally:
            self._share.fetched()

    def _take_beginning(self, beginning: Beginning, step: ReadEntries) -> bool:
        """Whether the wanted entries were read ahead; they are then fetched."""
        if step.first != 0 or step.ledger_id != beginning.ledger_id:
            return False
        if beginning.is_whole:
            self._beginning = None
        else:
            self._open_handle(step.ledger_id)
        run = run_of(beginning.entries[: step.last + 1])
        self._fetched(step.ledger_id, self._machine.position.batch_index, run)
        return True

    def _open_handle(self, ledger_id: int) -> SharedLedger:
        """The handle on the ledger at the position; of one that was read ahead it is made now."""
        if self._beginning is not None and self._beginning.ledger_id == ledger_id:
            self._handle, self._beginning = self._ledgers.open_at(self._beginning), None
            self._count()
        assert self._handle is not None and self._handle.ledger_id == ledger_id
        return self._handle

    def _fetched(self, ledger_id: int, first_index: int, run: EntryRun) -> None:
        self._machine.on_read(ledger_id, run.entries[-1].entry_id)
        self._ready_bytes += run.byte_count
        self._offer(Fetched(ledger_id, first_index, run.entries, run.byte_count, run.decoded))
        self._count()

    async def _count_messages(self, ledger_id: int, entry_id: int) -> None:
        handle = self._open_handle(ledger_id)
        try:
            count = await message_count(handle, entry_id)
        except EntryNotFoundError:
            self._machine.on_entry_missing(ledger_id)
            return
        self._machine.on_count(ledger_id, entry_id, count)

    async def _wait_for_entries(self, step: WaitForEntries) -> None:
        handle = self._open_handle(step.ledger_id)
        self._waits_for = step.why
        if buggify("reader.forget-record"):
            self._machine.on_record_changed()
            return
        await self._next_ledger.expect(self._machine.successor)
        with self._slow_polls.waiting():
            try:
                waited = await handle.wait_for_lac(step.beyond, self._next_poll_s(), self._news.arrived)
            except LedgerNotFoundError:
                self._machine.on_ledger_missing(handle.ledger_id)
                return
        self._report(handle)
        if handle.closed:
            self._next_ledger.hurry(handle.ledger_id)
        if waited and handle.last_readable <= step.beyond and not handle.closed:
            self._machine.on_record_changed()  # the slow poll checks everything

    async def _wait_for_news(self) -> bool:
        try:
            async with asyncio.timeout(self._next_poll_s()):
                await self._news.arrived.future()
        except TimeoutError:
            return False
        return True

    async def _wait_for_capacity(self) -> None:
        while self._ready_bytes >= self._config.read_ahead_bytes:
            self._has_capacity.clear()
            await self._has_capacity.wait()

    # ---- parts

    def _pass_damage(self, step: Step, error: MetadataFormatError) -> None:
        """Report damaged metadata of the ledger at the position to the machine; raise what it does not decide."""
        match step:
            case OpenLedger() | ReadEntries() | CountMessages() | WaitForEntries():
                if is_damaged_ledger(error) and error.key == step.ledger_id:
                    self._machine.on_ledger_damaged(step.ledger_id)
                    return
        raise error

    def _count(self) -> None:
        """Count what is held here, in addition to a fetch under way, in the limit of all readers of the client."""
        beginning_bytes = 0 if self._beginning is None else self._beginning_bytes
        held = self._ready_bytes + self._taken_bytes + self._ahead.asked_bytes + beginning_bytes
        self._share.hold(held, has_ready=self._ready_bytes > 0)

    def _next_poll_s(self) -> float:
        poll_s = self._poll_s
        self._poll_s = min(2 * poll_s, self._config.slow_poll_s)
        return self._slow_polls.interval_s(poll_s)

    def _report(self, handle: SharedLedger) -> None:
        self._has_worked = True
        self._machine.on_ledger(handle.ledger_id, readable=handle.last_readable, sealed=handle.closed)

    def _offer(self, found: Fetched | Gap) -> None:
        self._poll_s = self._config.first_poll_s
        self._waits_for = None
        self._ready.append(found)
        self._something_ready.set()

    async def _close_handle(self) -> None:
        if self._handle is not None:
            await self._handle.close()
            self._handle = None

    # ---- lag

    def known_from(
        self, position: MessageId, taken: Iterable[Fetched | MessageBatch | Gap | None]
    ) -> tuple[int, int]:
        """Number of entries known to be readable from `position` on, and of listed ledgers after its ledger.

        `taken`: what was taken and may be at or after `position`, in any order, the same entry perhaps twice.
        """
        spans = sorted(span for found in (*taken, *self._ready) if (span := _span(found)) is not None)
        entries, at = self._machine.readable_ahead, (position.ledger_id, position.entry_id)
        for ledger_id, first, last in spans:
            at = max(at, (ledger_id, first))
            if at <= (ledger_id, last):
                entries += last + 1 - at[1]
                at = ledger_id, last + 1
        ledgers = self._machine.listed_after(position.ledger_id, {ledger_id for ledger_id, _, _ in spans})
        return entries, ledgers


def _span(found: Fetched | MessageBatch | Gap | None) -> tuple[int, int, int] | None:
    """The ledger, the first and the last entry; None if it has no entries."""
    match found:
        case Fetched(ledger_id=ledger_id, entries=entries):
            return ledger_id, entries[0].entry_id, entries[-1].entry_id
        case MessageBatch(ledger_id=ledger_id, entry_id=entry_id):
            return ledger_id, entry_id, entry_id
        case _:
            return None
