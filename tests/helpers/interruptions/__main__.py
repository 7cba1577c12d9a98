"""Runs each scenario, interrupted at every callback and every request to the metadata store, and counts them.

python -m tests.helpers.interruptions [--step N] [SCENARIO ...]
"""

from __future__ import annotations

import argparse

from tests.helpers.interruptions.runner import faults_of, run_at_every_point
from tests.helpers.interruptions.scenarios import SCENARIOS


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="only those that have this in their names"
    )
    parser.add_argument("--step", type=int, default=1, help="interrupt only at every so many")
    given = parser.parse_args()
    total = 0
    for name, scenario in SCENARIOS.items():
        if given.scenarios and not any(each in name for each in given.scenarios):
            continue
        for fault in faults_of(scenario):
            points = run_at_every_point(scenario, fault, step=given.step)
            total += points
            print(f"{name}, {fault}: {points} points", flush=True)
    print(f"{total} points, nothing wrong at any")


if __name__ == "__main__":
    main()
