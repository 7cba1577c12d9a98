"""What the runs found, as it stands in results.json, each with the commit and the fingerprint of what it exercised.

So a long run can be interrupted, continued and split over days. What belongs to other code than the current one is
dropped when the same is run again: totals are over one fingerprint only. Of seeds a line for each such code is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.evidence.measurement import Measurement
from tests.helpers.evidence.rotation import STEPS

PATH = Path(__file__).with_name("results.json")
COUNTED = ("simulated_s", "steps", "appends", "acked", "reads", "takeovers", "cpu_s")
LOST = ("c1_", "DataLossError")
"""How a finding begins that says that something acknowledged is lost."""
_FINDING_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class Run:
    """One seed, run."""

    profile: str
    seed: int
    counts: dict[str, float]
    """Of each name in COUNTED."""
    faults: dict[str, int]
    findings: tuple[str, ...]


@dataclass(slots=True)
class Part:
    """All seeds of one profile that were run on one commit."""

    fingerprint: str
    commit: str
    profile: str
    machine: str
    first_day: str
    last_day: str
    seeds: list[tuple[int, int]] = field(default_factory=list)
    """Without those that failed; first and last of each range that lacks none of these."""
    counts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0.0))
    faults: dict[str, int] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)
    """Findings by seed."""

    @property
    def step(self) -> int:
        return STEPS.get(self.profile, 1)

    @property
    def runs(self) -> int:
        return len(self.passed()) + len(self.failed)

    def passed(self) -> set[int]:
        return {seed for first, last in self.seeds for seed in range(first, last + 1, self.step)}

    def add(self, run: Run, day: str) -> None:
        self.last_day = day
        for name in COUNTED:
            self.counts[name] += run.counts[name]
        for kind, count in run.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + count
        if run.findings:
            self.failed[str(run.seed)] = [each[:_FINDING_CHARACTERS_MAX] for each in run.findings]
        else:
            self.seeds = ranges(self.passed() | {run.seed}, self.step)


@dataclass(frozen=True, slots=True)
class OldFailure:
    """A seed that failed on code that has changed since."""

    profile: str
    seed: int
    commit: str
    finding: str


@dataclass(frozen=True, slots=True)
class EarlierCode:
    """What was run of seeds on code that has changed since."""

    commit: str
    last_day: str
    runs: int
    failed: int
    simulated_s: float
    acked: int

    @classmethod
    def of(cls, parts: list[Part]) -> EarlierCode:
        """Of all parts with one fingerprint."""
        return cls(
            commit=parts[-1].commit,
            last_day=max(part.last_day for part in parts),
            runs=sum(part.runs for part in parts),
            failed=sum(len(part.failed) for part in parts),
            simulated_s=sum(part.counts["simulated_s"] for part in parts),
            acked=int(sum(part.counts["acked"] for part in parts)),
        )


@dataclass(slots=True)
class Results:
    """All of it. Parts are of one fingerprint."""

    parts: list[Part] = field(default_factory=list)
    measured: dict[str, Measurement] = field(default_factory=dict)
    """Of everything else that `make evidence` runs, by name."""
    old_failures: list[OldFailure] = field(default_factory=list)
    earlier: list[EarlierCode] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path = PATH) -> Results:
        if not path.exists():
            return cls()
        found = json.loads(path.read_text("utf-8"))
        return cls(
            [_part(each) for each in found["parts"]],
            {name: Measurement(**each) for name, each in found["measured"].items()},
            [OldFailure(**each) for each in found["old_failures"]],
            [EarlierCode(**each) for each in found["earlier"]],
        )

    def save(self, path: Path = PATH) -> None:
        """All of it or nothing: an interruption loses nothing that was there."""
        fields = {
            "parts": [asdict(each) for each in self.parts],
            "measured": {name: asdict(each) for name, each in self.measured.items()},
            "old_failures": [asdict(each) for each in self.old_failures],
            "earlier": [asdict(each) for each in self.earlier],
        }
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(fields, indent=1) + "\n", "utf-8")
        temporary.replace(path)

    def drop_other_code(self, fingerprint: str) -> None:
        """Drop seeds that were run on other code; those that failed are remembered as such, and how many there were."""
        dropped: dict[str, list[Part]] = {}
        for part in self.parts:
            if part.fingerprint != fingerprint:
                dropped.setdefault(part.fingerprint, []).append(part)
                self.old_failures += [
                    OldFailure(part.profile, int(seed), part.commit, found[0])
                    for seed, found in part.failed.items()
                ]
        self.earlier += map(EarlierCode.of, dropped.values())
        self.parts = [part for part in self.parts if part.fingerprint == fingerprint]

    def part(self, fingerprint: str, commit: str, profile: str, machine: str, day: str) -> Part:
        """The part to add to."""
        for part in self.parts:
            if (part.commit, part.profile, part.machine) == (commit, profile, machine):
                return part
        self.parts.append(Part(fingerprint, commit, profile, machine, day, day))
        return self.parts[-1]

    def done(self, profile: str) -> set[int]:
        """Seeds that were run: on the same code they would do the same."""
        of_profile = [part for part in self.parts if part.profile == profile]
        return {seed for part in of_profile for seed in (*part.passed(), *map(int, part.failed))}

    def failed(self) -> list[tuple[str, int, list[str]]]:
        """Profile, seed and findings of all that failed."""
        return [
            (part.profile, int(seed), found) for part in self.parts for seed, found in part.failed.items()
        ]

    def lost(self, profile: str) -> int:
        """In how many runs something acknowledged was lost."""
        return sum(
            any(each.startswith(LOST) for each in found)
            for failed, _, found in self.failed()
            if failed == profile
        )

    def counts(self, profile: str) -> dict[str, float]:
        parts = [part for part in self.parts if part.profile == profile]
        return {name: sum(part.counts[name] for part in parts) for name in COUNTED}

    def faults(self) -> dict[str, int]:
        """Of all runs together."""
        found: dict[str, int] = {}
        for part in self.parts:
            for kind, count in part.faults.items():
                found[kind] = found.get(kind, 0) + count
        return found


def ranges(numbers: Iterable[int], step: int = 1) -> list[tuple[int, int]]:
    """First and last of what goes on in steps, ascending."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + step:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _part(fields: dict[str, Any]) -> Part:
    part = Part(**fields | {"seeds": [(first, last) for first, last in fields["seeds"]]})
    part.seeds = ranges(part.passed(), part.step)
    return part
