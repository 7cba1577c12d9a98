"""Of replicas that answer concurrently, the one asked first is taken; slow ones are waited for without work."""

from __future__ import annotations

import asyncio

from ledger.core.read import EntryRead
from ledger.model import BookieId, QuorumSizes
from ledger.reading.bookie_reads import BookieAnswer
from ledger.reading.speculative_read import speculative_read
from ledger.wire.status import Answer


async def test_of_concurrent_copies_that_of_the_replica_asked_first_is_taken() -> None:
    """Whatever order a set of tasks has in this process: a run of the simulator must be the same in the next."""
    replicas = [BookieId(f"b{number}") for number in range(5)]
    sizes = QuorumSizes(ensemble=5, write=5, ack=3)
    for _ in range(20):
        answer: asyncio.Future[BookieAnswer] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.02, answer.set_result, BookieAnswer(Answer.YES))

        async def ask(replica: BookieId, answer: asyncio.Future[BookieAnswer] = answer) -> BookieAnswer:
            return await asyncio.shield(answer)

        found = await speculative_read(EntryRead(replicas, sizes), ask, 0.001, [])
        assert found is not None and found[0] == replicas[0]


async def test_a_read_that_has_asked_every_replica_only_waits_for_answers() -> None:
    class CountedRead(EntryRead):
        looked = 0

        def ask_next(self) -> BookieId | None:
            self.looked += 1
            return super().ask_next()

    async def ask(_replica: BookieId) -> BookieAnswer:
        await asyncio.sleep(0.05)
        return BookieAnswer(Answer.YES)

    machine = CountedRead([BookieId("b0"), BookieId("b1")], QuorumSizes(ensemble=2, write=2, ack=1))
    assert await speculative_read(machine, ask, 0.0, []) is not None
    assert machine.looked <= 3
