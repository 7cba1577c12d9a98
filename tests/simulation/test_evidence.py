"""Evidence can be interrupted and goes on, does not hide what failed, and says where it comes from."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.evidence import __main__ as evidence
from tests.helpers.evidence import campaigns, tables
from tests.helpers.evidence.fault_kinds import FAULTS, unnamed
from tests.helpers.evidence.machine import commit as current_commit
from tests.helpers.evidence.measurement import Measurement
from tests.helpers.evidence.page import SECTIONS, Page, PlantedBug
from tests.helpers.evidence.results import COUNTED, EarlierCode, OldFailure, Results, Run, ranges
from tests.helpers.evidence.rotation import Job
from tests.helpers.evidence.running import run_one
from tests.helpers.evidence.sources import PACKAGES, ROOTS, files_of, fingerprint, fingerprint_of, tree_of
from tests.helpers.evidence.state import CURRENT, STALE
from tests.helpers.fuzz.executions import Executions
from tests.helpers.mutants import __main__ as mutants
from tests.helpers.mutations.whole_swarm import WholeSwarm
from tests.helpers.nemesis.result import NemesisResult, load_results, save_result
from tests.helpers.repository import ROOT


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


@pytest.mark.nightly
def test_an_interrupted_run_keeps_what_it_has_and_goes_on(seeds: Seeds) -> None:
    seeds.stop_after = 7
    assert seeds.run("20") == 130
    assert "| runs | 4 | 2 | 1 |" in seeds.page.read_text()
    seeds.stop_after = 10**6
    assert seeds.run("20") == 0
    assert seeds.asked[0] == ("narrow", 4)
    assert "| beyond | 10..20 in steps of 10 | 2 |" in seeds.page.read_text()
    assert [job for job in seeds.asked if job[0] == "beyond"] == [("beyond", 10), ("beyond", 20)]
    assert "| runs | 20 | 10 | 10 | 2 |" in seeds.page.read_text()
    assert seeds.run("1..20") == 0
    assert not seeds.asked


def test_a_seed_that_failed_counts_until_the_code_changes(
    seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds.failing = {3}
    assert seeds.run("3") == 1
    seeds.failing = set()
    assert seeds.run("5") == 1
    assert ("chaos", 3) not in seeds.asked
    text = seeds.page.read_text()
    assert "| runs that lost an acknowledged message | 1 | 0 | 0 |" in text
    assert "Seed 3 (chaos) FAILS: c1_" in text

    monkeypatch.setattr(evidence, "fingerprint", lambda _result: "the fix")
    assert seeds.run("5") == 0
    assert len(seeds.asked) == 9, "all seeds are run again on other code"
    text = seeds.page.read_text()
    assert "| runs that lost an acknowledged message | 0 | 0 | 0 |" in text
    assert "FAILS" not in text
    assert "- 3 (chaos), commit `" in text
    assert "Runs of earlier code" in text
    assert "| all |  | 9 | 0.0 | 18 | 1 |" in text


def page_with(results: Results, **fields: Any) -> str:
    states = {name: f"State of {name}." for name in ("seeds", "whole swarm", *SECTIONS)}
    return Page(commit="ccc", day="2026-01-03", results=results, states=states, **fields).text()


def test_parts_of_two_commits_stand_side_by_side() -> None:
    results = Results()
    for commit, first in (("aaa", 1), ("bbb", 11)):
        for seed in range(first, first + 10):
            results.part("f", commit, "chaos", "m", "2026-01-01").add(run_of(seed), "2026-01-02")
    bugs = (
        PlantedBug("no-fence", "fences are durable", "c15", 7, focused=True, runs=9, found=True),
        PlantedBug("no-sync", "syncs count", "c1", 8, focused=False, runs=2000, why_missed="It takes long."),
    )
    text = page_with(results, bugs=bugs, stories={"0007": "It\nfell."}, checks=evidence.checks())
    assert "Written 2026-01-03 for commit `ccc`." in text
    assert "| `aaa` | chaos | 1..10 | 10 |" in text
    assert "| `bbb` | chaos | 11..20 | 10 |" in text
    assert "| appends | 40 |" in text
    assert "| `reset` | a connection was reset, with a part of what was on its way lost | 60 |" in text
    assert "| `no-fence` | fences are durable | 7 | narrowed | 9 | `c15` |" in text
    assert (
        "finds 1 of 2, the median after 9 runs. State of whole swarm.\n"
        "Not found:\n\n- `no-sync`, in 2,000 runs: It takes long.\n" in text
    )
    assert "- `0007`: It fell." in text
    assert "| C12 | " in text


def test_a_table_has_its_commit_and_its_sums() -> None:
    rows = {"fences": {"boots": 3, "slowest": "a"}, "limits": {"boots": 4}}
    text = page_with(Results(), measured={"images": [Measurement("f", "aaa", "2026-01-01", "m", rows)]})
    assert "State of images. 2026-01-01, m.\n\n|  | boots | slowest |" in text
    assert "| limits | 4 |  |\n| all | 7 |  |" in text


def test_results_survive_their_file(tmp_path: Path) -> None:
    results = Results(
        old_failures=[OldFailure("chaos", 3, "aaa", "c1_x: lost")],
        earlier=[EarlierCode("aaa", "2026-01-01", runs=9, failed=1, simulated_s=1.5, acked=40)],
    )
    results.part("f", "aaa", "beyond", "m", "2026-01-01").add(
        run_of(10, "c18: wrong", profile="beyond"), "2026-01-01"
    )
    results.measured["images"] = Measurement("f", "aaa", "2026-01-01", "m", {"fences": {"boots": 3}})
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
        "outage": "metadata_partition",
        "no_descriptors": "no_descriptor",
        "minor_rot": "bit_rot",
        "join_bookie": "join",
        "leave_bookie": "leave",
    }
    assert {other_names.get(kind, kind) for kind in (*WITHIN, *BEYOND)} <= named


def test_every_fault_that_the_simulator_counts_is_on_the_page() -> None:
    counts = re.compile(r'(?:faults\.note\(|\.strikes\(|trace\.note\(\s*"fault\.(?=\w))\s*"?([a-z_]+)"')
    counted = {
        kind for path in (ROOT / "dlog/testing").rglob("*.py") for kind in counts.findall(path.read_text())
    }
    assert len(counted) > 30
    assert unnamed(dict.fromkeys(counted, 1)) == set()


def test_stories_are_counted_and_a_failed_one_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tables, "_STORY_BOOTS", 30)
    rows = tables.stories(1)
    boots = [row["boots"] for row in rows.values() if "boots" in row]
    assert sum(map(int, boots)) >= 30
    [failed] = [row[tables.FAILED] for row in rows.values() if tables.FAILED in row]
    assert failed == 0

    results = Results(
        measured={"stories": Measurement("f", "a", "d", "m", {"9 stories": {tables.FAILED: 1}})}
    )
    results.save(tmp_path / "results.json")
    arguments = ["--results", str(tmp_path / "results.json"), "--page", str(tmp_path / "page.md")]
    assert evidence.main(arguments) == 1


def test_campaigns_of_other_tools_are_on_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fuzzed, nemesis = Executions.load(tmp_path / "fuzz.json"), tmp_path / "nemesis.json"
    fuzzed.add("frames", 2_000_000, 0)
    fuzzed.save(tmp_path / "fuzz.json")
    counts = dict.fromkeys(
        ("seeds", "appends", "acked", "lost", "takeovers", "whole_reads", "resolutions"), 4
    )
    result = NemesisResult(
        commit="abc with changes",
        day="2026-01-01",
        metadata="sqlite",
        seconds=90,
        faults={"kill": 6},
        **counts,
    )
    save_result(result, nemesis)
    monkeypatch.setattr(mutants, "SUMMARY", tmp_path / "mutants.json")
    mutants.write_summary("ledger.core.lac", {"mutants": 8, "survivors explained": 1})
    monkeypatch.setattr(campaigns, "FUZZ_PATH", tmp_path / "fuzz.json")
    monkeypatch.setattr(campaigns, "MUTANTS_PATH", tmp_path / "mutants.json")
    monkeypatch.setattr(campaigns, "load_results", lambda: load_results(nemesis))
    page = evidence.page_of(Results())
    text = page.text()
    assert f"Commit `{current_commit()}`; {CURRENT}" in text
    assert "| frames | 2,000,000 | 0 |" in text
    assert f"Commit `abc with changes`; {STALE}" in text
    assert "|  | mutants | survivors explained |\n| --- | --- | --- |\n| ledger.core.lac | 8 | 1 |" in text
    assert "| sqlite | 1.5 | 4 | 4 | 4 | 4 | 4 | 4 | 4 | 6 | 0 |" in text


# ---- what a result exercises

LOADED = r"""
import sys
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import PROFILES
from dlog.testing.swarm.run import run_plan

