"""An auditor whose look at the metadata of all ledgers takes minutes, as in a large cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dlog.testing import SimulatedCluster, simulate
from ledger.model import LedgerId, LedgerMetadata
from ledger.repair import auditor
from ledger.repair.autorecovery import run_autorecovery
from ledger.repair.ledger_index import all_ledgers
from tests.helpers.simulation.lost_bookies import QUICK, member, unmarked, unregistered, until, written

_AUDIT_S = 120.0


def test_a_bookie_that_came_and_was_lost_again_during_an_audit_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker has cleared the mark in between: it found the bookie registered, with all its copies."""

    async def slowly(*args: Any) -> AsyncIterator[tuple[LedgerId, LedgerMetadata]]:
        async for found in all_ledgers(*args):
            yield found
        await asyncio.sleep(_AUDIT_S)

    monkeypatch.setattr(auditor, "all_ledgers", slowly)
    monkeypatch.setattr(auditor, "_MARKS_AT_ONCE", 1)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            number = await member(cluster, ledgers, ledger_id)

            async def audit_and_repair() -> None:
                await run_autorecovery(cluster.store(), cluster.environment(), QUICK)

            async def is_marked() -> bool:
                return not await unmarked(ledgers)

            async def is_unmarked() -> bool:
                return await unmarked(ledgers)

            cluster.run("autorecovery", audit_and_repair)
            await asyncio.sleep(2 * _AUDIT_S)  # the audit after the election
            cluster.kill_bookie(number)
            await until(is_marked)
            await cluster.restart_bookie(number)
            await until(is_unmarked)
            cluster.kill_bookie(number)
            await unregistered(ledgers, cluster.bookies[number].bookie_id)
            await until(is_marked)
            cluster.kill("autorecovery")

    simulate(main)
