"""asyncio's own building blocks on the simulated loop, all at once and under many seeds."""

from __future__ import annotations

import asyncio

import pytest

from tests.helpers.simulation.loop import simulate


async def producers_and_consumers(chance) -> None:
    queue: asyncio.Queue[int | None] = asyncio.Queue(3)
    taken: list[int] = []

    async def produce(first):
        for number in range(first, first + 50):
            await queue.put(number)
            await asyncio.sleep(chance.random() * 1e-5)

    async def consume():
        while (number := await queue.get()) is not None:
            taken.append(number)

    consumers = [asyncio.create_task(consume()) for _ in range(3)]
    await asyncio.gather(*(produce(first) for first in (0, 50, 100)))
    for _ in consumers:
        await queue.put(None)
    await asyncio.gather(*consumers)
    assert sorted(taken) == list(range(150))
    for first in (0, 50, 100):
        own = [number for number in taken if first <= number < first + 50]
        assert own == list(range(first, first + 50))


async def a_lock_that_is_cancelled(chance) -> None:
    lock, inside, done = asyncio.Lock(), [], []

    async def work(number):
        async with lock:
            assert not inside
            inside.append(number)
            try:
                await asyncio.sleep(chance.random() * 1e-4)
            finally:
                inside.remove(number)
            done.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(40)]
    for task in tasks[::3]:
        asyncio.get_running_loop().call_later(chance.random() * 1e-3, task.cancel)
    await asyncio.wait(tasks)
    assert not lock.locked() and len(done) == sum(not task.cancelled() for task in tasks)


async def timeouts(chance) -> None:
    for limit_s in (0.0, 0.5, 2.0):
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.sleep(1)
            assert limit_s > 1
        except TimeoutError:
            assert limit_s < 1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 3600)
    kept = asyncio.create_task(asyncio.sleep(10, "kept"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(kept), 1)
    assert await kept == "kept"


async def a_group_that_fails(chance) -> None:
    ended = []

    async def wait():
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(1)

    async def fail():
        await asyncio.sleep(chance.random())
        raise ValueError

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(wait())
            group.create_task(fail())
    assert len(ended) == 10


async def conditions_and_semaphores(chance) -> None:
    condition, slots, state, running = asyncio.Condition(), asyncio.Semaphore(4), [0], [0]

    async def step(number):
        async with slots:
            running[0] += 1
            assert running[0] <= 4
            await asyncio.sleep(chance.random() * 1e-4)
            running[0] -= 1
        async with condition:
            state[0] += 1
            condition.notify_all()

    async def wait_for_all():
        async with condition:
            await condition.wait_for(lambda: state[0] == 30)

    waiting = asyncio.create_task(wait_for_all())
    await asyncio.gather(*(step(number) for number in range(30)))
    await waiting


async def generators_that_are_left_early(chance) -> None:
    closed = []

    async def count():
        try:
            for number in range(100):
                await asyncio.sleep(0)
                yield number
        finally:
            await asyncio.sleep(0)
            closed.append(1)

    async for number in count():
        if number == 5:
            break
    await asyncio.sleep(0.01)
    assert closed == [1]


async def events_and_first_of_many(chance) -> None:
    event = asyncio.Event()
    tasks = [asyncio.create_task(asyncio.sleep(chance.random(), number)) for number in range(50)]
    tasks.append(asyncio.create_task(event.wait()))
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1 and len(waiting) == 50
    event.set()
    order = [await first for first in asyncio.as_completed(tasks)]
    assert len(order) == 51 and True in order


def test_everything_works_together_under_many_seeds() -> None:
    async def main(loop):
        parts = (
            producers_and_consumers,
            a_lock_that_is_cancelled,
            timeouts,
            a_group_that_fails,
            conditions_and_semaphores,
            generators_that_are_left_early,
            events_and_first_of_many,
        )
        nodes = [loop.boot(f"n{number}") for number in range(3)]
        await asyncio.gather(
            *(
                loop.create_task_on(node, part(loop.seeds.stream(f"{node.name} {part.__name__}")))
                for node in nodes
                for part in parts
            )
        )
        return loop.trace.digest()

    digests = [simulate(main, seed) for seed in range(20)]
    assert len(set(digests)) == 20
    assert simulate(main, 3) == digests[3]
