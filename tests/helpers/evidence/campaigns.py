"""Results that other tools write into files of their own: nemesis.json, fuzz.json and mutants.json."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from tests.helpers.evidence.measurement import FOLDER, Measurement
from tests.helpers.evidence.sources import fingerprint
from tests.helpers.fuzz.executions import PATH as FUZZ_PATH
from tests.helpers.fuzz.executions import Executions
from tests.helpers.nemesis.result import load_results

MUTANTS_PATH = FOLDER / "mutants.json"


def campaigns() -> dict[str, tuple[Measurement, ...]]:
    """By the name of the section; tables of one section may be of different commits."""
    found = {"nemesis": tuple(_nemesis()), "fuzz": tuple(_fuzz()), "mutants": tuple(_mutants())}
    return {name: measurements for name, measurements in found.items() if measurements}


def _nemesis() -> Iterator[Measurement]:
    for each in load_results():
        row = {
            "minutes": round(each.seconds / 60, 1),
            "seeds": each.seeds,
            "appends": each.appends,
            "acknowledged": each.acked,
            "lost": each.lost,
            "takeovers": each.takeovers,
            "whole reads": each.whole_reads,
            "resolutions": each.resolutions,
            "faults": sum(each.faults.values()),
            "seeds that failed": ", ".join(map(str, each.failed_seeds)) or 0,
        }
        code = _code_of("nemesis", each.commit)
        yield Measurement(code, each.commit, each.day, "", {each.metadata: row})


def _fuzz() -> Iterator[Measurement]:
    """One table for each commit that was run last."""
    saved, current = Executions.saved(FUZZ_PATH), Executions.load(FUZZ_PATH)
    commits: dict[tuple[str, str, bool], dict[str, dict[str, int]]] = {}
    for target, count in saved.targets.items():
        row = {"executions": count.executions, "open findings": count.findings}
        commits.setdefault((count.commit, count.day, target in current.targets), {})[target] = row
    for (head, when, is_current), rows in commits.items():
        yield Measurement(fingerprint("fuzz") if is_current else "", head, when, "", rows)


def _mutants() -> Iterator[Measurement]:
    if MUTANTS_PATH.exists():
        yield Measurement.load(MUTANTS_PATH)


def _code_of(result: str, commit: str) -> str:
    """Empty, which no code has, if git does not have what was run."""
    if " " in commit:
        return ""
    try:
        return fingerprint(result, commit)
    except (subprocess.CalledProcessError, LookupError):
        return ""
