"""Faults that belong together: each scene comes when a plan names it, and can be given again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import BEYOND_SCENES, SCENES, TIMELY
from dlog.testing.swarm.run import Report, run_plan

SHORT: dict[str, Any] = {"chaos_s": 5.0, "fault_every_s": 1.5, "bookies": 4, "writers": 2, "patience": 0.3}
OF_ITS_OWN = {
    "filled_disk": "disk_full",
    "dying_writer": "kill_client",
    "overdue_bookie": "pause_bookie",
    "unheard_change": "metadata_partition",
    "two_recoveries": "restart_bookie",
    "unfenced_bookie": "refuse",
    "sleeping_writer": "pause_client",
    "rotten_ambush": "bit_rot",
    "wiped_ambush": "wiped_disk",
    "emptied_ambush": "emptied_disk",
    "rotten_fence": "rotten_stretch",
}
"""An action that each brings."""


def played(scene: str) -> Report:
    """The first of some seeds in which the scene comes."""
    profile = "beyond" if scene in BEYOND_SCENES else "chaos"
    faults = (scene, TIMELY, "overdue_bookie") if scene == "unheard_change" else (scene, TIMELY)
    for seed in range(1, 11):
        report = run_plan(make_plan(seed, profile, {**SHORT, "faults": faults}))
        assert report.findings == []
        if any(action.kind == OF_ITS_OWN[scene] for action in report.actions):
            return report
    raise AssertionError(f"{scene} never comes")


@pytest.mark.parametrize("scene", (*SCENES, *BEYOND_SCENES))
def test_it_comes_breaks_nothing_and_can_be_given_again(scene: str) -> None:
    report = played(scene)
    assert run_plan(replace(report.plan, actions=report.actions)).digest == report.digest


def test_half_of_the_seeds_beyond_the_guarantees_have_a_scene_of_their_own() -> None:
    drawn = [set(make_plan(seed, "beyond", {}).faults) & set(BEYOND_SCENES) for seed in range(100)]
    assert set.union(*drawn) == set(BEYOND_SCENES)
    assert 35 < sum(len(scenes) == 1 for scenes in drawn) < 65
    assert not set(make_plan(1, "scenes", {}).faults) & set(BEYOND_SCENES)
