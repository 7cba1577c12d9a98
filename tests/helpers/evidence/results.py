"""What the evidence runs have brought, as it stands in results.json: one part for each commit that was run.

So a long run can be interrupted, go on, and be split over days; the page says what ran on which commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("results.json")
STEPS = {"chaos": 1, "beyond": 10}
"""Every so many-th seed runs in the profile."""
COUNTED = ("simulated_s", "steps", "appends", "acked", "reads", "takeovers", "cpu_s")


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
            self.failed[str(run.seed)] = list(run.findings)
        else:
            self.seeds = ranges(self.passed() | {run.seed}, self.step)


@dataclass(slots=True)
class Images:
    """Crash images that were booted; by scenario."""

    commit: str
    day: str
    boots: dict[str, int]
    images: dict[str, int]


@dataclass(slots=True)
class Results:
    parts: list[Part] = field(default_factory=list)
    images: Images | None = None

    @classmethod
    def load(cls, path: Path = PATH) -> Results:
        if not path.exists():
            return cls()
        found = json.loads(path.read_text("utf-8"))
        images = found["images"]
        return cls([_part(each) for each in found["parts"]], None if images is None else Images(**images))

    def save(self, path: Path = PATH) -> None:
        """At once or not at all: whoever is interrupted loses nothing that was there."""
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")
        temporary.replace(path)

    def part(self, commit: str, profile: str, machine: str, day: str) -> Part:
        """The part to add to."""
        for part in self.parts:
            if (part.commit, part.profile, part.machine) == (commit, profile, machine):
                return part
        self.parts.append(Part(commit, profile, machine, day, day))
        return self.parts[-1]

    def passed(self, profile: str) -> set[int]:
        """Seeds that need not be run again."""
        return {seed for part in self.parts if part.profile == profile for seed in part.passed()}

    def failed(self) -> list[tuple[str, int, list[str]]]:
        """Profile, seed and findings of those that nobody has seen pass since."""
        return [
            (part.profile, int(seed), found)
            for part in self.parts
            for seed, found in part.failed.items()
            if int(seed) not in self.passed(part.profile)
        ]

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
