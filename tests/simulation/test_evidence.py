"""Evidence can be interrupted and goes on, does not hide what failed, and says where it comes from."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.helpers.evidence import __main__ as evidence
from tests.helpers.evidence.fault_kinds import FAULTS
from tests.helpers.evidence.page import PlantedBug, page
from tests.helpers.evidence.results import COUNTED, Images, Results, Run, ranges
from tests.helpers.evidence.running import Job, run_one


def run_of(seed: int, *findings: str, profile: str = "chaos") -> Run:
    return Run(profile, seed, dict.fromkeys(COUNTED, 2.0), {"reset": 3}, findings)


class Seeds:
    """Stands for the real runs: which were asked for, which fail, and after how many somebody presses Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.asked: list[Job] = []
        self.failing: set[int] = set()
        self.stop_after = 10**6
        self.results, self.page = tmp_path / "results.json", tmp_path / "page.md"
        monkeypatch.setattr(evidence, "run_all", self._run_all)

    def _run_all(self, jobs: Sequence[Job], _processes: int) -> Generator[Run, None, None]:
        for number, (profile, seed) in enumerate(jobs):
            if number == self.stop_after:
                raise KeyboardInterrupt
            self.asked.append((profile, seed))
            found = ("c1_no_acknowledged_message_is_lost: one",) if seed in self.failing else ()
            yield run_of(seed, *found, profile=profile)

    def run(self, seeds: str) -> int:
        self.asked.clear()
        return evidence.main(["--seeds", seeds, "--results", str(self.results), "--page", str(self.page)])


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Seeds:
    return Seeds(monkeypatch, tmp_path)


def test_an_interrupted_run_keeps_what_it_has_and_goes_on(seeds: Seeds) -> None:
    seeds.stop_after = 7
    assert seeds.run("20") == 130
    assert "| seeds | 7 | 0 |" in seeds.page.read_text()
    seeds.stop_after = 10**6
    assert seeds.run("20") == 0
    assert seeds.asked[0] == ("chaos", 8)
    assert "| beyond | every 10th of 10..20 | 2 |" in seeds.page.read_text()
    assert [job for job in seeds.asked if job[0] == "beyond"] == [("beyond", 10), ("beyond", 20)]
    assert "| seeds | 20 | 2 |" in seeds.page.read_text()
    assert seeds.run("1..20") == 0
    assert not seeds.asked


def test_a_seed_that_fails_makes_the_command_fail_until_it_passes(seeds: Seeds) -> None:
    seeds.failing = {3}
    assert seeds.run("5") == 1
    text = seeds.page.read_text()
    assert "| acknowledged messages lost | 1 |" in text
    assert "Seed 3 (chaos) FAILS: c1_" in text
    seeds.failing = set()
    assert seeds.run("5") == 0
    assert seeds.asked == [("chaos", 3)]
    assert "FAILS" not in seeds.page.read_text()


def test_parts_of_two_commits_stand_side_by_side() -> None:
    results = Results()
    for commit, first in (("aaa", 1), ("bbb", 11)):
        for seed in range(first, first + 10):
            results.part(commit, "chaos", "m", "2026-01-01").add(run_of(seed), "2026-01-02")
    bug = PlantedBug("no-fence", "fences are durable", "c15", 7, focused=True, whole_swarm="9")
    text = page(results, [bug], {"0007": "It\nfell."}, evidence.checks())
    assert "| `aaa` | chaos | 1..10 | 10 |" in text
    assert "| `bbb` | chaos | 11..20 | 10 |" in text
    assert "| appends | 40 | 0 |" in text
    assert "| `reset` | a connection was reset, with a part of what was on its way lost | 60 |" in text
    assert "| `no-fence` | fences are durable | 7 | narrowed | 9 | `c15` |" in text
    assert "- `0007`: It fell." in text
    assert "| C12 | " in text


def test_results_survive_their_file(tmp_path: Path) -> None:
    results = Results()
    results.part("aaa", "beyond", "m", "2026-01-01").add(
        run_of(4, "c18: wrong", profile="beyond"), "2026-01-01"
    )
    results.images = Images("aaa", "2026-01-01", {"fences": 3}, {"fences": 2})
    results.save(tmp_path / "r.json")
    assert Results.load(tmp_path / "r.json") == results


def test_ranges_are_unbroken() -> None:
    assert ranges([5, 1, 2, 3, 9, 5]) == [(1, 3), (5, 5), (9, 9)]
    assert ranges([10, 20, 40], step=10) == [(10, 20), (40, 40)]


def test_a_real_run_brings_the_numbers() -> None:
    run = run_one(("calm", 1))
    assert not run.findings
    assert run.counts["acked"] > 0 and run.counts["simulated_s"] > 0
    assert run.faults["delay"] > 0


def test_every_fault_that_chaos_knows_is_on_the_page() -> None:
    from dlog.testing.swarm.plan import BEYOND, WITHIN

    named = {kind for kinds in FAULTS.values() for kind in kinds}
    other_names = {
        "kill_bookie": "kill",
        "kill_client": "kill",
        "kill_many": "kill",
        "pause_bookie": "pause",
        "pause_client": "pause",
        "ambush": "pause",
        "power_cut_at_effect": "crash_at_effect",
        "timely": "kill",
        "no_descriptors": "no_descriptor",
        "minor_rot": "bit_rot",
        "join_bookie": "join",
        "leave_bookie": "leave",
    }
    assert {other_names.get(kind, kind) for kind in (*WITHIN, *BEYOND)} <= named
