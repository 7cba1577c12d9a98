"""What takeovers and readers do when more is lost than the log can bear: they report it, and guess nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dlog.client import LogClient
from dlog.core.tailing import Gap, OnMissing
from dlog.errors import DataLossError, TakeoverLostError
from dlog.model import LogMetadata, MessageId
from dlog.testing import SimulatedCluster, simulate
from dlog.testing.cluster import ClusterConfig
from ledger.errors import LedgerRecoveryError
from ledger.model import LedgerId

LOG = "orders"
SEEDS = range(8)


async def three_ledgers(client: LogClient) -> dict[MessageId, bytes | None]:
    """A log with three messages in each of three ledgers, whose writer has been aborted."""
    sent: dict[MessageId, bytes | None] = {}
    writer = await client.open_writer(LOG, create=True)
    for ledger in range(3):
        for number in range(3):
            payload = b"%d.%d" % (ledger, number)
            sent[await writer.append(payload)] = payload
        if ledger < 2:
            await writer.rotate()
    writer.abort()
    await writer.close()
    return sent


async def record_of(client: LogClient) -> LogMetadata:
    return (await client.describe(LOG)).record


def remaining(sent: dict[MessageId, bytes | None], lost: LedgerId) -> dict[MessageId, bytes | None]:
    return {message_id: payload for message_id, payload in sent.items() if message_id.ledger_id != lost}


async def candidates(client: LogClient, count: int, given_up: Sequence[LedgerId] = ()) -> list[object]:
    """What each of them gets: its epoch, or an error. They compete."""

    async def take_over() -> object:
        async with await client.open_writer(LOG, given_up=given_up) as writer:
            return writer.epoch

    return await asyncio.gather(*(take_over() for _ in range(count)), return_exceptions=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_takeover_reports_a_ledger_whose_metadata_is_missing_until_it_is_given_up(seed: int) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            sent = await three_ledgers(client)
            before = await record_of(client)
            lost = before.ledger_ids[-1 - seed % 2]
            await client.ledgers.store.remove_ledger(lost)
            if seed % 3 == 0:
                cluster.kill_bookie(0)

            for error in await candidates(client, 3):
                assert isinstance(error, DataLossError) and str(lost) in str(error)
            after = await record_of(client)
            assert (after.epoch, after.ledger_ids) == (before.epoch, before.ledger_ids)
            with pytest.raises(DataLossError):
                async for _ in client.reader(LOG, until=max(sent)):
                    pass

            await client.admin.sweep(age_s=0.0)
            taken = await candidates(client, 3, given_up=[lost])
            assert any(isinstance(each, int) for each in taken), taken
            assert all(isinstance(each, int | TakeoverLostError) for each in taken), taken
            async with await client.open_writer(LOG) as writer:
                sent[await writer.append(b"after the loss")] = b"after the loss"
            read = {message.id: message.payload async for message in client.reader(LOG, until="latest")}
            assert read == remaining(sent, lost)

    simulate(main, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_returns_a_gap_for_a_missing_ledger_and_everything_else(seed: int) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            sent = await three_ledgers(client)
            await (await client.open_writer(LOG)).close()
            lost = (await record_of(client)).ledger_ids[seed % 2]
            await client.ledgers.store.remove_ledger(lost)
            gaps, read = list[Gap](), dict[MessageId, bytes | None]()
            reader = client.reader(LOG, until="latest", on_data_loss=OnMissing.GAP)
            async for item in reader.items():
                if isinstance(item, Gap):
                    gaps.append(item)
                else:
                    read[item.id] = item.payload
            assert read == remaining(sent, lost)
            assert len(gaps) == 1

    simulate(main, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_takeover_invents_no_end_of_a_ledger_whose_bookies_are_lost(seed: int) -> None:
    """Its metadata is there, so it is not given up either: any of the lost bookies may have acknowledged entries."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            sent = await three_ledgers(client)
            before = await record_of(client)
            for number in (0, 1, 2):
                cluster.bookies[number].lose(host_too=bool(seed % 2))
            for _ in range(3):
                cluster.add_bookie()
            for given_up in ((), before.ledger_ids[-1:]):
                for error in await candidates(client, 2, given_up):
                    assert isinstance(error, LedgerRecoveryError), error
            after = await record_of(client)
            assert (after.epoch, after.ledger_ids) == (before.epoch, before.ledger_ids)
            assert len(sent) == 9

    simulate(main, seed=seed, config=ClusterConfig(bookies=3))
