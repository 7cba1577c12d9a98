"""A reader that begins at the end of a log without messages learns what it has missed, as any other one.

Source: docs/log-semantics.md#rule-28, #rule-29.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dlog.errors import TrimmedError
from dlog.testing import SimulatedCluster, simulate

LOG = "orders"


@pytest.mark.parametrize(
    ("wanted", "missed"), [({"start": "latest"}, True), ({"last": 1}, True), ({}, False)]
)
def test_what_is_trimmed_before_the_reader_sees_it(wanted: dict[str, Any], missed: bool) -> None:
    """`missed`: from the earliest message on nothing is missed, whatever that is by then."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await client.create(LOG)
            opened = asyncio.Event()

            async def consume() -> bytes | None:
                async with await cluster.client() as own, own.reader(LOG, **wanted) as reader:
                    opened.set()
                    return (await anext(reader)).payload

            consumer = cluster.run("consumer", consume)
            await opened.wait()
            await asyncio.sleep(1)
            cluster.pause("consumer")
            async with client.open_writer(LOG) as writer:
                await writer.append(b"trimmed")
                await writer.rotate()
                await client.shrink(LOG, await writer.append(b"kept"))
                cluster.resume("consumer")
                if missed:
                    with pytest.raises(TrimmedError):
                        await consumer
                else:
                    assert await consumer == b"kept"

    simulate(main)
