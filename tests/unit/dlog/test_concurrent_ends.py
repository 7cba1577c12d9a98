"""Two clients seal or delete one log at the same time: both get what they asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dlog.client import LogClient
from dlog.errors import LogNotFoundError, LogSealedError
from dlog.model import LogState
from dlog.testing import SimulatedCluster, simulate

LOG = "orders"
DELAYS_S = (0.0, 0.004, 0.012, 0.02)


def together(
    one: Callable[[LogClient], Awaitable[object]],
    other: Callable[[LogClient], Awaitable[object]],
    delay_s: float,
    seed: int,
) -> list[object]:
    """What both return, of a log with an open writer; `other` begins later."""
    results: list[object] = []

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as first, await cluster.client() as second:
            writer = await first.open_writer(LOG, create=True)
            await writer.append(b"one")

            async def later() -> object:
                await asyncio.sleep(delay_s)
                return await other(second)

            results.extend(await asyncio.gather(one(first), later(), return_exceptions=True))
            writer.abort()

    simulate(main, seed=seed)
    return results


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_sealed_by_both(delay_s: float) -> None:
    async def seal(client: LogClient) -> object:
        return (await client.seal(LOG)).state

    for seed in range(5):
        assert together(seal, seal, delay_s, seed) == [LogState.SEALED] * 2


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_deleted_by_both(delay_s: float) -> None:
    """One that comes late finds no log, as it does after the deletion."""
    for seed in range(5):
        results = together(
            lambda client: client.delete(LOG), lambda client: client.delete(LOG), delay_s, seed
        )
        assert True in results
        assert all(result is True or isinstance(result, LogNotFoundError) for result in results), results


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_a_writer_that_may_create_the_log_is_opened_after_its_deletion(delay_s: float) -> None:
    """Or it finds that the log is being deleted."""

    async def opened(client: LogClient) -> object:
        async with client.open_writer(LOG, create=True) as writer:
            return (await writer.append(b"two")).ledger_id > 0

    for seed in range(5):
        _, result = together(lambda client: client.delete(LOG), opened, delay_s, seed)
        assert result is True or isinstance(result, LogSealedError), result
