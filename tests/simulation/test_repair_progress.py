"""What is noted of a repair while it runs, at a rate at which a ledger of some entries takes minutes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from dlog.testing import SimulatedCluster, simulate
from ledger.repair.client import RepairClient
from ledger.repair.copying import checker, copier
from ledger.repair.copying.checker import Depth
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.repair.progress import CheckProgress, CopyProgress
from tests.helpers.simulation.lost_bookies import FOUR, QUICK, lose_one, written

ENTRIES = 100


@pytest.fixture(autouse=True)
def one_entry_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copier, "_PART_BYTES", 1)


def test_a_copy_is_counted_while_it_is_made_and_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("ledger.repair.ledger_repair")

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledger_id = await written(client.ledgers, ENTRIES)
            await lose_one(cluster, client.ledgers, ledger_id)
            progress = CopyProgress()
            repair = LedgerRepair(client.ledgers, replace(QUICK, bytes_per_s=1), progress)
            running = asyncio.create_task(repair.repair(ledger_id))
            await asyncio.sleep(100)
            now = progress.current[ledger_id]
            assert now.entries_total == ENTRIES and 20 < now.entries < ENTRIES
            assert (progress.entries, progress.payload_bytes) == (now.entries, now.payload_bytes)
            outcome = await running
            assert outcome.complete and not progress.current
            assert (progress.entries, progress.payload_bytes) == (outcome.entries, outcome.payload_bytes)
            await repair.close()

    logger.addHandler(caplog.handler)  # the simulator keeps what is logged from the root
    with caplog.at_level(logging.INFO, logger.name):
        simulate(main, config=FOUR)
    logger.removeHandler(caplog.handler)
    said = [each.getMessage() for each in caplog.records if f"of {ENTRIES} entries" in each.getMessage()]
    assert len(said) in (2, 3), said  # it takes 190 s: a byte or two each


@pytest.mark.parametrize("full", [True, False])
def test_the_copies_of_a_ledger_that_is_checked_are_counted(
    full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "_ENTRIES_AT_ONCE", 10)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledger_id = await written(client.ledgers, ENTRIES)
            progress = CheckProgress()
            running = asyncio.create_task(
                RepairClient(client.ledgers, QUICK).check_copies(full=full, progress=progress)
            )
            seen: list[tuple[int, int]] = []
            while not running.done():
                if (now := progress.copies.current.get(ledger_id)) is not None and now.copies_total:
                    seen.append((now.copies_read, now.copies_total))
                await asyncio.sleep(0.0001)
            assert await running == [] and progress.ledgers == 1
            assert {total for _, total in seen} == {3 * ENTRIES if full else 6}
            assert seen == sorted(seen) and len({read for read, _ in seen}) >= (10 if full else 2)

    simulate(main)


def test_what_a_member_lacks_is_known_once_its_copies_were_read() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers, ENTRIES)
            lost = await lose_one(cluster, ledgers, ledger_id)
            # The metadata names an empty bookie: what it must have is read, found to be missing, and copied to it.
            found = await ledgers.store.read_ledger(ledger_id)
            [fragment] = found.value.fragments
            empty = next(
                each.bookie_id for each in cluster.bookies if each.bookie_id not in fragment.ensemble
            )
            ensemble = tuple(empty if each == lost else each for each in fragment.ensemble)
            renamed = replace(found.value, fragments=(replace(fragment, ensemble=ensemble),))
            await ledgers.store.write_ledger(ledger_id, renamed, found.version)
            progress = CopyProgress()
            repair = LedgerRepair(ledgers, replace(QUICK, bytes_per_s=10), progress)
            running = asyncio.create_task(repair.repair(ledger_id, Scope(others=Depth.ALL)))
            while not progress.entries:  # noqa: ASYNC110 -- a simulated second each
                await asyncio.sleep(1)
            assert progress.current[ledger_id].entries_total == ENTRIES
            assert (await running).complete and progress.entries == ENTRIES
            await repair.close()

    simulate(main, config=FOUR)
