"""docs/reliability.md, made of the results. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.helpers.evidence.fault_kinds import FAULTS, unnamed
from tests.helpers.evidence.measurement import Measurement, Rows
from tests.helpers.evidence.results import EarlierCode, OldFailure, Part, Results
from tests.helpers.evidence.rotation import STEPS, runs_of_seeds

INTRODUCTION = """# How reliable it is

Losing an acknowledged message is the one thing that this software must never do.
This page is written by `make evidence`: what was run, on which commit, and what was found.
Written {day} for commit `{commit}`.

Each section names the commit that was run, and whether what it exercises is the same in the commit of this page.
That is compared over all modules that can take part, without comments and docstrings.
Totals are over runs of the same code only; what ran on other code is dropped when it is run again.
`make evidence SEEDS=20000` runs what is missing.
How the simulation works and what its checks say: [simulation.md](simulation.md).
"""

LIMITS = """## Known limits

- The simulated index store keeps a prefix of what was not synced; RocksDB's own files are not modelled.
  `tests/crash` also runs on real files.
- The simulated network delays, reorders and loses as TCP shows it to programs; what is below is not modelled.
- The simulated metadata store is linearizable.
  What real stores do is the matter of `tests/conformance` and `tests/nemesis`.
- Beyond the contract (bit rot, lost files, writes that land elsewhere, on any number of copies) an error is an answer;
  only wrong bytes and silence count as wrong.
"""

PROMISED = ("chaos", "scenes", "narrow", "calm")
"""Profiles in which nothing acknowledged may be lost."""
_BUG_HEAD = ("bug", "rule that it breaks", "seeds", "plan", "runs of the whole swarm", "found by")

SECTIONS: dict[str, tuple[str, str]] = {
    "interruptions": (
        "Crash points",
        "Takeover, rotation, shrink and delete are repeated; each time the acting client is killed or paused, or an "
        "answer of the metadata store is withheld, at the next of its callbacks "
        "(`python -m tests.helpers.interruptions`).",
    ),
    "images": (
        "Crash images",
        "The power is cut before each effect on the disk of short scenarios; what it may leave is booted, and must "
        "hold all that was answered and nothing that was never asked for (`python -m tests.helpers.crash.images`).",
    ),
    "stories": (
        "Random crash stories",
        "A seed draws what a bookie does, with checkpoints, garbage collection and a full disk in between, and cuts "
        "the power again and again (`python -m tests.helpers.crash.stories`).",
    ),
    "nemesis": (
        "Real processes",
        "Real bookies, clients and metadata stores, killed, paused and cut off at random; the histories pass the same "
        "checks (`tests/nemesis`).",
    ),
    "fuzz": ("Fuzzing", "Malformed and mutated input for everything that parses bytes (`make fuzz`)."),
    "mutants": (
        "Operator mutants",
        "Single operators of the protocol cores are changed mechanically; a mutant survives if no test fails.",
    ),
}
"""Title and first sentence of what is counted in one table."""


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A planted bug, and what it took to find it."""

    name: str
    rule: str
    check: str
    seeds: int
    focused: bool
    """Whether the plan was narrowed for the search."""
    runs: int | None = None
    """Of the whole swarm; None: not tried."""
    found: bool = False
    """Whether the last of these runs found it."""
    at_most: bool = False
    """An earlier run might have found it, too."""
    why_missed: str = ""
    """Why the whole swarm does not find it."""


