"""Runs what is missing, and writes docs/reliability.md.

    make evidence SEEDS=20000
    python -m tests.helpers.evidence --seeds 1..5000 --seconds 200 -j 2
    python -m tests.helpers.evidence

The last one only writes the page. Results of other code than the current one are dropped when the same is run again;
what was run on this code is not repeated. Ctrl-C keeps what there is; the same command goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from contextlib import closing
from itertools import takewhile
from pathlib import Path

from tests.helpers.evidence.campaigns import campaigns
from tests.helpers.evidence.machine import ROOT, commit, day, machine
from tests.helpers.evidence.measurement import Measurement
from tests.helpers.evidence.page import SECTIONS, Page, PlantedBug
from tests.helpers.evidence.results import PATH, Results, Run
from tests.helpers.evidence.rotation import Job, jobs_of
from tests.helpers.evidence.running import run_all
from tests.helpers.evidence.sources import fingerprint
from tests.helpers.evidence.state import state_of
from tests.helpers.evidence.tables import FAILED, TABLES
from tests.helpers.mutations.table import Table
from tests.helpers.mutations.whole_swarm import WholeSwarm
from tests.simulation.mutations.missed import WHY_MISSED

_SAVED_EVERY_S = 10.0
_PROGRESS_EVERY = 100
PAGE = ROOT / "docs" / "reliability.md"
KEPT = tuple(ROOT / "tests" / area / "kept" for area in ("simulation", "crash", "fuzz"))


def main(arguments: list[str] | None = None) -> int:
    """0: nothing fails. 1: a seed or a story does."""
    given = _parser().parse_args(arguments)
    results = Results() if given.anew else Results.load(given.results)
    try:
        if given.tables:
            _run_tables(results, given)
        _run_seeds(results, given)
    except KeyboardInterrupt:
        print("interrupted: what there is is kept", file=sys.stderr)
        return 130
    finally:
        results.save(given.results)
        given.page.write_text(page_of(results).text(), "utf-8")
    for profile, seed, found in results.failed():
        print(f"seed {seed} ({profile}) fails: {found[0]}")
    print(f"written: {given.page}")
    return 1 if results.failed() or _tables_failed(results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.evidence", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seeds", type=_seeds, default=range(0), help="N for 1..N, or A..B")
    parser.add_argument("-j", "--processes", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop after this real time, to go on later"
    )
    parser.add_argument("--tables", action="store_true", help="crash points and crash images, too")
    parser.add_argument("--anew", action="store_true", help="forget what results.json holds")
    parser.add_argument("--results", type=Path, default=PATH)
    parser.add_argument("--page", type=Path, default=PAGE)
    return parser


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else range(1, int(text) + 1)


# ---- running


def missing(seeds: range, results: Results) -> list[Job]:
    """Runs of these seeds that are not in the results."""
    done = {profile: results.done(profile) for profile in {profile for profile, _ in jobs_of(seeds)}}
    return [(profile, seed) for profile, seed in jobs_of(seeds) if seed not in done[profile]]


def _run_seeds(results: Results, given: argparse.Namespace) -> None:
    if not given.seeds:
        return
    code = fingerprint("seeds")
    results.drop_other_code(code)
    jobs = missing(given.seeds, results)
    if not jobs:
        return
    head, where, began = commit(), machine(), time.monotonic()
    saved, done = began, 0
    with closing(run_all(jobs, given.processes)) as runs:
        for run in runs:
            results.part(code, head, run.profile, where, day()).add(run, day())
            done += 1
            if run.findings:
                _print_findings(run)
            now = time.monotonic()
            if now - saved > _SAVED_EVERY_S:
                results.save(given.results)
                saved = now
            if done % _PROGRESS_EVERY == 0 or done == len(jobs):
                left_s = (now - began) / done * (len(jobs) - done)
                print(f"{done} of {len(jobs)} runs, {left_s / 60:.0f} minutes left", flush=True)
            if now - began > given.seconds:
                break


def _print_findings(run: Run) -> None:
    print(f"seed {run.seed} ({run.profile}) FAILED", *run.findings, sep="\n  ", flush=True)


def _run_tables(results: Results, given: argparse.Namespace) -> None:
    """Those of which the results have nothing of this code."""
    for name, count in TABLES.items():
        before = results.measured.get(name)
        if before is None or before.fingerprint != fingerprint(name):
            print(f"{SECTIONS[name][0]}: run", flush=True)
            results.measured[name] = Measurement.now(name, count(given.processes))
            results.save(given.results)


def _tables_failed(results: Results) -> bool:
    return any(row.get(FAILED) for each in results.measured.values() for row in each.rows.values())


# ---- the page


def page_of(results: Results) -> Page:
    """With everything else that stands in files."""
    measured = {name: (each,) for name, each in results.measured.items()} | campaigns()
    states = {
        name: " ".join(dict.fromkeys(state_of(name, each.fingerprint, each.commit) for each in tables))
        for name, tables in measured.items()
    }
    if results.parts:
        latest = results.parts[-1]
        states["seeds"] = state_of("seeds", latest.fingerprint, latest.commit)
    if (swarm := WholeSwarm.load()) is not None:
        states["whole swarm"] = state_of("seeds", swarm.fingerprint, swarm.commit)
    return Page(
        commit=commit(),
        day=day(),
        results=results,
        states=states,
        measured=measured,
        bugs=planted_bugs(swarm),
        stories=kept_stories(),
        checks=checks(),
    )


def planted_bugs(swarm: WholeSwarm | None) -> tuple[PlantedBug, ...]:
    """As the table of planted bugs has them, and with what the whole swarm needed."""
    progress = {} if swarm is None else swarm.bugs
    return tuple(
        PlantedBug(
            name,
            row.rule,
            row.check,
            row.focused.seeds,
            focused=bool(row.focus) or row.circumstances,
            runs=progress[name].runs if name in progress else None,
            found=name in progress and progress[name].found is not None,
            at_most=name in progress and progress[name].at_most,
            why_missed=WHY_MISSED.get(name, ""),
        )
        for name, row in Table.load().rows.items()
    )


def checks() -> str:
    """The table of all checks, where they are explained."""
    lines = (ROOT / "docs" / "simulation.md").read_text("utf-8").splitlines()
    first = lines.index("| check | says |")
    return "\n".join(takewhile(bool, lines[first:])) + "\n"


def kept_stories() -> dict[str, str]:
    """Of seeds that failed, crash images that did not boot, and input that was not survived."""
    paths = [path for directory in KEPT for path in sorted(directory.glob("*.toml"))]
    return {path.stem: tomllib.loads(path.read_text("utf-8"))["description"] for path in paths}


if __name__ == "__main__":
    raise SystemExit(main())
