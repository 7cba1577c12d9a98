"""Finds planted bugs with the runs that the whole swarm makes, whatever a bug needs to show.

All bugs see the same runs, in the order of the rotation. What has been tried is kept in a file, so that a search goes
on where the last one stopped; it begins anew when the code that the runs exercise has changed.

A search on changed code first tries the run that found a bug before; then the number of runs is an upper bound.

A bug that many runs did not find is planted together with others: a run that fails then is repeated with each of
them alone, and only that counts as found. So a search costs a fraction, and at worst finds a bug later, if another
one covers it.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from dlog.testing.swarm.drawing import make_plan
from tests.helpers.evidence.machine import commit, day, machine
from tests.helpers.evidence.rotation import Job, jobs_of, place_of
from tests.helpers.evidence.running import TooLongError, prepare_process
from tests.helpers.evidence.sources import fingerprint, fingerprint_of
from tests.helpers.mutations.mutation import Mutation
from tests.helpers.mutations.planting import Edit
from tests.helpers.mutations.search import PROGRESS_S, Verdict, run_planted
from tests.simulation.mutations.catalogue import MUTATIONS

PATH = Path(__file__).parents[2] / "simulation" / "mutations" / "whole_swarm.json"
_ROUNDS = (5, 10, 20, 40, 80)
"""Runs of each bug after the first rounds; from then on as many more in each. Easy bugs are done first."""
_TOGETHER = 8
"""Bugs planted in one run, once each has been tried alone for as many runs as this:"""
_RUNS_ALONE = 20
_REAL_S_MAX = 90
"""Of one run. Sound code needs a second: what needs this long never ends."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the search for one bug has come."""

    bug: str
    """A fingerprint of the edits: another bug under the same name is searched anew."""
    runs: int = 0
    """Runs made, in the order of the rotation; the last one found the bug, if any did."""
    at_most: bool = False
    """Only the run that found the bug on earlier code was made: one of those before it might find it, too."""
    found: Job | None = None
    check: str = ""
    not_counted: tuple[Job, ...] = ()
    """Runs that fail without the bug, too."""
    cpu_s: float = 0.0


@dataclass(slots=True)
class WholeSwarm:
    """What has been tried on one state of the code."""

    fingerprint: str
    commit: str
    day: str
    machine: str
    bugs: dict[str, Progress] = field(default_factory=dict)
    before: dict[str, Job] = field(default_factory=dict)
    """The runs that found bugs on earlier code and have not been tried on this one."""

    @classmethod
    def load(cls, path: Path = PATH) -> WholeSwarm | None:
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        bugs = {name: _progress(each) for name, each in found["bugs"].items()}
        before = {name: (profile, seed) for name, (profile, seed) in found.get("before", {}).items()}
        return cls(**found | {"bugs": bugs, "before": before})

    @classmethod
    def of_current_code(cls, path: Path = PATH) -> WholeSwarm:
        """With what the file has of this code; of any other only which run found a bug."""
        current = cls(fingerprint("seeds"), commit(), day(), machine())
        last = cls.load(path)
        if last is None:
            return current
        same = last.fingerprint == current.fingerprint
        current.before |= last.before
        for name, progress in last.bugs.items():
            if same and name in MUTATIONS and progress.bug == bug_fingerprint(MUTATIONS[name]):
                current.bugs[name] = progress
            elif progress.found is not None:
                current.before[name] = progress.found
        return current

    def save(self, path: Path = PATH) -> None:
        bugs = {name: self.bugs[name] for name in MUTATIONS if name in self.bugs}
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(asdict(each))}" for name, each in bugs.items())
        head: dict[str, Any] = {
            name: getattr(self, name) for name in ("fingerprint", "commit", "day", "machine")
        }
        head |= {"before": {name: self.before[name] for name in MUTATIONS if name in self.before}}
        fields = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
        temporary = path.with_suffix(".tmp")
        temporary.write_text(f'{{\n{fields} "bugs": {{\n{lines}\n }}\n}}\n', "utf-8")
        temporary.replace(path)

    def progress(self, name: str) -> Progress:
        return self.bugs.get(name) or Progress(bug_fingerprint(MUTATIONS[name]))

    def open(self, names: Sequence[str], runs: int) -> list[str]:
        """Those not found so far in this number of runs, the cheapest first."""
        found = [name for name in names if self.progress(name).found is None]
        return sorted(
            (name for name in found if self.progress(name).runs < runs),
            key=lambda name: self.progress(name).cpu_s,
        )


def bug_fingerprint(mutation: Mutation) -> str:
    return fingerprint_of({mutation.name: repr((mutation.given, mutation.edits))})


def _progress(fields: dict[str, Any]) -> Progress:
    found = fields["found"]
    not_counted = tuple((profile, seed) for profile, seed in fields["not_counted"])
    return Progress(**fields | {"found": None if found is None else tuple(found), "not_counted": not_counted})


# ---- searching


