"""What a run does with a log that has lost something in the metadata store (docs/log-semantics.md#pages, #rule-23)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest

from dlog.client import LogClient
from dlog.ledger_list.listing import SHORT_SIZES
from dlog.read.config import ReaderConfig
from dlog.testing import SimulatedCluster, simulate
from dlog.testing.metadata.history import CallOutcome, RegisterHistory
from dlog.testing.swarm.losses.lost_ledger import LostLedger
from dlog.testing.swarm.losses.lost_page import LostPage
from dlog.testing.swarm.losses.lost_value import LostValue
from dlog.testing.swarm.plan import LOSSES
from tests.helpers.log.trimmed_pages import TrimTo, append_and_trim, keep_trimmed_listed

LOG = "orders"
Connect = Callable[[], Awaitable[LogClient]]


def wrong_after_a_trim(to: TrimTo, seed: int) -> list[str]:
    """What the check finds once it has removed or damaged one of the pages, some of which have only trimmed ledgers."""

    async def main(cluster: SimulatedCluster) -> list[str]:
        async with await cluster.client() as client:
            assert await append_and_trim(client, LOG, to)
        return await LostPage(
            cluster.client, LOG, Random(seed), ReaderConfig(), metadata=cluster.metadata
        ).check()

    return simulate(main)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("to", list(TrimTo))
def test_a_page_of_trimmed_ledgers_is_no_loss(to: TrimTo, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_trimmed_listed(monkeypatch)
    assert wrong_after_a_trim(to, seed) == []


def wrong(loses: str, seed: int) -> list[str]:
    """What is found in a log of several ledgers, some of them in pages for every other seed."""

    async def main(cluster: SimulatedCluster) -> list[str]:
        async def connect() -> LogClient:
            client = await cluster.client()
            if seed % 2:
                client.logs.list_sizes = SHORT_SIZES
            return client

        async with await connect() as client, client.open_writer(LOG, create=True) as writer:
            for number in range(9):
                await writer.append(b"%d" % number)
                if number % 2:
                    await writer.rotate()
        chance, config, metadata = Random(seed), ReaderConfig(), cluster.metadata
        if loses == "ledger":
            return await LostLedger(connect, LOG, chance, config, metadata=metadata).check()
        return await LostValue(connect, LOG, chance, config, metadata=metadata, value=loses).check()

    return simulate(main, seed=seed)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("loses", LOSSES)
def test_no_use_of_a_log_makes_its_loss_worse(loses: str, seed: int) -> None:
    assert wrong(loses, seed) == []


def test_a_history_that_has_ended_keeps_what_it_has() -> None:
    async def main(cluster: SimulatedCluster) -> RegisterHistory:
        history = cluster.metadata.history
        store = cluster.store()
        await store.create_record("/kept", b"value")
        history.end()
        cluster.metadata.replace_record("/kept", b"damaged")
        assert (await store.read_record("/kept")).value == b"damaged"
        await store.close()
        return history

    [call] = simulate(main).of("/kept")
    assert (call.operation, call.value, call.outcome) == ("create", b"value", CallOutcome.DONE)
