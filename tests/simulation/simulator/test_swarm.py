"""The swarm sees what it is there to see, and its runner tells how to see it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bookie_server.storage.garbage_collector import GarbageCollector
from bookie_server.storage.maintenance import StorageMaintenance
from dlog.testing import runner
from dlog.testing.disk.file import SimulatedFile
from dlog.testing.failures.saved_run import read_saved_run
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.runner import main
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.drawing import make_plan, plan_of
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.run import Report, run_plan

POWER = {"faults": ("power_cut", "kill_many"), "fault_every_s": 0.5, "chaos_s": 6.0, "bookies": 3}
THREE = {"ensemble": 3, "write": 3, "ack": 2, "shrinks": False, "other_log": False, "append_every_s": 0.05}


def first_failure(seeds: range, **overrides: object) -> Report | None:
    reports = (run_plan(make_plan(seed, "chaos", overrides)) for seed in seeds)
    return next((report for report in reports if report.findings), None)


def test_a_journal_that_is_not_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SimulatedFile.sync
    monkeypatch.setattr(
        SimulatedFile, "sync", lambda self: None if self.path.suffix == ".journal" else honest(self)
    )
    assert first_failure(range(1, 20), **POWER, **THREE) is not None


def test_the_same_plans_find_nothing_on_an_honest_disk() -> None:
    assert first_failure(range(1, 4), **POWER, **THREE) is None


def test_garbage_that_bookies_keep_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: GarbageCollector) -> list[int]:
        return []

    plan = make_plan(1, "calm", {"garbage": True, "shrinks": True, "chaos_s": 8.0, "progress_s": 40.0})
    assert run_plan(plan).findings == []
    monkeypatch.setattr(GarbageCollector, "_ripe", nothing)
    assert any("c17_progress" in found for found in run_plan(plan).findings)


def test_files_that_no_start_removes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Path(__file__).parents[1] / "kept" / "dead-log-in-a-failed-directory.toml"
    plan = read_saved_run(kept.read_text("utf-8")).plan
    assert run_plan(plan).findings == []
    monkeypatch.setattr(StorageMaintenance, "_dead_logs", lambda _: [])
    assert any("c17_no_file_is_left_over: entry log" in found for found in run_plan(plan).findings)


def test_a_plan_depends_on_its_seed_only_and_overrides_replace_single_fields() -> None:
    plan = plan_of(7, Seeds(7).stream("plan"))
    assert plan == plan_of(7, Seeds(7).stream("plan"))
    changed = make_plan(7, "chaos", {"writers": 9})
    assert (changed.writers, changed.faults, changed.chaos_s) == (9, plan.faults, plan.chaos_s)


def test_a_failing_seed_prints_what_was_found_and_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(plan: Plan, **_: object) -> Report:
        return Report(plan, ["c1: lost"], simulated_s=1.0, timeline="0.1 who what")

    monkeypatch.setattr(runner, "run_plan", failing)
    assert main(["--seed", "5", "--set", "writers=1", "--timeline"]) == 1
    told = capsys.readouterr().out
    assert "seed 5 FAILED" in told and "c1: lost" in told and "0.1 who what" in told
    assert "python -m dlog.testing --seed 5 --set writers=1 --timeline" in told


def test_a_run_with_a_timeline_is_the_same_run() -> None:
    plan = make_plan(2, "chaos", {"chaos_s": 4.0})
    verbose = run_plan(plan, timeline=20_000)
    assert verbose.digest == run_plan(plan).digest
    assert "append acked" in verbose.timeline and "durable" in verbose.timeline and "ADD" in verbose.timeline


def test_the_actions_that_a_run_has_drawn_are_the_same_run() -> None:
    for seed in (3, 4):
        drawn = run_plan(make_plan(seed, "chaos", {"chaos_s": 8.0}))
        given = run_plan(replace(drawn.plan, actions=drawn.actions))
        assert len(drawn.actions) > 2
        assert (given.digest, given.actions) == (drawn.digest, drawn.actions)


def test_a_run_without_one_of_its_actions_has_the_others() -> None:
    drawn = run_plan(make_plan(4, "chaos", {"chaos_s": 8.0}))
    fewer = drawn.actions[1:]
    assert run_plan(replace(drawn.plan, actions=fewer)).actions == fewer


def test_a_failing_seed_is_shrunk_and_kept_and_the_file_fails_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three faults one matters."""
    drawn = tuple(Action(at_s=float(at), kind=kind) for at, kind in enumerate(("cut", "reset", "clog")))

    def run(plan: Plan, **_: object) -> Report:
        actions = drawn if plan.actions is None else plan.actions
        lost = any(action.kind == "reset" for action in actions)
        return Report(
            plan, ["c1: lost"] if lost else [], simulated_s=1.0, timeline="0.1 who", actions=actions
        )

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "run_plan", run)
    assert main(["--seed", "5", "--shrink"]) == 1
    told = capsys.readouterr().out
    assert "reduced 3 faults to 1 in" in told and "0.1 who" in told
    assert "python -m dlog.testing --kept shrunken-5.toml --timeline" in told
    plan = read_saved_run(Path("shrunken-5.toml").read_text("utf-8")).plan
    assert plan.actions == (drawn[1],)
    assert main(["--kept", "shrunken-5.toml"]) == 1


def test_a_seed_without_findings_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--profile", "calm", "--set", "chaos_s=2"]) == 0
    assert "acknowledged" in capsys.readouterr().out
