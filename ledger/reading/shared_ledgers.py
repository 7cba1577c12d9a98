"""Readers of one ledger in one client share its handle: one long poll, one fetch and one decoding for all of them.

Invariant: what a reader learns here it could have learned from a handle of its own. A `refresh`, and so the opening of
a ledger that others read already, begins after the reader's call; entries and the LAC are never taken back.

Source: docs/architecture.md#one-read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ledger.errors import LogStoreError
from ledger.model import EntryId, LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.entry_runs import DecodedBudget, EntryRun, RecentRuns, run_of
from ledger.reading.read_handle import ReadHandle
from ledger.shared_call import SharedCall
from ledger.signal import Signal
from ledger.tasks import start_task

_LONGER_S = 1.0
"""A shared long poll outlasts those who wait, so that it ends for a reason that concerns them all."""

_Key = tuple[LedgerId, bytes]


class Open(Protocol):
    """As `LedgerClient.open`."""

    def __call__(self, ledger_id: LedgerId, password: bytes, *, fresh: bool) -> Awaitable[ReadHandle]: ...


class SharedLedgers:
    """Of one client. `open` opens a handle for itself."""

    def __init__(self, open: Open) -> None:
        self._open = open
        self._shared: dict[_Key, SharedLedger] = {}
        self._opening: dict[tuple[_Key, bool], SharedCall[SharedLedger]] = {}
        """By what is opened, and whether by fresh metadata."""
        self._decoded = DecodedBudget()

    async def open(self, ledger_id: LedgerId, password: bytes = b"", *, fresh: bool = True) -> SharedLedger:
        """As `LedgerClient.open`. Call `close` of what it returns once for each time it was returned."""
        key = (ledger_id, password)
        while True:
            found = self._shared.get(key)
            if found is None:
                try:
                    found = await self._first(key, fresh)
                except asyncio.CancelledError:
                    await self._close_unused(key)
                    raise
                if not found.is_closed:
                    found.readers += 1
                    return found
                continue
            found.readers += 1
            if not fresh:
                return found
            try:
                await found.refresh()
            except BaseException:
                await found.close()
                raise
            return found

    async def _first(self, key: _Key, fresh: bool) -> SharedLedger:
        async def opened() -> SharedLedger:
            del self._opening[key, fresh]  # those who call from now on may want to see more
            handle = await self._open(*key, fresh=fresh)
            found = self._shared.get(key)
            if found is not None:  # of those who called before, and whose opening ended first
                found.readers += 1  # else the last of them ends what this opening learns
                try:
                    await found.learn(handle)
                finally:
                    await handle.close()
                    await found.close()
                return found
            shared = self._shared[key] = SharedLedger(
                handle, self._decoded, lambda: self._forget(key, shared)
            )
            return shared

        opening = self._opening.get((key, fresh))
        if opening is None:
            opening = self._opening[key, fresh] = SharedCall(opened)
        return await opening()

    async def _close_unused(self, key: _Key) -> None:
        """For a caller that is cancelled as its opening ends. Others that wait for the same one open it again."""
        found = self._shared.get(key)
        if found is not None and not found.readers:
            found.readers = 1
            await found.close()

    def _forget(self, key: _Key, shared: SharedLedger) -> None:
        if self._shared.get(key) is shared:
            del self._shared[key]


class SharedLedger:
    """A handle on a ledger for any number of readers in one loop."""

    def __init__(
        self,
        handle: ReadHandle,
        decoded: DecodedBudget | None = None,
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        """`decoded`: that of its client, unless only one reader will have it."""
        self._handle = handle
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._refresh = SharedCall(handle.refresh)
        self._read_lac = SharedCall(handle.read_lac)
        self._waiting: dict[asyncio.Future[Any], tuple[int, float]] = {}
        """Readers that wait for the ledger to grow: beyond which entry, and until when."""
        self._poll: asyncio.Task[None] | None = None
        self._reads: dict[int, asyncio.Task[EntryRun | LogStoreError]] = {}
        """Under way, by the first entry."""
        self._recent = RecentRuns(decoded or DecodedBudget())
        self.readers = 0
        self.is_closed = False

    # ---- facts

    @property
    def ledger_id(self) -> LedgerId:
        return self._handle.ledger_id

    @property
    def closed(self) -> bool:
        """Whether the ledger is CLOSED as of the last read of its metadata."""
        return self._handle.closed

    @property
    def last_readable(self) -> EntryId:
        """Id of the last entry if closed, else the LAC known here; -1 if there is none."""
        return self._handle.last_readable

    def confirm(self, entry_id: int) -> None:
        """As `ReadHandle.confirm`; it holds for all readers."""
        self._handle.confirm(entry_id)
        self._wake_served()

    # ---- following an open ledger

    async def learn(self, handle: ReadHandle) -> None:
        """Know at least as much as this handle on the same ledger. Raises what `refresh` raises."""
        if handle.closed:
            await self.refresh()
        else:
            self.confirm(handle.last_readable)

    async def refresh(self) -> EntryId:
        """As `ReadHandle.refresh`."""
        if not self.closed:
            await self._refresh()
            self._wake_served()
        return self.last_readable

    async def read_lac(self) -> EntryId:
        """As `ReadHandle.read_lac`."""
        if not self.closed:
            await self._read_lac()
            self._wake_served()
        return self.last_readable

    async def wait_for_lac(self, beyond: int, timeout_s: float, unless: Signal) -> bool:
        """As `ReadHandle.wait_for_lac`, but False as soon as `unless` is set."""
        if self.closed or self.last_readable > beyond:
            return True
        waiter = unless.future()
        self._waiting[waiter] = (beyond, self._loop.time() + timeout_s)
        if self._poll is None and not waiter.done():
            # What becomes known before the task begins must end it.
            self._poll = start_task(self._follow(self.last_readable))
        timer = self._loop.call_later(timeout_s, _wake, waiter, _TIME_IS_UP)
        outcome = None
        try:
            outcome = await waiter
        finally:
            timer.cancel()
            self._waiting.pop(waiter, None)
            if waiter.cancelled() or outcome is not None:
                self._end_poll_unless_waited_for()
            else:  # whoever is interrupted will often wait again, and the poll may be about to end well
                self._loop.call_soon(self._end_poll_unless_waited_for)
        if outcome is _TIME_IS_UP:
            await self.refresh()
        elif isinstance(outcome, LogStoreError):
            raise outcome.copy()
        return outcome is not None

    def _end_poll_unless_waited_for(self) -> None:
        if not self._waiting and self._poll is not None:
            self._poll.cancel()
            self._poll = None

    def _wake_served(self) -> None:
        """End the waits for what is readable by now. The bookies that are polled may not know of it yet."""
        for waiter, (beyond, _) in self._waiting.items():
            if self.closed or self.last_readable > beyond:
                _wake(waiter, _HAS_CHANGED)

    async def _follow(self, known: EntryId) -> None:
        """One long poll for all who wait, for an entry after `known`, until it ends for all of them."""
        outcome = _HAS_CHANGED
        while self._waiting and self.last_readable <= known and not self.closed:
            left_s = max([until for _, until in self._waiting.values()]) - self._loop.time()
            try:
                await self._handle.wait_for_lac(known, max(left_s, 0.0) + _LONGER_S)
            except LogStoreError as error:
                outcome = error
                break
        self._poll = None
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            _wake(waiter, outcome)

    # ---- reading

    async def read_batch(self, first: int, *, max_entries: int, max_bytes: int) -> EntryRun:
        """As `ReadHandle.read_batch`, but it may be fewer entries: what another reader has fetched."""
        if self.readers <= 1:
            return run_of(await self._handle.read_batch(first, max_entries=max_entries, max_bytes=max_bytes))
        found = self._recent.get(first)
        if found is None:
            task = self._reads.get(first)
            if task is None:
                task = self._reads[first] = start_task(self._fetch(first, max_entries, max_bytes))
            outcome = await asyncio.shield(task)
            if isinstance(outcome, LogStoreError):
                raise outcome.copy()
            found = outcome
        return found.within(max_entries, max_bytes)

    async def _fetch(self, first: int, max_entries: int, max_bytes: int) -> EntryRun | LogStoreError:
        try:
            entries = await self._handle.read_batch(first, max_entries=max_entries, max_bytes=max_bytes)
        except LogStoreError as error:
            return error
        finally:
            del self._reads[first]
        return self._recent.add(entries)

    async def read(self, first: int, last: int) -> list[Entry]:
        """As `ReadHandle.read`."""
        return await self._handle.read(first, last)

    # ---- the end

    async def close(self) -> None:
        """One reader needs it no more; the last one to say so closes it."""
        self.readers -= 1
        if self.readers > 0 or self.is_closed:
            return
        self.is_closed = True
        self._on_closed()
        self._refresh.cancel()
        self._read_lac.cancel()
        for task in self._reads.values():
            task.cancel()
        self._recent.close()
        await self._handle.close()


_HAS_CHANGED: object = "the ledger has grown or is closed"
_TIME_IS_UP: object = "nothing came in time"


def _wake(waiter: asyncio.Future[Any], outcome: object) -> None:
    if not waiter.done():
        waiter.set_result(outcome)
