"""Repair under the faults of the swarm: two auditors, workers that die, bookies that come and go, ledgers left open.

At the end of every seed each entry has its write quorum of copies; and a repair that does it wrong is found.
"""

from __future__ import annotations

from typing import Any

import pytest

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.run import Report, run_plan
from ledger.model import LedgerMetadata
from ledger.repair import ledger_repair
from ledger.repair.copying.copier import Copied, Copier
from ledger.repair.core.fragments import ClosedFragment, closed_fragments

REPAIRED: dict[str, Any] = {"repairers": 2}


def played(seed: int) -> Report:
    return run_plan(make_plan(seed, "chaos", REPAIRED))


@pytest.mark.parametrize(
    "first", [1, pytest.param(5, marks=pytest.mark.nightly), pytest.param(9, marks=pytest.mark.nightly)]
)
def test_every_entry_has_its_write_quorum_of_copies_at_the_end(first: int) -> None:
    for seed in range(first, first + 4):
        command = f"python -m dlog.testing --seed {seed} --set repairers=2"
        findings = played(seed).findings
        assert not findings, "\n".join([command, *findings])


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_bookie_whose_answer_was_late_once_is_no_finding(seed: int) -> None:
    """Clients of this plan wait for an answer for 3 ms, and packets take up to 250 ms."""
    plan = Plan(seed=seed, profile="calm", writers=1, readers=1, repairers=1, chaos_s=1.0, patience=0.003)
    assert not run_plan(plan).findings


@pytest.mark.parametrize("seed", [70281, 70449])
def test_a_bookie_with_a_damaged_index_may_not_find_the_copies_that_it_got(seed: int) -> None:
    """One finds its copies only as long as they are in its cache, and one stops after half a second of each start."""
    assert not run_plan(make_plan(seed, "chaos", {})).findings


def is_found(check: str, first: int, last: int) -> bool:
    """By one of these seeds; another check may stop others before."""
    return any(check in "\n".join(played(seed).findings) for seed in range(first, last))


def test_a_replacement_without_a_copy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_self: Copier, *arguments: Any, **_: Any) -> Copied:
        return Copied(len(arguments[3]), 0)

    monkeypatch.setattr(Copier, "copy", nothing)
    assert is_found("c14_write_quorum_after_repair", 1, 13)


def test_a_repair_of_open_fragments_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the last fragment for empty, and replaces a member that a writer still sends to.

    Few seeds lose a member of an open ledger while somebody writes to it.
    """

    def all_of_them(metadata: LedgerMetadata) -> list[ClosedFragment]:
        last = metadata.last_fragment
        fragments = closed_fragments(metadata)
        if not metadata.closed:
            fragments.append(
                ClosedFragment(last.first_entry, last.first_entry - 1, last.ensemble, metadata.quorum)
            )
        return fragments

    monkeypatch.setattr(ledger_repair, "closed_fragments", all_of_them)
    monkeypatch.setattr("ledger.repair.core.replacing.closed_fragments", all_of_them)
    assert is_found("c13_ledger_metadata_moves_legally", 81, 90)
