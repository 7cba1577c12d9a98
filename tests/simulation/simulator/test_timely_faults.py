"""Faults that strike at whoever is about to change metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import TIMELY
from dlog.testing.swarm.run import run_plan

SELDOM: dict[str, Any] = {
    "faults": (TIMELY, "pause_client", "cut", "kill_bookie"),
    "fault_every_s": 1000.0,
    "chaos_s": 5.0,
    "rotation_age_s": 0.7,
}


def test_they_come_although_nothing_comes_by_itself_and_can_be_given_again() -> None:
    plan = make_plan(3, "chaos", SELDOM)
    report = run_plan(plan)
    assert report.findings == []
    assert len(report.actions) > 1
    assert run_plan(replace(plan, actions=report.actions)).digest == report.digest


def test_without_them_nothing_of_the_kind_comes() -> None:
    faults = tuple(name for name in SELDOM["faults"] if name != TIMELY)
    assert run_plan(make_plan(3, "chaos", {**SELDOM, "faults": faults})).actions == ()
