"""Fetches entries ahead of a reader: executes the steps of `core/tailing`, one after the other.

Invariant (docs/log-semantics.md#rule-26 to #rule-28, #rule-32): the machine decides, this module waits. Fetched entries
stay within a byte limit. A wait for the log to grow ends with the long poll, with a watch on the log metadata, or at
the latest with a slow poll. While bookies or the metadata store are unavailable, a reader without `until` that has read
before waits indefinitely; any other one raises after `unavailable_timeout_s`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import assert_never

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
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, MessageId
from dlog.read.config import ReaderConfig
from dlog.read.entry_count import message_count
from dlog.read.slow_polls import SlowPolls
from ledger.buggify import buggify
from ledger.client import LedgerClient
from ledger.errors import EntryNotFoundError, LedgerNotFoundError, UnavailableError
from ledger.metadata.store import Unwatch
from ledger.model import EntryId, LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.read_handle import ReadHandle
from ledger.signal import Signal


@dataclass(frozen=True, slots=True)
class Fetched:
    """Consecutive entries of one ledger. Messages of the first one below `first_index` are not part of the range."""

    ledger_id: int
    first_index: int
    entries: list[Entry]
    entry_bytes: int


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
        self._something_ready = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self._record_changed = Signal()
        self._handle: ReadHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._unwatch: Unwatch | None = None
        self._waits_for: str | None = None
        self._poll_s = config.first_poll_s
        self._backoff = Backoff(ledgers.environment)
        self._stuck_at = machine.position
        self._stuck_since: dict[type[Step], float] = {}
        """When each kind of step first failed at this position. Empty for a kind that has succeeded since."""

    # ---- the consumer's side

    def start(self) -> None:
        self._unwatch = self._logs.watch(self._ref, self._record_changed.set)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"dlog reader of {self._ref}")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # retrieved: the next `take` raises it, unless the reader was abandoned
        self._something_ready.set()

    async def take(self, give_up_at: float | None = None) -> Fetched | Gap | None:
        """Wait for the next item; None at the end. After all items, raises the error that ended the fetching.

        Raises:
            NotYetError: nothing was fetched before the loop's time `give_up_at`.
        """
        while not self._ready:
            assert self._task is not None
            if self._task.cancelled():
                return None  # closed by another task during this wait
            if self._task.done():
                self._task.result()
                return None
            self._something_ready.clear()
            try:
                async with asyncio.timeout_at(give_up_at):
                    await self._something_ready.wait()
            except TimeoutError:
                raise NotYetError from None
        found = self._ready.popleft()
        if isinstance(found, Fetched):
            self._ready_bytes -= found.entry_bytes
            self._has_capacity.set()
        return found

    @property
    def waits_for(self) -> str | None:
        """Why there is no message to return now, as a sentence; None while there is one."""
        return None if self._ready else self._waits_for

    @property
    def at_tail(self) -> bool:
        return not self._ready and self._machine.at_tail

    def abandon(self) -> None:
        """Stop fetching, without waiting for the end. `take` must not be called any more."""
        if self._task is not None:
            self._task.cancel()
        self._ready.clear()

    async def close(self) -> None:
        """Stop fetching and drop what was fetched; on return the task has ended."""
        self.abandon()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    # ---- the loop

    async def _run(self) -> None:
        try:
            await self._follow()
        finally:
            if self._unwatch is not None:
                self._unwatch()
            await self._close_handle()

    async def _follow(self) -> None:
        while True:
            if self._record_changed.is_set():
                self._record_changed.clear()
                self._machine.on_record_changed()
            step = self._machine.next_step()
            if isinstance(step, Finish):
                return
            try:
                await self._execute(step)
                self._stuck_since.pop(type(step), None)
            except UnavailableError as error:
                await self._back_off(step, error)

    async def _execute(self, step: Step) -> None:
        match step:
            case ReadEntries():
                await self._read_entries(step)
            case ReadRecord():
                self._machine.on_record(
                    *await self._logs.read_window(self._ref, self._machine.position.ledger_id)
                )
            case OpenLedger(ledger_id):
                await self._open_ledger(LedgerId(ledger_id))
            case CountMessages(ledger_id, entry_id):
                await self._count_messages(ledger_id, entry_id)
            case WaitForEntries():
                await self._wait_for_entries(step)
            case WaitForLedger(why):
                self._waits_for = why
                with self._slow_polls.waiting():
                    await self._wait_for_record()
                self._machine.on_record_changed()
            case ReportGap(gap):
                self._offer(gap)
            case Finish():
                raise AssertionError("the loop ends at Finish")
            case _:
                assert_never(step)

    async def _back_off(self, step: Step, error: UnavailableError) -> None:
        """Pause before the next attempt, or raise the error if this kind of step has failed for too long.

        Invariant: only success of this kind of step, or a position that moves, resets the time. The metadata of a busy
        log can be read successfully while the bookies of the ledger being read are down.
        """
        now = asyncio.get_running_loop().time()
        if self._machine.position != self._stuck_at:
            self._stuck_at, self._stuck_since = self._machine.position, {}
        if not self._stuck_since:
            self._backoff.reset()
        since = self._stuck_since.setdefault(type(step), now)
        waits = self._waits_forever and self._has_worked
        if not waits and now - since >= self._config.unavailable_timeout_s:
            raise error
        self._waits_for = str(error)
        await asyncio.sleep(self._backoff.next_s())

    # ---- steps

    async def _open_ledger(self, ledger_id: LedgerId) -> None:
        await self._close_handle()
        try:
            handle = self._handle = await self._ledgers.open(ledger_id, self._password)
        except LedgerNotFoundError:
            self._machine.on_ledger_missing(ledger_id)
            return
        if ledger_id == self._tail.ledger_id:
            handle.confirm(self._tail.entry_id - 1)
        self._report(handle)

    async def _read_entries(self, step: ReadEntries) -> None:
        await self._wait_for_capacity()
        handle = self._handle
        assert handle is not None and handle.ledger_id == step.ledger_id
        first_index = self._machine.position.batch_index
        entries_max = 1 if buggify("reader.small-fetch") else self._config.fetch_entries_max
        try:
            entries = await handle.read_batch(
                step.first,
                max_entries=min(step.last - step.first + 1, entries_max),
                max_bytes=self._config.fetch_bytes,
            )
        except EntryNotFoundError:
            self._machine.on_entry_missing(step.ledger_id)
            return
        self._machine.on_read(step.ledger_id, entries[-1].entry_id)
        entry_bytes = sum(len(entry.payload) for entry in entries)
        self._ready_bytes += entry_bytes
        self._offer(Fetched(step.ledger_id, first_index, entries, entry_bytes))

    async def _count_messages(self, ledger_id: int, entry_id: int) -> None:
        handle = self._handle
        assert handle is not None and handle.ledger_id == ledger_id
        try:
            count = await message_count(handle, entry_id)
        except EntryNotFoundError:
            self._machine.on_entry_missing(ledger_id)
            return
        self._machine.on_count(ledger_id, entry_id, count)

    async def _wait_for_entries(self, step: WaitForEntries) -> None:
        handle = self._handle
        assert handle is not None and handle.ledger_id == step.ledger_id
        self._waits_for = step.why
        if buggify("reader.forget-record"):
            self._machine.on_record_changed()
            return
        with self._slow_polls.waiting():
            poll_s = self._next_poll_s()
            waited = await self._unless_record_changes(
                self._update(handle, lambda: handle.wait_for_lac(step.beyond, poll_s))
            )
        if not waited:
            # The log metadata changes just before or just after a ledger is sealed, and the interrupted wait may
            # have been about to return that.
            await self._update(handle, handle.refresh)
        elif handle.last_readable <= step.beyond and not handle.closed:
            self._machine.on_record_changed()  # the slow poll checks everything

    async def _update(self, handle: ReadHandle, read: Callable[[], Awaitable[EntryId]]) -> None:
        """Read the ledger's state by `read` and report it to the machine."""
        try:
            await read()
        except LedgerNotFoundError:
            self._machine.on_ledger_missing(handle.ledger_id)
            return
        self._report(handle)

    async def _unless_record_changes(self, wait: Coroutine[None, None, None]) -> bool:
        """Wait until `wait` ends or the log metadata changes. True if `wait` ended."""
        task = asyncio.ensure_future(wait)
        change = self._record_changed.future()
        try:
            await asyncio.wait((task, change), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return False
            await task
            return True
        finally:
            for each in (task, change):
                each.cancel()
            await asyncio.gather(task, change, return_exceptions=True)

    async def _wait_for_record(self) -> None:
        try:
            async with asyncio.timeout(self._next_poll_s()):
                await self._record_changed.future()
        except TimeoutError:
            return

    async def _wait_for_capacity(self) -> None:
        while self._ready_bytes >= self._config.read_ahead_bytes:
            self._has_capacity.clear()
            await self._has_capacity.wait()

    # ---- parts

    def _next_poll_s(self) -> float:
        poll_s = self._poll_s
        self._poll_s = min(2 * poll_s, self._config.slow_poll_s)
        return self._slow_polls.interval_s(poll_s)

    def _report(self, handle: ReadHandle) -> None:
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

    def entries_behind(self, returned: MessageId) -> int:
        """Number of entries known to be readable in the ledger of `returned`, starting with its entry."""
        if returned.ledger_id != self._machine.position.ledger_id:
            return sum(len(found.entries) for found in self._ready if isinstance(found, Fetched))
        return max(0, self._machine.readable_entry - returned.entry_id + 1)

    @property
    def ledgers_ahead(self) -> int:
        return self._machine.ledgers_ahead
