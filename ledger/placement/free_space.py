"""Free space of the writable bookies, asked of them now and then. Only where the settings weigh it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledger.errors import CorruptionError, UnauthorizedError, UnavailableError
from ledger.model import BookieId, BookieSet
from ledger.tasks import start_task
from ledger.transport.pool import ConnectionPool
from ledger.wire.messages import BookieInfoRequest, BookieInfoResponse, BookieInfoWanted, Operation
from ledger.wire.status import Status


class FreeSpace:
    """The last answer of each bookie, in `known`."""

    def __init__(
        self, pool: ConnectionPool, bookies: Callable[[], BookieSet], *, interval_s: float, timeout_s: float
    ) -> None:
        self.known: dict[BookieId, int] = {}
        self._pool = pool
        self._bookies = bookies
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask once, and again every interval until `close`."""
        await self.ask()
        self._task = start_task(self._keep_asking())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def ask(self) -> None:
        """Ask every writable bookie. One that does not answer keeps its last answer; one that has ended has none."""
        bookie_ids = [info.bookie_id for info in self._bookies().writable]
        answers = await asyncio.gather(*(self._ask(bookie_id) for bookie_id in bookie_ids))
        before = self.known
        self.known = {
            bookie_id: free
            for bookie_id, answer in zip(bookie_ids, answers, strict=True)
            if (free := before.get(bookie_id) if answer is None else answer) is not None
        }

    async def _keep_asking(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self.ask()

    async def _ask(self, bookie_id: BookieId) -> int | None:
        wanted = BookieInfoRequest(requested=BookieInfoWanted.FREE_BYTES)
        try:
            connection = await self._pool.v3(bookie_id)
            # A connection on which other requests are answered stays up, whatever becomes of this one.
            async with asyncio.timeout(self._timeout_s):
                answer = await connection.request(Operation.GET_BOOKIE_INFO, wanted, self._timeout_s)
        except (TimeoutError, UnavailableError, CorruptionError, UnauthorizedError):
            return None
        if answer.outcome is not Status.EOK or not isinstance(answer.body, BookieInfoResponse):
            return None
        return answer.body.free_bytes
