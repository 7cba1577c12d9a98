"""Runs what is missing, and writes docs/reliability.md.

    make evidence SEEDS=20000
    python -m tests.helpers.evidence --seeds 1..5000 -j 2

Seeds that are in results.json are not run again, unless they failed. Every tenth seed is also run beyond the
contract. Ctrl-C keeps what there is; the same command goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import tomllib
from contextlib import closing
from itertools import takewhile
from pathlib import Path

from tests.helpers.crash.images import boot_all
from tests.helpers.evidence.machine import ROOT, commit, day, machine
from tests.helpers.evidence.page import PlantedBug, page
from tests.helpers.evidence.results import PATH, STEPS, Images, Results, Run
from tests.helpers.evidence.running import Job, run_all
from tests.helpers.mutations.table import Search, Table

_SAVED_EVERY_S = 10.0
_PROGRESS_EVERY = 100
PAGE = ROOT / "docs" / "reliability.md"
KEPT = (ROOT / "tests" / "simulation" / "kept", ROOT / "tests" / "crash" / "kept")


def main(arguments: list[str] | None = None) -> int:
    """0: nothing fails. 1: a seed does."""
    given = _parser().parse_args(arguments)
    results = Results() if given.anew else Results.load(given.results)
    try:
        _run_seeds(results, given)
        if given.images:
            results.images = _boot_images()
    except KeyboardInterrupt:
        print("interrupted: what there is is kept", file=sys.stderr)
        return 130
    finally:
        results.save(given.results)
        given.page.write_text(page(results, planted_bugs(), kept_descriptions(), checks()), "utf-8")
    for profile, seed, found in results.failed():
        print(f"seed {seed} ({profile}) fails: {found[0]}")
    print(f"written: {given.page}")
    return 1 if results.failed() else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.evidence", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seeds", type=_seeds, default=range(0), help="N for 1..N, or A..B")
    parser.add_argument("-j", "--processes", type=int, default=2)
    parser.add_argument("--images", action="store_true", help="boot all crash images")
    parser.add_argument("--anew", action="store_true", help="forget what results.json holds")
    parser.add_argument("--results", type=Path, default=PATH)
    parser.add_argument("--page", type=Path, default=PAGE)
    return parser


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else range(1, int(text) + 1)


# ---- seeds


def jobs_of(seeds: range, results: Results) -> list[Job]:
    """What is missing, each beyond run after the seed's own."""
    passed = {profile: results.passed(profile) for profile in STEPS}
    wanted = [(profile, seed) for seed in seeds for profile, step in STEPS.items() if seed % step == 0]
    return [(profile, seed) for profile, seed in wanted if seed not in passed[profile]]


def _run_seeds(results: Results, given: argparse.Namespace) -> None:
    jobs = jobs_of(given.seeds, results)
    if not jobs:
        return
    head, where, began = commit(), machine(), time.monotonic()
    saved, done = began, 0
    with closing(run_all(jobs, given.processes)) as runs:
        for run in runs:
            results.part(head, run.profile, where, day()).add(run, day())
            done += 1
            if run.findings:
                _print_findings(run)
            if time.monotonic() - saved > _SAVED_EVERY_S:
                results.save(given.results)
                saved = time.monotonic()
            if done % _PROGRESS_EVERY == 0 or done == len(jobs):
                left_s = (time.monotonic() - began) / done * (len(jobs) - done)
                print(f"{done} of {len(jobs)} runs, {left_s / 60:.0f} minutes left", flush=True)


def _print_findings(run: Run) -> None:
    print(f"seed {run.seed} ({run.profile}) FAILED", *run.findings, sep="\n  ", flush=True)


# ---- the rest


def _boot_images() -> Images:
    booted = asyncio.run(boot_all())
    print(f"{booted.images.total()} distinct crash images booted", flush=True)
    scenarios = sorted(booted.boots)
    return Images(
        commit(),
        day(),
        {scenario: booted.boots[scenario] for scenario in scenarios},
        {scenario: booted.images[scenario] for scenario in scenarios},
    )


def planted_bugs() -> list[PlantedBug]:
    """As the table of planted bugs has them."""
    return [
        PlantedBug(
            name,
            row.rule,
            row.check,
            row.focused.seeds,
            focused=bool(row.focus) or row.circumstances,
            whole_swarm=_seeds_needed(row.whole_swarm),
        )
        for name, row in Table.load().rows.items()
    ]


def _seeds_needed(search: Search | None) -> str:
    if search is None:
        return "not tried"
    return str(search.seeds) if search.seed is not None else f"not in {search.seeds}"


def checks() -> str:
    """The table of all checks, where they are explained."""
    lines = (ROOT / "docs" / "simulation.md").read_text("utf-8").splitlines()
    first = lines.index("| check | says |")
    return "\n".join(takewhile(bool, lines[first:])) + "\n"


def kept_descriptions() -> dict[str, str]:
    """Of seeds that failed, and of crash images that did not boot."""
    paths = [path for directory in KEPT for path in sorted(directory.glob("*.toml"))]
    return {path.stem: tomllib.loads(path.read_text("utf-8"))["description"] for path in paths}


if __name__ == "__main__":
    raise SystemExit(main())
