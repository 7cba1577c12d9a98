"""Opens the ledger after the one at which a reader waits before the reader comes to it.

A rotation would otherwise cost a tail the time of an open. Nothing depends on it: the reader's machine decides when
the reader goes on, and to which ledger, by a record that it reads itself (docs/log-semantics.md#rule-26). The LAC is
read once the ledger before was seen sealed. It may be too low by the time it is used, as any LAC may; the wait for the
next entry raises it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from dlog.model import LogMetadata
from ledger.client import LedgerClient
from ledger.errors import LogStoreError
from ledger.model import LedgerId, Versioned
from ledger.reading.shared_ledgers import SharedLedger
from ledger.tasks import start_task

_Outcome = SharedLedger | LogStoreError | None


class NextLedger:
    """Call `expect` while the reader waits, `hurry` at the end of a ledger, `take` for the next one, and `close`."""

    def __init__(
        self, ledgers: LedgerClient, password: bytes, read: Callable[[], Awaitable[Versioned[LogMetadata]]]
    ) -> None:
        """`read` reads the record, perhaps an older one."""
        self._ledgers = ledgers
        self._password = password
        self._read = read
        self._ledger_id: int | None = None
        """The ledger that is opened, unless it is still looked for."""
        self._task: asyncio.Task[_Outcome] | None = None
        self._is_wanted = asyncio.Event()

    async def expect(self, ledger_id: int | None) -> None:
        """Begin to open this ledger, in the background, in place of the one expected before; None: expect none."""
        if ledger_id == self._ledger_id and (ledger_id is not None or self._task is None):
            return
        await self.close()
        if ledger_id is not None:
            self._ledger_id = ledger_id
            self._is_wanted = asyncio.Event()
            self._start(self._open(LedgerId(ledger_id), self._is_wanted))

    def hurry(self, sealed: LedgerId) -> None:
        """The reader comes to the end of this ledger: read the LAC of the next one, which is looked for if need be."""
        if self._task is None:
            self._is_wanted = asyncio.Event()
            self._start(self._find(sealed, self._is_wanted))
        self._is_wanted.set()

    async def take(self, ledger_id: int) -> SharedLedger | None:
        """The handle, which the caller closes; None if another ledger was expected, or it could not be opened."""
        if self._task is None or self._ledger_id not in (None, ledger_id):
            return None
        self._is_wanted.set()
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            await self.close()
            raise
        found, self._ledger_id, self._task = self._task.result(), None, None
        if isinstance(found, SharedLedger):
            if found.ledger_id == ledger_id:
                return found
            await found.close()
        return None

    async def close(self) -> None:
        """Expect no ledger."""
        task, self._ledger_id, self._task = self._task, None, None
        if task is None:
            return
        task.cancel()
        if not task.done():
            await asyncio.wait((task,))  # if this is cancelled, the task closes its handle itself
        if not task.cancelled() and isinstance(found := task.result(), SharedLedger):
            await found.close()

    # ---- in the background

    def _start(self, opening: Coroutine[None, None, _Outcome]) -> None:
        self._task = start_task(opening)

    async def _find(self, sealed: LedgerId, is_wanted: asyncio.Event) -> _Outcome:
        try:
            record = (await self._read()).value
        except LogStoreError as error:
            return error
        following = next((each for each in record.ledgers if each.ledger_id > sealed), None)
        return None if following is None else await self._open(following.ledger_id, is_wanted)

    async def _open(self, ledger_id: LedgerId, is_wanted: asyncio.Event) -> _Outcome:
        """The handle. After an error the reader opens the ledger itself."""
        try:
            handle = await self._ledgers.shared.open(ledger_id, self._password, fresh=False)
        except LogStoreError as error:
            return error
        try:
            await is_wanted.wait()
            await handle.read_lac()
        except LogStoreError as error:
            await handle.close()
            return error
        except BaseException:
            await handle.close()
            raise
        return handle
