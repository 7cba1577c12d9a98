"""Runs seeds of the simulated cluster; for each that fails, prints what was found and how to run it again.

python -m dlog.testing --seeds 0..999 -j 2
python -m dlog.testing --seed 17 --timeline 200
python -m dlog.testing --seed 17 --shrink
python -m dlog.testing --kept shrunken-17.toml --timeline
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
from pathlib import Path
from typing import Any

from dlog.testing.failures.failure_report import report_of, summary_of
from dlog.testing.failures.saved_run import read_saved_run, saved_run_text
from dlog.testing.failures.shrinking import shrink
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import (
    BEYOND,
    BEYOND_SCENES,
    LATER_BEYOND,
    PROFILES,
    SCENES,
    UNREADABLE,
    WITHIN,
    Plan,
)
from dlog.testing.swarm.run import Report, run_plan

_PROGRESS_EVERY = 50
"""Seeds between two lines of progress."""
_FAULTS = {*WITHIN, UNREADABLE, *LATER_BEYOND, *BEYOND, *SCENES, *BEYOND_SCENES}


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 if every check passed, 1 if one failed; 2, by SystemExit, for wrong arguments."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:  # here: in a process of its own nothing would report it
        _overrides(given.set)
    except ValueError as error:
        parser.error(f"argument --set: {error}")
    if given.seeds is not None:
        if given.shrink:
            parser.error("--shrink needs one plan: use --seed or --kept")
        return _run_seeds(given)
    if given.kept is not None:
        try:
            plan, again = read_saved_run(given.kept.read_text("utf-8")).plan, ["--kept", str(given.kept)]
        except (OSError, ValueError, TypeError, KeyError) as error:
            parser.error(f"argument --kept: {given.kept} is not the file of a run: {error}")
    else:
        plan, again = _plan(given.seed, given), _which(given.seed, given.profile, given.set)
    if given.shrink:
        return _shrink(plan, given)
    report = run_plan(plan, detailed=given.details, timeline=given.timeline)
    if report.findings:
        _print_failure(report, again)
    else:
        _print_run(report)
    return 1 if report.findings else 0


def _run_seeds(given: argparse.Namespace) -> int:
    began = time.perf_counter()
    total, failed = _Total(), []
    for report in _run_all(given.seeds, given):
        total.add(report)
        if report.findings:
            failed.append(report.plan.seed)
            _print_failure(report, _which(report.plan.seed, given.profile, given.set))
        if total.runs % _PROGRESS_EVERY == 0:
            print(
                f"{total.runs} of {len(given.seeds)} seeds, {len(failed)} failed", file=sys.stderr, flush=True
            )
    print(total.summary(time.perf_counter() - began))
    if failed:
        print(f"{len(failed)} of {total.runs} seeds failed: {failed}")
    return 1 if failed else 0


def _shrink(plan: Plan, given: argparse.Namespace) -> int:
    """Print the shrunken plan with timeline and report; write it into a file for --kept."""
    progress = partial(print, file=sys.stderr, flush=True)
    shrunken = shrink(plan, run_plan, runs_max=given.runs, progress=progress)
    if shrunken is None:
        print(f"seed {plan.seed} passes all checks: nothing to shrink")
        return 0
    path = Path(f"shrunken-{plan.seed}.toml")
    path.write_text(saved_run_text(shrunken.plan, report_of(shrunken)), "utf-8")
    print(run_plan(shrunken.plan, detailed=given.details, timeline=given.timeline or 200).timeline)
    print(f"\n{report_of(shrunken)}\n\n{summary_of(shrunken)}")
    print(f"written to {path}; run it again with\n  {_command(['--kept', str(path)])}")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dlog.testing", description=(__doc__ or "").splitlines()[0]
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this seed")
    which.add_argument("--seeds", type=_seed_range, help="run the seeds A..B, both included")
    which.add_argument("--kept", type=Path, metavar="FILE", help="run the plan in FILE, as --shrink wrote it")
    parser.add_argument(
        "--shrink", action="store_true", help="remove every fault and feature that the failure does not need"
    )
    parser.add_argument("--runs", type=int, default=400, help="with --shrink: maximum number of runs")
    parser.add_argument("--profile", choices=PROFILES, default="chaos", help="kind of plan to draw")
    parser.add_argument(
        "-j", "--processes", type=_process_count, default=1, help="number of seeds to run in parallel"
    )
    parser.add_argument(
        "--timeline",
        type=int,
        nargs="?",
        const=500,
        default=0,
        metavar="LINES",
        help="print the last LINES lines of the timeline (500)",
    )
    parser.add_argument(
        "--details", action="store_true", help="with --timeline: also disk effects, reads and log lines"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a field of the plan, for example faults=cut,kill_bookie",
    )
    return parser


def _seed_range(text: str) -> range:
    first, _, last = text.partition("..")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        seeds = range(0)
    if not seeds:  # as if all of them had passed
        raise argparse.ArgumentTypeError(f"{text!r} has no seeds: write A..B, with A not above B")
    return seeds


def _process_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: at least 1")
    return int(text)


def _run_all(seeds: Iterable[int], given: argparse.Namespace) -> Iterator[Report]:
    run = partial(_run, given=given)
    if given.processes == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        yield from pool.imap_unordered(run, seeds)


def _run(seed: int, given: argparse.Namespace) -> Report:
    return run_plan(_plan(seed, given), detailed=given.details, timeline=given.timeline)


def _plan(seed: int, given: argparse.Namespace) -> Plan:
    return make_plan(seed, given.profile, _overrides(given.set))


def _overrides(given: list[str]) -> dict[str, Any]:
    """ValueError: a plan does not have this."""
    defaults = {each.name: each.default for each in fields(Plan)}
    found: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in defaults or name == "actions":
            raise ValueError(f"a plan has no field {name!r}; its fields are {', '.join(defaults)}")
        default = defaults[name]
        if isinstance(default, bool):
            found[name] = value.lower() in ("1", "true", "yes", "on")
        elif isinstance(default, tuple):
            found[name] = tuple(each for each in value.split(",") if each)
            if name == "faults" and (unknown := {*found[name]} - _FAULTS):
                raise ValueError(
                    f"no fault is named {min(unknown)!r}; there are {', '.join(sorted(_FAULTS))}"
                )
        else:
            kind = type(default) if isinstance(default, int | float | str) else int
            try:
                found[name] = kind(value)
            except ValueError:
                raise ValueError(f"{name} takes a number, got {value!r}") from None
    return found


def _print_failure(report: Report, again: list[str]) -> None:
    print(f"seed {report.plan.seed} FAILED")
    print(f"  timeline: {_command(again)}")
    print(f"  shrink:   {_command(again, '--shrink')}")
    for finding in report.findings:
        print("  " + finding.replace("\n", "\n  "))
    if report.timeline:
        print(report.timeline)
    sys.stdout.flush()


def replay_command(seed: int, profile: str = "chaos", settings: Sequence[str] = ()) -> str:
    """The command that repeats the run and prints its timeline."""
    return _command(_which(seed, profile, settings))


def _which(seed: int, profile: str, settings: Sequence[str]) -> list[str]:
    words = ["--seed", str(seed)]
    if profile != "chaos":
        words += ["--profile", profile]
    return [*words, *(f"--set {each}" for each in settings)]


def _command(which: Sequence[str], what: str = "--timeline") -> str:
    return " ".join(["python -m dlog.testing", *which, what])


def _print_run(report: Report) -> None:
    if report.timeline:
        print(report.timeline)
    print(replace(report.plan, actions=None))
    print(
        f"seed {report.plan.seed}: {report.acked} of {report.appends} appends acknowledged, {report.takeovers} "
        f"takeovers, {report.reads} messages read in {report.simulated_s:.1f} simulated s, "
        f"{report.steps} steps, digest {report.digest[:16]}"
    )


class _Total:
    """Totals over all runs."""

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

    def summary(self, real_s: float) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self._faults.items()))
        return (
            f"{self.runs} seeds, {self._simulated_s:.0f} simulated s in {real_s:.1f} s "
            f"({self._simulated_s / real_s:.0f} times real time), {self._acked} messages acknowledged\n"
            f"faults: {faults or 'none'}"
        )
