"""Of replicas that answer concurrently, the one that was asked first is taken."""

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