@dataclass(frozen=True, slots=True)
class Page:
    """All that is on the page."""

    commit: str
    day: str
    results: Results
    states: Mapping[str, str]
    """Of each section, by the name of its result: which commit was run, and whether that is the current code."""
    measured: Mapping[str, Sequence[Measurement]] = field(default_factory=dict)
    bugs: tuple[PlantedBug, ...] = ()
    stories: Mapping[str, str] = field(default_factory=dict)
    """Of each kept run: what it found."""
    checks: str = ""
    """The table of all checks."""

    def text(self) -> str:
        sections = [
            INTRODUCTION.format(commit=self.commit, day=self.day),
            self._seeds(),
            self._faults(),
            _checks(self.checks),
            self._bugs(),
            *(self._measured(name) for name in SECTIONS),
            _stories(self.stories),
            LIMITS,
        ]
        return "\n".join(section.rstrip() + "\n" for section in sections)

    # ---- seeds

    def _seeds(self) -> str:
        text = [
            "## Seeds",
            "",
            "Each seed is a cluster, a workload and faults of its own; after the chaos everything is healed, read "
            "and checked. `scenes` adds short schedules of faults that belong together, `narrow` has few kinds of "
            "faults and a small workload, `beyond` adds damage outside the guarantees; `calm` has no faults.",
            "",
        ]
        text += self._seeds_of_this_code() if self.results.parts else ["None was run on this code.", ""]
        if self.results.old_failures:
            text += [
                "Seeds that failed on older code:",
                "",
                *map(_old_failure, self.results.old_failures),
                "",
            ]
        if self.results.earlier:
            text += [_earlier(self.results.earlier), ""]
        return "\n".join(text)

    def _seeds_of_this_code(self) -> list[str]:
        profiles = [profile for profile in STEPS if self.results.done(profile)]
        counts = [self.results.counts(profile) for profile in profiles]
        rows = [
            ("runs", *(len(self.results.done(profile)) for profile in profiles)),
            ("simulated hours", *(round(each["simulated_s"] / 3600, 1) for each in counts)),
            ("appends", *(int(each["appends"]) for each in counts)),
            ("acknowledged", *(int(each["acked"]) for each in counts)),
            ("messages read", *(int(each["reads"]) for each in counts)),
            ("takeovers", *(int(each["takeovers"]) for each in counts)),
            ("CPU hours", *(round(each["cpu_s"] / 3600, 1) for each in counts)),
            ("runs that failed", *(self._failures(profile) for profile in profiles)),
            (
                "runs that lost an acknowledged message",
                *(self.results.lost(each) if each in PROMISED else "not promised" for each in profiles),
            ),
        ]
        head = ("commit", "profile", "seeds", "runs", "from", "to", "machine")
        text = [self.states["seeds"], "", _table(("", *profiles), rows), ""]
        text += [_table(head, map(_part, self.results.parts)), ""]
        for profile, seed, found in self.results.failed():
            text += [f"Seed {seed} ({profile}) FAILS: {' '.join(found[0].split())}", ""]
        return text

    def _failures(self, profile: str) -> int:
        return sum(failed == profile for failed, _, _ in self.results.failed())

    def _faults(self) -> str:
        counted = self.results.faults()
        rows = [
            (group, f"`{kind}`", meaning, counted.get(kind, 0))
            for group, kinds in FAULTS.items()
            for kind, meaning in kinds.items()
        ]
        rows += [("other", f"`{kind}`", "", counted[kind]) for kind in sorted(unnamed(counted))]
        head = "## Faults\n\nEach is counted when it takes effect, over all seeds above.\n"
        return f"{head}\n{_table(('where', 'kind', 'what happened', 'times'), rows)}\n"

    # ---- the rest

    def _bugs(self) -> str:
        head = (
            "## Planted bugs\n\nBugs are planted one at a time, and seeds are run until a check fails that does not "
            "fail without the bug (`python -m tests.helpers.mutations`). The first number of seeds is for plans in "
            "which the bug can show soon; the test suite repeats a short run that finds each. The second is for the "
            "whole swarm: the runs of all profiles above, with nothing chosen for the bug; the first 2,000 seeds have "
            f"{runs_of_seeds(2000):,}. ≤: the run that found the bug on earlier code was tried first, and found it.\n"
        )
        if not self.bugs:
            return head + "\nNone was planted.\n"
        rows = [
            (
                f"`{bug.name}`",
                bug.rule,
                bug.seeds,
                "narrowed" if bug.focused else "any",
                _runs_needed(bug),
                f"`{bug.check}`",
            )
            for bug in self.bugs
        ]
        return f"{head}\n{self._whole_swarm()}\n\n{_table(_BUG_HEAD, rows)}\n"

    def _whole_swarm(self) -> str:
        tried = [bug for bug in self.bugs if bug.runs]
        if not tried:
            return "The whole swarm has not been searched."
        found = [bug.runs or 0 for bug in tried if bug.found]
        text = (
            f"The whole swarm finds {len(found)} of {len(self.bugs)}"
            f"{f', the median after {median(found):.0f} runs' if found else ''}. {self.states['whole swarm']}"
        )
        missed = [bug for bug in tried if not bug.found]
        lines = [
            f"- `{bug.name}`, in {bug.runs:,} runs: {bug.why_missed or 'not explained yet'}" for bug in missed
        ]
        return "\n".join([text, *(["Not found:", "", *lines] if lines else [])])

    def _measured(self, name: str) -> str:
        title, sentence = SECTIONS[name]
        head = f"## {title}\n\n{sentence}\n"
        tables = self.measured.get(name, ())
        if not tables:
            return f"{head}\nNothing was run on this code.\n"
        when = "; ".join(dict.fromkeys(", ".join(filter(None, (each.day, each.machine))) for each in tables))
        counted = {row: counts for each in tables for row, counts in each.rows.items()}
        columns = list(dict.fromkeys(column for counts in counted.values() for column in counts))
        rows: list[tuple[object, ...]] = [
            (row, *(counts.get(column, "") for column in columns)) for row, counts in counted.items()
        ]
        if len(rows) > 1:
            rows.append(("all", *(_sum(counted, column) for column in columns)))
        return f"{head}\n{self.states[name]} {when}.\n\n{_table(('', *columns), rows)}\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *([_cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|").replace("\n", " ")