def search_whole_swarm(
    names: Sequence[str], runs_max: int, seconds: float, processes: int, path: Path = PATH
) -> Iterator[tuple[str, Progress]]:
    """Search for all of them, in rounds; the file has each result when it is returned. Ends after `seconds`."""
    so_far = WholeSwarm.of_current_code(path)
    deadline = time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, prepare_process) as pool:
        again = [
            (name, so_far.before[name], so_far.progress(name))
            for name in names
            if name in so_far.before and not so_far.progress(name).runs
        ]
        for name, progress in pool.imap_unordered(partial(_found_again, runs_max, deadline), again):
            if progress is None:
                continue
            del so_far.before[name]
            so_far.bugs[name] = progress
            so_far.save(path)
            if progress.found is not None:
                yield name, progress
        for runs in _limits(runs_max):
            tasks = groups({name: so_far.progress(name) for name in so_far.open(names, runs)})
            for group in pool.imap_unordered(partial(_go_on, runs, deadline), tasks):
                changed = {name: each for name, each in group.items() if each != so_far.progress(name)}
                so_far.bugs |= changed
                if changed:
                    so_far.save(path)
                yield from changed.items()
            if time.monotonic() >= deadline:
                return


def _found_again(
    runs_max: int, deadline: float, given: tuple[str, Job, Progress]
) -> tuple[str, Progress | None]:
    """With the run that found it before; without progress if it does not any more. None: no time was left."""
    name, job, progress = given
    if time.monotonic() >= deadline:
        return name, None
    place = place_of(job)
    if place > runs_max:
        return name, progress
    tried = _tried_alone(MUTATIONS[name], job, progress)
    if tried.found is None:
        return name, replace(progress, cpu_s=tried.cpu_s)
    return name, replace(tried, runs=place, at_most=True)


def _limits(runs_max: int) -> Iterator[int]:
    yield from (each for each in _ROUNDS if each < runs_max)
    yield from range(2 * _ROUNDS[-1], runs_max, _ROUNDS[-1])
    yield runs_max


Group = dict[str, Progress]
"""Bugs that have seen the same number of runs and change different functions."""


def groups(bugs: Group) -> list[Group]:
    """All of these, in groups that one run can hold."""
    found: list[Group] = []
    for name, progress in bugs.items():
        group = next((each for each in found if _fits(name, progress, each)), None)
        if group is None:
            found.append({name: progress})
        else:
            group[name] = progress
    return found


def _fits(name: str, progress: Progress, group: Group) -> bool:
    """What changes the circumstances is never planted together with others."""
    if progress.runs < _RUNS_ALONE or len(group) >= _TOGETHER:
        return False
    targets = {each.target for each in MUTATIONS[name].edits}
    return all(
        progress.runs == other.runs
        and not MUTATIONS[name].given
        and not MUTATIONS[other_name].given
        and targets.isdisjoint(each.target for each in MUTATIONS[other_name].edits)
        for other_name, other in group.items()
    )


def _go_on(runs: int, deadline: float, group: Group) -> Group:
    """Search until all are found, or this number of runs is reached in all."""
    pending, found = dict(group), Group()
    [tried] = {progress.runs for progress in group.values()}
    for job in islice(jobs_of(count(1)), tried, runs):
        if time.monotonic() >= deadline:
            break
        pending = _tried(job, pending)
        found |= {name: each for name, each in pending.items() if each.found is not None}
        pending = {name: each for name, each in pending.items() if each.found is None}
        if not pending:
            break
    return pending | found


def _tried(job: Job, group: Group) -> Group:
    """All in one run; each by itself if that run fails."""
    if len(group) == 1:
        [(name, progress)] = group.items()
        return {name: _tried_alone(MUTATIONS[name], job, progress)}
    began = time.process_time()
    verdict = _run(job, tuple(edit for name in group for edit in MUTATIONS[name].edits))
    share_s = (time.process_time() - began) / len(group)
    group = {name: replace(each, cpu_s=round(each.cpu_s + share_s, 2)) for name, each in group.items()}
    if verdict.findings:
        return {name: _tried_alone(MUTATIONS[name], job, each) for name, each in group.items()}
    return {name: replace(each, runs=each.runs + 1) for name, each in group.items()}


def _tried_alone(mutation: Mutation, job: Job, progress: Progress) -> Progress:
    began = time.process_time()
    verdict = _run(job, (*mutation.given, *mutation.edits))
    if not verdict.findings:
        progress = replace(progress, runs=progress.runs + 1)
    elif _run(job, mutation.given).findings:
        progress = replace(progress, runs=progress.runs + 1, not_counted=(*progress.not_counted, job))
    else:
        progress = replace(progress, runs=progress.runs + 1, found=job, check=verdict.check)
    return replace(progress, cpu_s=round(progress.cpu_s + time.process_time() - began, 2))


def _run(job: Job, edits: tuple[Edit, ...]) -> Verdict:
    profile, seed = job
    signal.alarm(_REAL_S_MAX)
    try:
        # Damage beyond the guarantees may take longer to recover from, and only then shows.
        limits = {} if profile == "beyond" else {"progress_s": PROGRESS_S}
        return run_planted(make_plan(seed, profile, limits), edits)
    except TooLongError as error:
        return Verdict((f"c17_progress: {error}",))
    finally:
        signal.alarm(0)
