"""Makes a plan that fails smaller, as long as it still fails in the same way: no fault is left that could be left out.

Pure but for `run`. A smaller plan draws other random numbers, so each is tried with a few seeds before it counts as
sound; what the smaller plan then finds may in principle be another bug that looks the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dlog.testing.swarm.actions import NOTHING, Action
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.run import Report

T = TypeVar("T")
Run = Callable[[Plan], Report]

_SIMPLER: tuple[dict[str, Any], ...] = (
    {"mixed_settings": False},
    {"buggify": False},
    {"cancellers": 0},
    {"visitors": 0},
    {"inspectors": 0},
    {"limbo": False},
    {"other_log": False},
    {"shrinks": False},
    {"readers": 1},
    {"writers": 1},
    {"writers": 2},
    {"ensemble": 3, "write": 3, "ack": 2},
    {"bookies": 3},
    {"bookies": 4},
    {"ensemble": 1, "write": 1, "ack": 1, "bookies": 1},
    {"digest": "CRC32C", "password": ""},
    {"codec": "none"},
    {"fast": False},
    {"degraded": True},
    {"batching": True},
    {"small_disks": False},
    {"payload_bytes_max": 10},
    {"rotation_entries": 500, "rotation_bytes": 1 << 20},
    {"rotation_age_s": 30.0},
    {"checkpoint_s": 20.0},
    {"read_ahead_bytes": 64 * 1024},
    {"append_every_s": 0.5},
    {"append_every_s": 0.1},
)
"""Plans are simpler with any of these."""


class OutOfRunsError(Exception):
    """As many runs as were allowed have been made."""


@dataclass(slots=True)
class Shrunken:
    """What was left, and what it took."""

    plan: Plan
    report: Report
    runs: int
    actions_before: int
    complete: bool
    """Whether nothing more could be left out; else there were no more runs."""


def kinds_of(findings: Iterable[str]) -> frozenset[str]:
    """What failed, without the names and numbers that differ from run to run."""
    return frozenset(_kind_of(each) for each in findings)


def _kind_of(finding: str) -> str:
    lines = finding.splitlines()
    first = lines[0] if lines else ""
    if first.startswith("UncaughtProblemsError") and len(lines) > 1:
        first = lines[1]
    check, _, rest = first.partition(":")
    if re.match(r"c\d+_", check) and not check.startswith("c17_"):
        return check
    words = re.sub(r"#?\d[\d.]*|<.*", "", f"{check}:{rest.split(';')[0]}")
    return " ".join(words.split())[:80]


def shrink(
    plan: Plan, run: Run, *, runs_max: int = 400, progress: Callable[[str], None] = lambda _: None
) -> Shrunken | None:
    """The smallest plan found within so many runs; None if the plan does not fail."""
    first = run(plan)
    if not first.findings:
        return None
    shrinking = _Shrinking(plan, first, run, runs_max, progress)
    try:
        shrinking.shrink()
        complete = True
    except OutOfRunsError:
        complete = False
    return Shrunken(
        shrinking.plan, shrinking.report, shrinking.runs, len(first.actions) + len(first.struck), complete
    )


class _Shrinking:
    def __init__(
        self, plan: Plan, report: Report, run: Run, runs_max: int, progress: Callable[[str], None]
    ) -> None:
        self.plan = plan
        self.report = report
        """Of the plan."""
        self.runs = 1
        self._kinds = kinds_of(report.findings)
        self._run = run
        self._runs_max = runs_max
        self._progress = progress
        self._tries = 1

    def shrink(self) -> None:
        """One try each at first: most of what a swarm does has nothing to do with the failure."""
        self._give_actions()
        for self._tries in (1, 3, 10):
            while self._one_round():
                pass
        self._round_times()

    def _one_round(self) -> bool:
        """Whether anything became smaller."""
        before = self.plan
        self._strike_by_strike()
        self._leave_out_actions()
        self._end_earlier()
        self._leave_out_features()
        self._shorten_faults()
        return replace(self.plan, seed=before.seed) != before

    def _give_actions(self) -> None:
        if self.plan.actions is None:
            actions = tuple(each for each in self.report.actions if each.kind != NOTHING)
            drawn = {each.kind for each in actions}
            rates = tuple(name for name in self.plan.faults if name not in drawn)
            self._accept(replace(self.plan, actions=self.report.actions, faults=rates))
            self._accept(replace(self.plan, actions=actions))

    def _strike_by_strike(self) -> None:
        """Instead of rates the single operations that suffered; or at least fewer kinds."""
        if not self.plan.faults or self.plan.actions is None:
            return
        struck = tuple(sorted((*self.plan.actions, *self.report.struck), key=lambda each: each.at_s))
        if self._accept(replace(self.plan, faults=())) or self._accept(
            replace(self.plan, faults=(), actions=struck)
        ):
            return
        leave_out(self.plan.faults, lambda kept: self._accept(replace(self.plan, faults=tuple(kept))))

    def _leave_out_actions(self) -> None:
        if self.plan.actions:
            leave_out(self.plan.actions, lambda kept: self._accept(replace(self.plan, actions=tuple(kept))))

    def _end_earlier(self) -> None:
        """With the last action, if they are known; later is only what they led to."""
        for left_s in (0.3, 1.0, 3.0):
            last_s = max((each.at_s for each in self.plan.actions or ()), default=0.0)
            chaos_s = round(last_s + left_s, 1)
            if chaos_s >= self.plan.chaos_s - 0.5 or self._accept(replace(self.plan, chaos_s=chaos_s)):
                return

    def _leave_out_features(self) -> None:
        for fields in _SIMPLER:
            simpler = _simpler(self.plan, fields)
            if simpler is not None:
                self._accept(simpler)

    def _shorten_faults(self) -> None:
        for index, action in enumerate(self.plan.actions or ()):
            if action.for_s > 0.5 and not self._accept(self._with(index, replace(action, for_s=0.2))):
                self._accept(self._with(index, replace(action, for_s=action.for_s / 2)))

    def _round_times(self) -> None:
        """For people: three digits, if the failure does not hang on more."""
        for digits in (3, 4, 5):
            rounded = tuple(_rounded(each, digits) for each in self.plan.actions or ())
            if self._accept(replace(self.plan, actions=rounded)):
                return

    def _with(self, index: int, action: Action) -> Plan:
        actions = list(self.plan.actions or ())
        actions[index] = action
        return replace(self.plan, actions=tuple(actions))

    def _accept(self, plan: Plan) -> bool:
        """Whether it fails as the first one did, with this seed or another; then it is the plan."""
        if plan == self.plan:
            return False
        for seed in _seeds(plan.seed, self._tries):
            if self.runs >= self._runs_max:
                raise OutOfRunsError
            self.runs += 1
            report = self._run(replace(plan, seed=seed))
            if self._kinds & kinds_of(report.findings):
                self.plan, self.report = report.plan, report
                actions = "drawn" if plan.actions is None else f"{len(plan.actions)} actions"
                self._progress(f"run {self.runs}: {actions}, {len(plan.faults)} rates, {plan.chaos_s:.1f} s")
                return True
        return False


def leave_out(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Of these the fewest that still fail: none of those left can be left out alone (ddmin, without complements).

    Halves first, then ever smaller runs of neighbours, down to single ones.
    """
    left = list(items)
    if left and fails([]):
        return []
    size = max(1, len(left) // 2)
    while len(left) > 1:
        smaller = _leave_out_runs(left, size, fails)
        if size == 1 and len(smaller) == len(left):
            break
        left = smaller
        size = max(1, min(size // 2, len(left) // 2))
    return left


def _leave_out_runs(items: list[T], size: int, fails: Callable[[list[T]], bool]) -> list[T]:
    at = 0
    while at < len(items):
        kept = items[:at] + items[at + size :]
        if kept and fails(kept):
            items = kept
        else:
            at += size
    return items


def _simpler(plan: Plan, fields: dict[str, Any]) -> Plan | None:
    """The plan with these fields; None if that is not simpler, or makes no sense."""
    if all(getattr(plan, name) == value for name, value in fields.items()):
        return None
    grows = ("bookies", "writers", "readers", "ensemble")
    if any(name in grows and value > getattr(plan, name) for name, value in fields.items()):
        return None
    simpler = replace(plan, **fields)
    return simpler if simpler.bookies >= simpler.ensemble else None


def _rounded(action: Action, digits: int) -> Action:
    return replace(action, at_s=round(action.at_s, digits), for_s=round(action.for_s, digits))


def _seeds(first: int, count: int) -> Iterator[int]:
    yield from range(first, first + count)
