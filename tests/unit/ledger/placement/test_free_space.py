"""Bookies are asked for their free space, and one that does not answer keeps its last answer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, BookieInfo, BookieSet
from ledger.placement.free_space import FreeSpace
from ledger.transport.pool import ConnectionPool
from ledger.wire.messages import BookieInfoResponse, Operation, V3Response
from ledger.wire.status import Status
from tests.helpers.ledger.scripted_bookies import GUARD_S

A, B = BookieId("a"), BookieId("b")


class Pool:
    """Answers with `free`; a bookie that is not in it cannot be reached."""

    def __init__(self, free: dict[BookieId, int]) -> None:
        self.free = free
        self.asked = asyncio.Event()
        self.status = Status.EOK
        self.hanging: set[BookieId] = set()

    async def v3(self, bookie_id: BookieId) -> Connection:
        self.asked.set()
        if bookie_id not in self.free:
            raise BookieUnavailableError("away", bookie_id=bookie_id)
        return Connection(self.free[bookie_id], self.status, hangs=bookie_id in self.hanging)


class Connection:
    def __init__(self, free: int, status: Status, *, hangs: bool) -> None:
        self._free = free
        self._status = status
        self._hangs = hangs

    async def request(self, operation: Operation, body: Any, timeout_s: float) -> V3Response:
        if self._hangs:
            await asyncio.Event().wait()
        answer = BookieInfoResponse(status=self._status, free_bytes=self._free)
        return V3Response(txn_id=1, operation=operation, status=self._status, body=answer)


def infos(*names: BookieId) -> BookieSet:
    return BookieSet(writable=tuple(BookieInfo(bookie_id=name, host="h", port=1) for name in names))


def free_space(
    pool: Pool, *names: BookieId, interval_s: float = 3600.0, timeout_s: float = GUARD_S
) -> FreeSpace:
    bookies = infos(*names)
    return FreeSpace(cast(ConnectionPool, pool), lambda: bookies, interval_s=interval_s, timeout_s=timeout_s)


async def test_a_bookie_that_does_not_answer_keeps_its_last_answer() -> None:
    pool = Pool({A: 1, B: 2})
    space = free_space(pool, A, B)
    await space.ask()
    assert space.known == {A: 1, B: 2}
    pool.free = {B: 3}
    await space.ask()
    assert space.known == {A: 1, B: 3}
    pool.status = Status.EUA
    await space.ask()
    assert space.known == {A: 1, B: 3}


async def test_a_bookie_that_answers_other_requests_only_does_not_hold_the_others_up() -> None:
    """Its connection is alive, so nothing but the time that one question may take ends the wait."""
    pool = Pool({A: 1, B: 2})
    pool.hanging.add(A)
    space = free_space(pool, A, B, timeout_s=0.01)
    async with asyncio.timeout(GUARD_S):
        await space.ask()
    assert space.known == {B: 2}


async def test_one_that_was_never_reached_is_not_known() -> None:
    space = free_space(Pool({}), A)
    await space.ask()
    assert space.known == {}


async def test_it_is_asked_again_until_it_is_closed() -> None:
    pool = Pool({A: 1})
    space = free_space(pool, A, interval_s=0.001)
    await space.start()
    pool.asked.clear()
    await asyncio.wait_for(pool.asked.wait(), 30)
    await space.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
