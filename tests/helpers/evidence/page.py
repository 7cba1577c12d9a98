"""docs/reliability.md, made of the results. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.helpers.evidence.fault_kinds import FAULTS, unnamed
from tests.helpers.evidence.results import Part, Results

INTRODUCTION = """# How reliable it is

Losing an acknowledged message is the one thing that this software must never do.
This page is written by `make evidence`; it says what was tried, on which commit, and what came of it.
`make evidence SEEDS=20000` runs the seeds that are missing on this page and everything below anew.
How the simulation works and what its checks say: [simulation.md](simulation.md).
"""

LIMITS = """## Known limits

- Repair, compaction and placement do not exist yet.
  So the half of C14 that asks for the write quorum of copies is skipped by name.
- The simulated index store keeps a prefix of what was not synced; RocksDB's own files are not modelled.
  `tests/crash` also runs on real files.
- The simulated network delays, reorders and loses as TCP shows it to programs; what is below is not modelled.
- The simulated metadata store is linearizable.
  What real stores do is the matter of `tests/conformance` and `tests/nemesis`.
- Beyond the contract (bit rot, lost files, writes that land elsewhere, on any number of copies) an error is an answer;
  only wrong bytes and silence count as wrong.
"""

C1 = "c1_"
_BUG_HEAD = ("bug", "rule that it breaks", "seeds", "plan", "seeds with any plan", "found by")


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A mistake that was planted, and what it took to find it."""

    name: str
    rule: str
    check: str
    seeds: int
    focused: bool
    """Whether the plan was narrowed for the search."""
    whole_swarm: str
    """The same with the plans that the seeds draw, in words."""


def page(results: Results, bugs: Iterable[PlantedBug], descriptions: Mapping[str, str], checks: str) -> str:
    """The whole page. `descriptions`: of each kept seed what it had found; `checks`: the table of all checks."""
    sections = [
        INTRODUCTION,
        _seeds(results),
        _faults(results),
        _checks(checks),
        _bugs(list(bugs)),
        _images(results),
        _findings(descriptions),
        LIMITS,
    ]
    return "\n".join(section.rstrip() + "\n" for section in sections)


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *([_cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|").replace("\n", " ")


# ---- seeds


def _seeds(results: Results) -> str:
    within, beyond = results.counts("chaos"), results.counts("beyond")
    lost = sum(found.startswith(C1) for _, _, all_found in results.failed() for found in all_found)
    rows = [
        ("seeds", _runs(results, "chaos"), _runs(results, "beyond")),
        ("simulated hours", *(round(counts["simulated_s"] / 3600, 1) for counts in (within, beyond))),
        ("appends", *(int(counts["appends"]) for counts in (within, beyond))),
        ("acknowledged", *(int(counts["acked"]) for counts in (within, beyond))),
        ("messages read", *(int(counts["reads"]) for counts in (within, beyond))),
        ("takeovers", *(int(counts["takeovers"]) for counts in (within, beyond))),
        ("CPU hours", *(round(counts["cpu_s"] / 3600, 1) for counts in (within, beyond))),
        ("seeds that fail", *(_failures(results, profile) for profile in ("chaos", "beyond"))),
        ("acknowledged messages lost", lost, "not promised"),
    ]
    text = [
        "## Seeds",
        "",
        "Each seed is a cluster, a workload and faults of its own; after the chaos all is healed, read and checked.",
        "",
        _table(("", "within the contract", "beyond it"), rows),
        "",
        _table(("commit", "profile", "seeds", "runs", "from", "to", "machine"), map(_part, results.parts)),
        "",
    ]
    for profile, seed, found in results.failed():
        text += [f"Seed {seed} ({profile}) FAILS: {found[0]}", ""]
    return "\n".join(text)


def _runs(results: Results, profile: str) -> int:
    return len(results.passed(profile)) + _failures(results, profile)


def _failures(results: Results, profile: str) -> int:
    return sum(failed == profile for failed, _, _ in results.failed())


def _part(part: Part) -> tuple[object, ...]:
    seeds = ", ".join(f"{first}..{last}" if last > first else str(first) for first, last in part.seeds)
    if part.step > 1:
        seeds = f"every {part.step}th of {seeds}"
    return (f"`{part.commit}`", part.profile, seeds, part.runs, part.first_day, part.last_day, part.machine)


# ---- the rest


def _faults(results: Results) -> str:
    counted = results.faults()
    rows = [
        (group, f"`{kind}`", meaning, counted.get(kind, 0))
        for group, kinds in FAULTS.items()
        for kind, meaning in kinds.items()
    ]
    rows += [("other", f"`{kind}`", "", counted[kind]) for kind in sorted(unnamed(counted))]
    head = "## Faults\n\nEach is counted when it takes effect, over all seeds above.\n"
    return f"{head}\n{_table(('where', 'kind', 'what happened', 'times'), rows)}\n"


def _checks(checks: str) -> str:
    return (
        "## Checks\n\nEach run is checked for all of these. "
        "One is skipped by name: `c14_write_quorum_after_repair`, since repair comes later.\n\n" + checks
    )


def _bugs(bugs: list[PlantedBug]) -> str:
    head = (
        "## Planted bugs\n\nMistakes that somebody could make were planted one at a time, "
        "and seeds were run until a check found them (`python -m tests.helpers.mutations`).\n"
    )
    if not bugs:
        return head + "\nNone has been tried yet.\n"
    rows = [
        (
            f"`{bug.name}`",
            bug.rule,
            bug.seeds,
            "narrowed" if bug.focused else "any",
            bug.whole_swarm,
            f"`{bug.check}`",
        )
        for bug in bugs
    ]
    return f"{head}\n{_table(_BUG_HEAD, rows)}\n"


def _images(results: Results) -> str:
    head = (
        "## Crash images\n\nThe power is cut before each effect on the disk of short scenarios; what it may leave "
        "is booted, and must hold all that was answered and nothing that was never asked for "
        "(`python -m tests.helpers.crash.images`).\n"
    )
    images = results.images
    if images is None:
        return head + "\nNone has been booted yet.\n"
    rows: list[tuple[object, ...]] = [
        (scenario.replace("_", " "), images.images[scenario], images.boots[scenario])
        for scenario in images.boots
    ]
    rows.append(("all", sum(images.images.values()), sum(images.boots.values())))
    text = _table(("scenario", "distinct images", "boots"), rows)
    return f"{head}\n{text}\n\nCommit `{images.commit}`, {images.day}; nothing was lost.\n"


def _findings(descriptions: Mapping[str, str]) -> str:
    text = "\n".join(
        f"- `{name}`: {' '.join(description.split())}" for name, description in descriptions.items()
    )
    return (
        "## What it has found\n\n"
        f"Seeds that failed are kept and run with the tests; so are crash images that did not boot.\n\n{text}\n"
    )
