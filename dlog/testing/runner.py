"""Runs seeds, and tells of those that fail how to see it again.

python -m dlog.testing --seeds 0..999 -j 2
python -m dlog.testing --seed 17 --timeline 200
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from dlog.testing.plan import PROFILES, Plan, plan_of
from dlog.testing.seeds import Seeds
from dlog.testing.swarm import Report, run_plan

_TOLD_EVERY = 50
"""Seeds between two signs of life."""


def main(arguments: list[str] | None = None) -> int:
    """0: nothing was found. 1: something was."""
    given = _parser().parse_args(arguments)
    seeds = range(given.seed, given.seed + 1) if given.seed is not None else given.seeds
    began = time.perf_counter()
    total, failed = _Total(), []
    for report in _run_all(seeds, given):
        total.add(report)
        if report.findings:
            failed.append(report.plan.seed)
            _tell_failure(report, given)
        elif given.seed is not None:
            _tell_run(report, given)
        if total.runs % _TOLD_EVERY == 0:
            print(f"{total.runs} of {len(seeds)} seeds, {len(failed)} failed", file=sys.stderr, flush=True)
    print(total.told(time.perf_counter() - began))
    if failed:
        print(f"{len(failed)} of {total.runs} seeds failed: {failed}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dlog.testing", description=(__doc__ or "").splitlines()[0]
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this seed")
    which.add_argument("--seeds", type=_seed_range, help="run these seeds, as A..B, both included")
    parser.add_argument("--profile", choices=PROFILES, default="chaos")
    parser.add_argument("-j", "--processes", type=int, default=1, help="run so many seeds at a time")
    parser.add_argument("--timeline", type=int, nargs="?", const=500, default=0, metavar="LINES")
    parser.add_argument("--details", action="store_true", help="deliveries and log lines in the timeline")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="override a field of the plan"
    )
    return parser


def _seed_range(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def _run_all(seeds: Iterable[int], given: argparse.Namespace) -> Iterator[Report]:
    run = partial(_run, given=given)
    if given.processes == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        yield from pool.imap_unordered(run, seeds)


def _run(seed: int, given: argparse.Namespace) -> Report:
    plan = make_plan(seed, given.profile, _overrides(given.set))
    return run_plan(plan, detailed=given.details, timeline=given.timeline)


def make_plan(seed: int, profile: str, overrides: dict[str, Any]) -> Plan:
    """The seed's own plan with some fields replaced."""
    return replace(plan_of(seed, Seeds(seed).stream("plan"), profile), **overrides)


def _overrides(given: list[str]) -> dict[str, Any]:
    defaults = {each.name: each.default for each in fields(Plan)}
    found: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in defaults:
            raise SystemExit(f"a plan has no field {name!r}, it has {', '.join(defaults)}")
        default = defaults[name]
        if isinstance(default, bool):
            found[name] = value.lower() in ("1", "true", "yes", "on")
        elif isinstance(default, tuple):
            found[name] = tuple(each for each in value.split(",") if each)
        else:
            found[name] = type(default)(value) if isinstance(default, int | float | str) else int(value)
    return found


def _tell_failure(report: Report, given: argparse.Namespace) -> None:
    print(f"seed {report.plan.seed} FAILED")
    print("  " + replay_command(report.plan.seed, given.profile, given.set))
    for finding in report.findings:
        print("  " + finding.replace("\n", "\n  "))
    if report.timeline:
        print(report.timeline)
    sys.stdout.flush()


def replay_command(seed: int, profile: str = "chaos", settings: Sequence[str] = ()) -> str:
    """What shows the run again, with its timeline."""
    words = ["python", "-m", "dlog.testing", "--seed", str(seed), "--timeline"]
    if profile != "chaos":
        words += ["--profile", profile]
    return " ".join([*words, *(f"--set {each}" for each in settings)])


def _tell_run(report: Report, given: argparse.Namespace) -> None:
    if report.timeline:
        print(report.timeline)
    print(report.plan)
    print(
        f"seed {report.plan.seed}: {report.acked} of {report.appends} appends acknowledged, {report.takeovers} "
        f"takeovers, {report.reads} messages read in {report.simulated_s:.1f} simulated s, "
        f"{report.steps} steps, digest {report.digest[:16]}"
    )


class _Total:
    """What all runs together did."""

    def __init__(self) -> None:
        self.runs = 0
        self._simulated_s = 0.0
        self._acked = 0
        self._faults: Counter[str] = Counter()

    def add(self, report: Report) -> None:
        self.runs += 1
        self._simulated_s += report.simulated_s
        self._acked += report.acked
        self._faults.update(report.faults)

    def told(self, real_s: float) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self._faults.items()))
        return (
            f"{self.runs} seeds, {self._simulated_s:.0f} simulated s in {real_s:.1f} s "
            f"({self._simulated_s / real_s:.0f} for one), {self._acked} messages acknowledged\n"
            f"faults: {faults or 'none'}"
        )