for profile in PROFILES:
    assert not run_plan(make_plan(1, profile, {"chaos_s": 2.0})).findings
print(*(each.__file__ for each in list(sys.modules.values()) if getattr(each, "__file__", None)), sep="\n")
"""


def test_the_fingerprint_of_seeds_covers_every_module_that_seeds_load() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [Path(line) for line in done.stdout.splitlines()]
    loaded = {path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(ROOT)}
    ours = {path for path in loaded if path.startswith(PACKAGES) and not path.endswith("__init__.py")}
    assert "ledger/core/append.py" in ours
    assert ours <= files_of(ROOTS["seeds"], tree_of()).keys()


def test_a_fingerprint_depends_on_code_and_not_on_words() -> None:
    code = 'def f(x):\n    """Doubles."""\n    return "# 2" * x  # twice\n'
    reworded = 'def f(x):\n    """Double it.\n\n    Always."""\n\n    # two times\n    return "# 2" * x\n'
    changed = code.replace("2", "3")
    assert fingerprint_of({"f.py": code}) == fingerprint_of({"f.py": reworded})
    assert fingerprint_of({"f.py": code}) != fingerprint_of({"f.py": changed})
    assert fingerprint_of({"f.py": code}) != fingerprint_of({"g.py": code})


def test_imports_are_followed_and_type_checkers_are_not() -> None:
    texts = {
        "dlog/a.py": "from dlog import b\nif TYPE_CHECKING:\n    import dlog.d\n",
        "dlog/b.py": "import os\ntry:\n    from dlog.c import C\nexcept ImportError:\n    pass\n",
        "dlog/c.py": "C = 1\n\ndef f():\n    import dlog.d\n",
        "dlog/d.py": "",
    }
    assert list(files_of(["dlog.a"], texts)) == ["dlog/a.py", "dlog/b.py", "dlog/c.py"]


# ---- the page in docs


def test_the_page_is_true_of_the_commit_that_it_names() -> None:
    """Later commits may change the code: then the page is old, but it does not claim to be of them."""
    text = evidence.PAGE.read_text("utf-8")
    [written_for] = re.findall(r"^Written .* for commit `(\w+)", text, re.MULTILINE)
    try:
        tree_of(written_for)
    except subprocess.CalledProcessError:
        pytest.skip(f"git does not have commit {written_for}")
    page = evidence.page_of(Results.load())
    recorded = [
        (name, each.fingerprint, each.commit)
        for name in page.measured
        for each in page.measured[name]
        if name != "fuzz"  # of which each target has code of its own
    ]
    recorded += [("seeds", part.fingerprint, part.commit) for part in page.results.parts[-1:]]
    if (swarm := WholeSwarm.load()) is not None and swarm.bugs:
        recorded.append(("seeds", swarm.fingerprint, swarm.commit))
    for name, of_code, commit in recorded:
        try:
            its_code = fingerprint(name, written_for)
        except LookupError:
            continue  # where it begins is another module now
        state = f"Commit `{commit}`; {CURRENT if of_code == its_code else STALE}"
        assert state in text, f"{name}: run python -m tests.helpers.evidence, which writes the page"
