"""What is left of a plan that fails, with runs that are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from dlog.testing.failures.failure_report import report_of, summary_of
from dlog.testing.failures.saved_run import read_saved_run, saved_run_text
from dlog.testing.failures.shrinking import Shrunken, kinds_of, leave_out, shrink
from dlog.testing.swarm.actions import NOTHING, Action
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.run import Report

ACTIONS = (
    Action(at_s=1.0, kind="cut", who="writer-0", to="bookie-1", for_s=2.0),
    Action(at_s=2.0, kind=NOTHING),
    Action(at_s=3.0, kind="kill_bookie", who="bookie-1", for_s=4.0),
    Action(at_s=4.123456, kind="sync_error", who="bookie-2", part="journal", number=3),
    Action(at_s=5.0, kind="clock_jump", who="reader-0", by_s=-5.0),
)
LOST = "c1_acknowledged_is_read: 3:17:0 of writer-0 is gone"


def fails_if(needed: Callable[[Plan], bool]) -> Callable[[Plan], Report]:
    def run(plan: Plan) -> Report:
        actions = ACTIONS if plan.actions is None else plan.actions
        struck = () if plan.actions is not None else (Action(at_s=2.5, kind="watch_late", number=1),)
        report = Report(plan, actions=actions, struck=struck)
        report.findings = [LOST] if needed(replace(plan, actions=actions)) else []
        return report

    return run


def kinds(plan: Plan) -> list[str]:
    return [action.kind for action in plan.actions or ()]


def shrunk(needed: Callable[[Plan], bool], runs_max: int = 400) -> Shrunken:
    plan = Plan(seed=7, faults=("cut", "kill_bookie", "watch_late"), bookies=5, readers=3, writers=3)
    found = shrink(plan, fails_if(needed), runs_max=runs_max)
    assert found is not None
    return found


def test_only_the_actions_that_matter_are_left() -> None:
    found = shrunk(lambda plan: {"kill_bookie", "sync_error"} <= set(kinds(plan)))
    assert kinds(found.plan) == ["kill_bookie", "sync_error"]
    assert found.complete and found.plan.faults == ()
    assert (found.plan.bookies, found.plan.readers, found.plan.writers) == (1, 1, 1)
    assert found.plan.chaos_s < 5.0
    assert found.plan.actions is not None and found.plan.actions[1].at_s == 4.123


def test_what_fails_without_any_fault_keeps_none() -> None:
    assert shrunk(lambda plan: plan.other_log).plan.actions == ()


def test_features_that_matter_are_kept() -> None:
    plan = shrunk(lambda plan: plan.other_log and plan.bookies >= 4).plan
    assert plan.other_log and not plan.shrinks and plan.bookies == 4


def test_a_time_that_matters_is_not_rounded_away() -> None:
    found = shrunk(lambda plan: any(action.at_s == 4.123456 for action in plan.actions or ()))
    assert found.plan.actions is not None
    assert [action.at_s for action in found.plan.actions] == [4.123456]


def test_it_ends_when_no_more_runs_are_allowed() -> None:
    found = shrunk(lambda plan: "cut" in kinds(plan), runs_max=5)
    assert found.runs == 5 and not found.complete
    assert "more may be removable" in summary_of(found)


def test_a_plan_that_does_not_fail_cannot_be_shrunk() -> None:
    assert shrink(Plan(seed=7), fails_if(lambda _: False)) is None


def test_another_kind_of_failure_does_not_count() -> None:
    def run(plan: Plan) -> Report:
        finding = LOST if plan.actions is None else "c2_order: upside down"
        return Report(plan, [finding], actions=ACTIONS)

    found = shrink(Plan(seed=7), run, runs_max=50)
    assert found is not None and found.report.findings == [LOST]


@pytest.mark.parametrize("seed", range(20))
def test_of_what_is_left_nothing_can_be_left_out(seed: int) -> None:
    chance = Random(seed)
    needed = set(chance.sample(range(40), chance.randint(0, 6)))

    def fails(kept: list[int]) -> bool:
        return needed <= set(kept)

    assert leave_out(list(range(40)), fails) == sorted(needed)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (LOST, "c1_acknowledged_is_read: 9:1:0 of writer-1 is gone", True),
        (LOST, "c2_order: upside down", False),
        (
            "StuckError: c17_progress: not finished within 400.0 s: bookies stop; waiting tasks:\n  bookie-0",
            "StuckError: c17_progress: not finished within 400.0 s: bookies stop; waiting tasks:\n  bookie-2",
            True,
        ),
        (
            "StuckError: c17_progress: not finished within 400.0 s: bookies stop; waiting tasks:",
            "StuckError: c17_progress: not finished within 400.0 s: writers end; waiting tasks:",
            False,
        ),
        (
            "UncaughtProblemsError: exceptions that were not caught:\nbookie-0#2: exception in callback A: B('x')",
            "UncaughtProblemsError: exceptions that were not caught:\nbookie-1: exception in callback A: B('x')",
            True,
        ),
    ],
)
def test_findings_are_of_a_kind_for_any_client(one: str, other: str, same: bool) -> None:
    assert (kinds_of([one]) == kinds_of([other])) is same


def test_a_kept_file_holds_the_whole_plan() -> None:
    plan = Plan(
        seed=7, profile="beyond", faults=("cut",), bookies=5, fast=True, password="s", actions=ACTIONS
    )
    kept = read_saved_run(saved_run_text(plan, 'A story of "quotes" and \\backslashes.'))
    assert kept.plan == plan
    assert kept.description.strip() == 'A story of "quotes" and \\backslashes.'


def test_a_report_lists_what_went_wrong_in_order() -> None:
    found = shrunk(lambda plan: {"cut", "sync_error"} <= set(kinds(plan)))
    cut, error = report_of(found).splitlines()[1:3]
    assert cut == "    1.000 s  the link of writer-0 and bookie-1 is cut for 0.2 s"
    assert error == "    4.123 s  bookie-2: sync error on journal, the 3rd operation from now"
    assert "Found: " + LOST in report_of(found)
    assert summary_of(found).startswith("reduced 6 faults to 2 in ")
