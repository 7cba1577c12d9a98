"""A simulated cluster with ledgers that lack copies: they are written, and lose a bookie."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dlog.testing import ClusterConfig, SimulatedCluster
from ledger.client import LedgerClient
from ledger.errors import MetadataFormatError
from ledger.model import BookieId, LedgerId, QuorumSizes
from ledger.repair.config import RepairConfig

FOUR = ClusterConfig(bookies=4)
THREE_OF_THREE = QuorumSizes(ensemble=3, write=3, ack=2)
QUICK = RepairConfig(lost_bookie_delay_s=5, open_ledger_grace_s=20.0, poll_s=2.0, retry_first_s=2.0)


async def written(
    ledgers: LedgerClient,
    count: int = 40,
    quorum: QuorumSizes = THREE_OF_THREE,
    *,
    close: bool = True,
    settle_s: float = 0.0,
) -> LedgerId:
    """`settle_s`: before the close, which does not wait for more copies than the ack quorum."""
    handle = await ledgers.create(quorum)
    await asyncio.gather(*(handle.add(b"%d" % number) for number in range(count)))
    await asyncio.sleep(settle_s)
    if close:
        await handle.close()
    return handle.ledger_id


async def member(cluster: SimulatedCluster, ledgers: LedgerClient, ledger_id: LedgerId) -> int:
    """The number of a bookie in the ledger's last ensemble."""
    ensemble = (await ledgers.store.read_ledger(ledger_id)).value.last_fragment.ensemble
    return next(number for number, each in enumerate(cluster.bookies) if each.bookie_id == ensemble[0])


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(600):
        while not await condition():  # noqa: ASYNC110 -- what is waited for is in other processes
            await asyncio.sleep(0.5)


async def unregistered(ledgers: LedgerClient, bookie_id: BookieId) -> None:
    """Return once the bookie is not registered any more."""

    async def absent() -> bool:
        return (await ledgers.store.bookies()).find(bookie_id) is None

    await until(absent)


async def names(ledgers: LedgerClient, ledger_id: LedgerId, bookie_id: BookieId) -> bool:
    return bookie_id in (await ledgers.store.read_ledger(ledger_id)).value.members()


async def lose_one(cluster: SimulatedCluster, ledgers: LedgerClient, ledger_id: LedgerId) -> BookieId:
    """For good, with its disks."""
    number = await member(cluster, ledgers, ledger_id)
    cluster.bookies[number].lose(host_too=True)
    await unregistered(ledgers, cluster.bookies[number].bookie_id)
    return cluster.bookies[number].bookie_id


async def unmarked(ledgers: LedgerClient) -> bool:
    return not [mark async for mark in ledgers.store.repair.marks()]


def damage_metadata(ledgers: LedgerClient, damaged: LedgerId) -> None:
    """For this client alone."""
    store = ledgers.store
    read, glance = store.read_ledger, store.glance_at_ledgers

    async def read_ledger(ledger_id: LedgerId) -> Any:
        if ledger_id == damaged:
            raise MetadataFormatError(f"the metadata of ledger {ledger_id} is damaged", key=ledger_id)
        return await read(ledger_id)

    async def glance_at_ledgers(ledger_ids: Any) -> Any:
        return {key: value for key, value in (await glance(ledger_ids)).items() if key != damaged}

    store.read_ledger = read_ledger  # type: ignore[method-assign]
    store.glance_at_ledgers = glance_at_ledgers  # type: ignore[method-assign,assignment]
