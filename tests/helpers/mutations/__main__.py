"""Plants one bug after another and tells how many seeds it took to find it.

python -m tests.helpers.mutations --list
python -m tests.helpers.mutations --only fence-not-journaled --seeds 2000
python -m tests.helpers.mutations --write -j 2
python -m tests.helpers.mutations --whole --seconds 200 -j 2
"""

from __future__ import annotations

import argparse
from statistics import median

from tests.helpers.evidence.rotation import runs_of_seeds
from tests.helpers.mutations.parallel_search import SearchOptions, search_all
from tests.helpers.mutations.search import SearchResult, run_planted
from tests.helpers.mutations.table import Table, row_of
from tests.helpers.mutations.whole_swarm import WholeSwarm, search_whole_swarm
from tests.simulation.mutations.catalogue import MUTATIONS

SEEDS_MAX = 2000
"""A bug that is not found by then is a hole in the simulation."""


def main(arguments: list[str] | None = None) -> int:
    """0: all were found. 1: one was not."""
    given = _parser().parse_args(arguments)
    names: list[str] = given.only or list(MUTATIONS)
    if given.list:
        for name in names:
            print(f"{name}\n    {MUTATIONS[name].rule}")
        return 0
    if given.whole:
        return _search_whole_swarm(names, given)
    missed = _replay(names) if given.replay else _search(names, given)
    print(f"{len(names) - len(missed)} of {len(names)} planted bugs were found")
    if missed:
        print(f"not found: {', '.join(missed)}")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.mutations", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", action="append", choices=MUTATIONS, metavar="NAME", help="plant this one")
    parser.add_argument(
        "--seeds",
        type=int,
        default=SEEDS_MAX,
        help="give up after this number; with --whole in all their profiles",
    )
    parser.add_argument("--first", type=int, default=0, help="begin with this seed")
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="give up on each after this CPU time; with --whole stop after this real time, to go on later",
    )
    parser.add_argument(
        "--whole", action="store_true", help="go on with the search in the whole swarm (whole_swarm.json)"
    )
    parser.add_argument("--write", action="store_true", help="write what was found into table.json")
    parser.add_argument("--replay", action="store_true", help="only run what table.json holds")
    parser.add_argument("-j", "--processes", type=int, default=1, help="hunt so many at a time")
    parser.add_argument("--list", action="store_true", help="only tell their names and the rules they break")
    return parser


# ---- searching


def _search(names: list[str], given: argparse.Namespace) -> list[str]:
    """The names of those that were not found."""
    options = SearchOptions(
        seeds=range(given.first, given.first + given.seeds),
        seconds_max=given.seconds,
        shrinks=given.write,
    )
    missed = []
    for found, short in search_all(names, options, given.processes):
        name = found.mutation.name
        print(_describe(found), flush=True)
        if found.plan is None:
            missed.append(name)
        if given.write and short is not None:
            table = Table.load()
            table.rows[name] = row_of(found, short)
            table.save()
    return missed


def _describe(found: SearchResult) -> str:
    mutation, seeds = found.mutation, "1 seed" if found.seeds == 1 else f"{found.seeds} seeds"
    verdict = "NOT FOUND in" if found.plan is None else f"found by seed {found.plan.seed}, after"
    lines = [f"{mutation.name}: {verdict} {seeds} ({found.seconds:.1f} s)", f"    {mutation.rule}"]
    if found.plan is not None:
        lines.append(f"    {found.verdict.finding[:300]}")
    if found.not_counted:
        lines.append(f"    not counted, since they fail without it, too: {list(found.not_counted)}")
    return "\n".join(lines)


def _search_whole_swarm(names: list[str], given: argparse.Namespace) -> int:
    """0: all were found. 1: one was not, or not yet."""
    for name, progress in search_whole_swarm(
        names, runs_of_seeds(given.seeds), given.seconds, given.processes
    ):
        if progress.found is not None:
            profile, seed = progress.found
            print(f"{name}: run {progress.runs}, seed {seed} ({profile}): {progress.check}", flush=True)
    so_far = WholeSwarm.of_current_code()
    found = sorted(so_far.progress(name).runs for name in names if so_far.progress(name).found is not None)
    print(f"found {len(found)} of {len(names)}, the median after {median(found) if found else 0:.0f} runs")
    for runs, missed in sorted(_not_found(names, so_far).items(), reverse=True):
        print(f"not found in {runs} runs: {', '.join(missed)}")
    return 1 if len(found) < len(names) else 0


def _not_found(names: list[str], so_far: WholeSwarm) -> dict[int, list[str]]:
    """By the number of runs that were tried."""
    missed: dict[int, list[str]] = {}
    for name in names:
        progress = so_far.progress(name)
        if progress.found is None:
            missed.setdefault(progress.runs, []).append(name)
    return missed


# ---- what has been found before


def _replay(names: list[str]) -> list[str]:
    """The names of those whose short run shows nothing any more, or fails without the bug."""
    table, missed = Table.load(), []
    for name in names:
        row, mutation = table.rows.get(name), MUTATIONS[name]
        if row is None:
            verdict = "not in the table"
        elif run_planted(row.run(), mutation.given).findings:
            verdict = "FAILS WITHOUT IT"
        elif not (found := run_planted(row.run(), (*mutation.given, *mutation.edits))).findings:
            verdict = "NOT FOUND"
        else:
            print(f"{name}: {found.check}, {found.steps} steps", flush=True)
            continue
        print(f"{name}: {verdict}", flush=True)
        missed.append(name)
    return missed


if __name__ == "__main__":
    raise SystemExit(main())
