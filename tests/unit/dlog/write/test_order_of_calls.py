"""Calls of every kind on one writer: their order is the order of the messages in the log."""

from __future__ import annotations

import asyncio
from itertools import count, permutations

from tests.helpers.ledger.scripted_bookies import GUARD_S
from tests.helpers.log.scripted_log import payloads, scripted_log


async def test_a_message_in_the_partial_batch_is_before_the_entry_of_a_later_call() -> None:
    """In every order of three calls in one turn of the loop, and the next three in the same turn.

    Source: docs/log-semantics.md#rule-6.
    """
    numbers, sequences = count(), count()
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        producer = await writer.producer("billing")
        submitted: list[asyncio.Future[object]] = []
        for calls in permutations(("one", "many", "producer")):
            for call in calls:
                payload = b"%d" % next(numbers)
                match call:
                    case "one":
                        submitted.append(writer.submit_nowait(payload))
                    case "many":
                        submitted.append(await writer.submit_many([payload]))
                    case _:
                        submitted.append(await producer.submit(payload, sequence=next(sequences)))
        async with asyncio.timeout(GUARD_S):
            await asyncio.gather(*submitted)
        assert await payloads(client, "orders") == [b"%d" % number for number in range(len(submitted))]
        assert len(submitted) == next(numbers) == 18