def _sum(counted: Rows, column: str) -> object:
    values = [counts[column] for counts in counted.values() if column in counts]
    numbers = [value for value in values if isinstance(value, int | float)]
    return sum(numbers) if len(numbers) == len(values) else ""


def _part(part: Part) -> tuple[object, ...]:
    seeds = ", ".join(f"{first}..{last}" if last > first else str(first) for first, last in part.seeds)
    if part.step > 1:
        seeds = f"{seeds} in steps of {part.step}"
    return (f"`{part.commit}`", part.profile, seeds, part.runs, part.first_day, part.last_day, part.machine)


def _old_failure(failure: OldFailure) -> str:
    return f"- {failure.seed} ({failure.profile}), commit `{failure.commit}`: {' '.join(failure.finding.split())}"


def _earlier(codes: Sequence[EarlierCode]) -> str:
    head = ("last commit", "until", "runs", "simulated hours", "acknowledged", "runs that failed")
    rows = [_sums(f"`{code.commit}`", code.last_day, [code]) for code in codes]
    table = _table(head, [*rows, _sums("all", "", codes)])
    return f"Runs of earlier code, as far as they were recorded:\n\n{table}"


def _sums(commit: str, until: str, codes: Sequence[EarlierCode]) -> tuple[str | int | float, ...]:
    return (
        commit,
        until,
        sum(code.runs for code in codes),
        round(sum(code.simulated_s for code in codes) / 3600, 1),
        sum(code.acked for code in codes),
        sum(code.failed for code in codes),
    )


def _runs_needed(bug: PlantedBug) -> str:
    if not bug.runs:
        return "not tried"
    return f"{'≤ ' if bug.at_most else ''}{bug.runs:,}" if bug.found else f"not in {bug.runs:,}"


def _checks(checks: str) -> str:
    return (
        "## Checks\n\nEach run is checked for all of these; beyond the guarantees, for what is promised there.\n\n"
        + checks
    )


def _stories(stories: Mapping[str, str]) -> str:
    text = "\n".join(f"- `{name}`: {' '.join(story.split())}" for name, story in stories.items())
    return (
        "## What it has found\n\nRuns that failed are kept and run with the tests: seeds of the swarm, crash images "
        f"that did not boot, input that a parser did not survive.\n\n{text}\n"
    )
