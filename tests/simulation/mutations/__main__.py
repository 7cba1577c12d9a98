"""Plants one bug after another and tells how many seeds it took to find it.

python -m tests.simulation.mutations --list
python -m tests.simulation.mutations --only fence-not-journaled --seeds 2000
"""

from __future__ import annotations

import argparse

from tests.simulation.mutations.catalogue import MUTATIONS
from tests.simulation.mutations.hunt import Hunt, hunt

SEEDS_MAX = 2000
"""A bug that is not found by then is a hole in the simulation."""


def main(arguments: list[str] | None = None) -> int:
    """0: all were found. 1: one was not."""
    given = _parser().parse_args(arguments)
    chosen = [MUTATIONS[name] for name in given.only] if given.only else list(MUTATIONS.values())
    if given.list:
        for mutation in chosen:
            print(f"{mutation.name}\n    {mutation.rule}")
        return 0
    missed = []
    for mutation in chosen:
        result = hunt(
            mutation,
            range(given.first, given.first + given.seeds),
            whole_swarm=given.whole_swarm,
            seconds_max=given.seconds,
        )
        print(_told(result), flush=True)
        if result.caught_by is None:
            missed.append(mutation.name)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} planted bugs were found")
    if missed:
        print(f"not found: {', '.join(missed)}")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.mutations", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", action="append", choices=MUTATIONS, metavar="NAME", help="plant this one")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="give up after so many")
    parser.add_argument("--first", type=int, default=0, help="begin with this seed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="give up on each after so long")
    parser.add_argument("--whole-swarm", action="store_true", help="let the seed alone decide about the plan")
    parser.add_argument("--list", action="store_true", help="only tell their names and the rules they break")
    return parser


def _told(result: Hunt) -> str:
    mutation, seeds = result.mutation, "1 seed" if result.seeds == 1 else f"{result.seeds} seeds"
    if result.caught_by is None:
        verdict = f"NOT FOUND in {seeds}"
    else:
        verdict = f"found by seed {result.caught_by}, after {seeds}"
    lines = [f"{mutation.name}: {verdict} ({result.seconds:.1f} s)", f"    {mutation.rule}"]
    if result.finding:
        lines.append(f"    {result.finding}")
    if result.not_counted:
        lines.append(f"    not counted, since they fail without it, too: {list(result.not_counted)}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
