"""Plays every scene at every callback of its victim and at every request to the metadata store, and counts.

python -m tests.helpers.interruptions [--step N] [SCENE ...]
"""

from __future__ import annotations

import argparse

from tests.helpers.interruptions.runner import blows, play_all
from tests.helpers.interruptions.scenarios import SCENES


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help="only those that have this in their names")
    parser.add_argument("--step", type=int, default=1, help="strike only at every so many")
    given = parser.parse_args()
    total = 0
    for name, scene in SCENES.items():
        if given.scenes and not any(each in name for each in given.scenes):
            continue
        for blow in blows(scene):
            points = play_all(scene, blow, step=given.step)
            total += points
            print(f"{name}, {blow}: {points} points", flush=True)
    print(f"{total} points, nothing wrong at any")


if __name__ == "__main__":
    main()
