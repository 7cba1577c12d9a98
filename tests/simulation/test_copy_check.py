"""Checks of all ledgers, where one has metadata that cannot be read, or a bookie that does not answer."""

from __future__ import annotations

import logging

import pytest

from bookie_server.tools.repair.work import findings, require_none
from dlog.testing import SimulatedCluster, simulate
from ledger.repair.client import RepairClient
from ledger.repair.errors import CopiesMissingError
from ledger.repair.placement_check import check_placement
from tests.helpers.simulation.lost_bookies import FOUR, QUICK, damage_metadata, member, unmarked, written


def test_a_ledger_whose_metadata_cannot_be_read_is_a_finding_of_the_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("copy_check", "placement_check"):
        # The simulator fails a run that logs an error, and this one is to be logged.
        monkeypatch.setattr(logging.getLogger(f"ledger.repair.{module}"), "disabled", True)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            damaged, _ = await written(ledgers), await written(ledgers)
            damage_metadata(ledgers, damaged)
            (found,) = await RepairClient(ledgers, QUICK).check_copies(mark=True)
            assert (found.ledger_id, found.missing) == (damaged, set())
            assert found.left == [f"the metadata of ledger {damaged} is damaged"]
            placement = await check_placement(ledgers)
            assert (placement.ledgers, placement.unreadable) == (1, 1)
            assert await unmarked(ledgers)

    simulate(main, config=FOUR)


def test_a_ledger_is_not_called_marked_if_its_bookie_merely_does_not_answer() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            bookie = cluster.bookies[await member(cluster, ledgers, ledger_id)]
            bookie.pause()
            rows = findings(await RepairClient(ledgers, QUICK).check_copies(mark=True))
            (row,) = rows
            assert row["missing"] == [] and f"{bookie.bookie_id} does not answer" in str(row["finding"])
            assert await unmarked(ledgers)
            with pytest.raises(
                CopiesMissingError, match=r"^it is unknown whether 1 ledger lacks copies: see its finding"
            ):
                require_none(rows, marked=True)

    simulate(main, config=FOUR)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ((["b:1"],), "1 ledger lacks copies: marked for the workers"),
        ((["b:1"], ["b:2"]), "2 ledgers lack copies: marked for the workers"),
        (([], []), "it is unknown whether 2 ledgers lack copies: see their findings, and check again"),
        (
            (["b:1"], []),
            "1 ledger lacks copies: marked for the workers; it is unknown whether 1 other ledger lacks copies: "
            "see its finding, and check again",
        ),
    ],
)
def test_ledgers_that_lack_copies_and_unknown_ones_are_counted_apart(
    missing: tuple[list[str], ...], message: str
) -> None:
    with pytest.raises(CopiesMissingError) as raised:
        require_none([{"missing": each} for each in missing], marked=True)
    assert str(raised.value) == message
    assert raised.value.ledgers + raised.value.unknown == len(missing)
