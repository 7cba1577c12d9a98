"""Calls of one turn of the loop share an execution that begins after each of them."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import LedgerNotFoundError, LogStoreError
from ledger.shared_call import SharedCall
from tests.helpers.eager_tasks import eager_task_factory


class _Work:
    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return number


async def test_calls_of_one_turn_share_and_a_later_one_begins_anew() -> None:
    work = _Work()
    shared = SharedCall(work)
    together = [asyncio.ensure_future(shared()) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert work.begun == 1
    late = asyncio.ensure_future(shared())
    await asyncio.sleep(0)
    work.go_on.set()
    assert await asyncio.gather(*together, late) == [1, 1, 1, 2]


async def test_an_execution_begins_after_its_calls_where_tasks_begin_when_they_are_made() -> None:
    """A caller that joined one that had begun before would get the state of an earlier moment."""
    asyncio.get_running_loop().set_task_factory(eager_task_factory)
    work = _Work()
    shared = SharedCall(work)
    first = asyncio.ensure_future(shared())
    await asyncio.sleep(0)
    late = asyncio.ensure_future(shared())
    await asyncio.sleep(0)
    work.go_on.set()
    assert await asyncio.gather(first, late) == [1, 2]


async def test_a_cancelled_caller_leaves_the_others_their_result() -> None:
    work = _Work()
    shared = SharedCall(work)
    first, second = (asyncio.ensure_future(shared()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    work.go_on.set()
    assert await second == 1


@pytest.mark.parametrize("turns", [1, 2])
async def test_what_all_callers_have_given_up_ends_and_the_next_call_begins_anew(turns: int) -> None:
    work = _Work()
    shared = SharedCall(work)
    callers = [asyncio.ensure_future(shared()) for _ in range(2)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    assert all(isinstance(each, asyncio.CancelledError) for each in await _outcomes(callers))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    before = work.begun
    work.go_on.set()
    assert await shared() == before + 1


async def _outcomes(callers: list[asyncio.Future[int]]) -> list[int | BaseException]:
    return list(await asyncio.gather(*callers, return_exceptions=True))


async def test_each_caller_gets_an_error_of_its_own() -> None:
    work = _Work()
    work.error = LedgerNotFoundError("ledger 7 does not exist", ledger_id=7)
    work.go_on.set()
    shared = SharedCall(work)
    found = await asyncio.gather(shared(), shared(), return_exceptions=True)
    assert [str(each) for each in found] == ["ledger 7 does not exist"] * 2
    assert found[0] is not found[1]
    assert all(isinstance(each, LogStoreError) for each in found)


async def test_what_runs_ends_when_it_is_cancelled() -> None:
    work = _Work()
    shared = SharedCall(work)
    waiting = asyncio.ensure_future(shared())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    shared.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
