"""Visitors of the swarm: readers that come and leave within one client, which shares handles and fetches among them.

A reader that leaves in the middle of an opening or of a fetch changes nothing for the others: none skips a message,
repeats one or takes that for its own end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import exp, log

from dlog.core.tailing import OnMissing
from dlog.errors import LogNotFoundError
from dlog.model import NO_MESSAGE, MessageId
from dlog.read.reader import Reader
from dlog.testing.swarm.processes.cut_short import CutShortError, cut_short
from dlog.testing.swarm.processes.readers import SwarmReader
from dlog.testing.swarm.processes.starts import Start
from ledger.errors import UnavailableError
from ledger.signal import Signal

_STAY_S_MIN, _STAY_S_MAX = 0.002, 8.0
"""From less than an opening takes to long enough to follow the log into its next ledgers."""
_COMES_AGAIN_S = (0.0, 0.01, 0.3)
_SOON_S = 1.0
_TRY_AGAIN_S = 0.2


class SwarmVisitors(SwarmReader):
    """One process. Its readers are closed by another task, or the task that reads is cancelled.

    Many begin at the end of the log, and as the log's record changes: then readers of one ledger see it open and
    closed.
    """

    async def run(self) -> None:
        self._visiting: dict[str, Reader] = {}
        self._closed: set[str] = set()
        self._changed = Signal()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(), name=f"{self._name} watches")
            for number in range(self._chance.choice((2, 2, 3, 4))):
                name = f"{self._name}.{number}"
                group.create_task(self._visit_again_and_again(name), name=f"{self._name} visits {number}")

    async def _visit_again_and_again(self, name: str) -> None:
        turn = 0
        while True:
            turn += 1
            await self._visit(f"{name}.{turn}")
            if self._chance.random() < 0.5:
                await asyncio.wait([self._next_change()], timeout=_SOON_S)
            await asyncio.sleep(self._chance.choice(_COMES_AGAIN_S) * self._chance.random())

    def _next_change(self) -> asyncio.Future[None]:
        """Of the log's record: a ledger is sealed, and the next one is listed."""
        self._changed.clear()
        return self._changed.future()

    async def _watch(self) -> None:
        while True:
            try:
                ref = await self._client.logs.find(self._client.name(self._log))
            except (UnavailableError, LogNotFoundError):
                await asyncio.sleep(_TRY_AGAIN_S)
                continue
            unwatch = self._client.logs.watch(ref, self._changed.set)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                unwatch()

    async def _visit(self, name: str) -> None:
        reading = asyncio.get_running_loop().create_task(self._read(name), name=f"{name} reads")
        try:
            if self._chance.random() < 0.5:
                waits_for = [reading, self._next_change()]
                await asyncio.wait(waits_for, timeout=_SOON_S, return_when=asyncio.FIRST_COMPLETED)
            # As likely within an opening as within a fetch, with a fast store and with a slow one.
            stay_s = exp(self._chance.uniform(log(_STAY_S_MIN), log(_STAY_S_MAX)))
            await asyncio.wait([reading], timeout=stay_s)
            is_cancelled = not reading.done() and not await self._close(name)
            if is_cancelled:
                reading.cancel()
            await asyncio.wait([reading])
        except asyncio.CancelledError:
            reading.cancel()
            await asyncio.wait([reading])
            raise
        finally:
            self._visiting.pop(name, None)
        if not reading.cancelled():
            reading.result()
        elif not is_cancelled:
            self.wrong.append(f"c11_readers_end_where_they_were_asked: {name} was cancelled from elsewhere")

    async def _close(self, name: str) -> bool:
        """Close the reader, perhaps; if not, its task is to be cancelled."""
        reader = self._visiting.get(name)
        if reader is None or self._chance.random() < 0.5:
            return False
        self._closed.add(name)
        await reader.close()
        return True

    def _reader(
        self,
        name: str,
        start: Start,
        *,
        until: str | MessageId | None = None,
        on_trimmed: OnMissing = OnMissing.FAIL,
    ) -> Reader:
        reader = self._visiting[name] = super()._reader(name, start, until=until, on_trimmed=on_trimmed)
        return reader

    def _draw_start(self) -> Start:
        if (acked := self._recorder.last_acked) != NO_MESSAGE and self._chance.random() < 0.5:
            return Start("id", acked)
        return super()._draw_start()

    def _is_closed(self, name: str) -> bool:
        return name in self._closed

    async def _take(self, name: str, reader: Reader, way: str, enough: int = 1 << 30) -> bool:
        """As any reader, but first some calls are cancelled, which lose nothing."""
        while way in ("messages", "poll") and self._chance.random() < 0.3:
            with suppress(CutShortError):
                found = await cut_short(reader.poll(), self._chance, share=1.0)
                if found is None:
                    return True
                self._recorder.returned_message(name, found)
        return await super()._take(name, reader, way, enough)
