"""A task begins after the call that made it, whatever task factory the program's loop has."""

from __future__ import annotations

import asyncio

import pytest

from ledger.tasks import start_task
from tests.helpers.eager_tasks import eager_task_factory


@pytest.fixture(params=["none", "eager"])
def factory(request: pytest.FixtureRequest) -> object:
    return {"none": None, "eager": eager_task_factory}[request.param]


async def test_a_task_begins_after_the_call_that_made_it(factory: object) -> None:
    done: list[str] = []

    async def work() -> str:
        done.append("begun")
        return "result"

    asyncio.get_running_loop().set_task_factory(factory)  # type: ignore[arg-type]
    task = start_task(work(), name="of a name")
    done.append("made")
    assert task.get_name() == "of a name"
    assert task in asyncio.all_tasks()
    assert await task == "result"
    assert done == ["made", "begun"]
