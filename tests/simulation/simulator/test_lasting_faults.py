"""What lasts until the end of a run takes effect, is survived, and can be given again."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from dlog.testing.swarm import lasting_faults
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.lasting_faults import LastingFaults, victims_max
from dlog.testing.swarm.plan import LASTING, Plan
from dlog.testing.swarm.run import Report, run_plan

SHORT: dict[str, Any] = {
    "chaos_s": 4.0,
    "fault_every_s": 1.0,
    "bookies": 4,
    "ensemble": 3,
    "write": 3,
    "ack": 2,
    "patience": 0.3,
    "rotation_age_s": 0.7,
    "garbage": False,
}
COUNTED = {
    "clock_rate": ("clock_rate",),
    "lost_bookie": ("lost_bookie",),
    "minor_rot": ("bit_rot", "bad_sectors", "index_damage", "lost_file"),
    "join_bookie": ("join",),
    "leave_bookie": ("leave",),
    "nearly_full": ("nearly_full",),
}


def played(kind: str) -> Report:
    """The first of some seeds in which it takes effect."""
    for seed in range(1, 6):
        report = run_plan(make_plan(seed, "chaos", {**SHORT, "faults": (kind,)}))
        assert report.findings == []
        if any(report.faults.get(name) for name in COUNTED[kind]):
            return report
    raise AssertionError(f"{kind} never takes effect")


@pytest.mark.parametrize("kind", LASTING)
def test_it_takes_effect_breaks_nothing_and_can_be_given_again(kind: str) -> None:
    report = played(kind)
    assert run_plan(replace(report.plan, actions=report.actions)).digest == report.digest


@pytest.mark.parametrize("kind", ("lost_process", "lost_host", "lost_disk"))
def test_a_lost_bookie_stays_lost_and_everything_is_read_without_it(kind: str) -> None:
    plan = Plan(seed=2, chaos_s=4.0, bookies=4, actions=(Action(at_s=2.0, kind=kind, who="bookie-1"),))
    report = run_plan(plan, timeline=20_000)
    assert report.findings == [] and report.acked > 20
    after = report.timeline.partition("!! lost_bookie")[2]
    assert after and not any("bookie-1" in line and " serves" in line for line in after.splitlines())


def test_a_bookie_whose_disk_was_just_replaced_has_no_directory_to_lose() -> None:
    both = (
        Action(at_s=2.0, kind="lost_disk", who="bookie-1"),
        Action(at_s=2.0, kind="lost_directory", who="bookie-1"),
    )
    report = run_plan(Plan(seed=2, chaos_s=4.0, bookies=4, more_directories=2, actions=both))
    assert report.findings == [] and report.acked > 20


def test_losing_an_ack_quorum_of_bookies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what was survived above was not survived because nothing was on the lost ones."""
    monkeypatch.setattr(lasting_faults, "victims_max", lambda plan: plan.ack)
    changed = {**SHORT, "bookies": 3, "faults": ("lost_bookie",), "progress_s": 30.0}
    assert any(run_plan(make_plan(seed, "chaos", changed)).findings for seed in range(1, 4))


def test_no_run_has_more_victims_than_an_ack_quorum_bears() -> None:
    for seed in range(200):
        plan = make_plan(seed, "chaos", {"faults": ("lost_bookie", "minor_rot")})
        drawn = LastingFaults(plan, ["writer-0"], Random(seed)).draw()
        harmless = (
            "pause_bookie",
            "restart_bookie",
            "kill_client",
            "directory_full",
            "write_error",
            "sync_error",
        )
        victims = {action.who for action in drawn if action.kind not in harmless}
        assert len(victims) <= victims_max(plan) < plan.ack
        left = plan.bookies - len(victims)
        assert left >= plan.ensemble or (plan.degraded and plan.write > plan.ack and len(victims) == 1)


def test_a_misdirected_read_is_noticed_and_masked() -> None:
    """Blocks have checksums over their own position; here nothing is in a bookie's memory when it is asked."""
    counts = 0
    for seed in range(1, 6):
        changed = {**SHORT, "faults": ("misdirected_read", "restart_bookie"), "fault_every_s": 0.1}
        report = run_plan(make_plan(seed, "chaos", {**changed, "checkpoint_s": 0.5, "small_disks": True}))
        assert report.findings == []
        counts += report.faults.get("misdirected_read", 0)
    assert counts
