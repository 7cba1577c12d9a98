"""Plants one storage bug at a time and counts the boots until a story fails.

    python -m tests.helpers.crash.stories.search [--only NAME] [--boots 20000] [--write]

`--write` puts the results into planted_bugs.json here: the seed that fails, and the boots that it took.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tests.helpers.crash.stories.generator import draw_story
from tests.helpers.crash.stories.planted_bugs import STORAGE_BUGS, PlantedBug
from tests.helpers.crash.stories.running import Booted, boot_story
from tests.helpers.mutations.planting import planted

PATH = Path(__file__).with_name("planted_bugs.json")


def search(bug: PlantedBug, boots_max: int, seconds_max: float) -> dict[str, Any]:
    """The first seed that fails and its finding, seed None if there is none within the boots."""
    total, until = 0, time.monotonic() + seconds_max
    with planted(bug.edits):
        for seed in count(1):
            booted = _boot(seed)
            total += booted.boots.total()
            if booted.findings:
                [(_, finding)] = booted.findings
                return {"seed": seed, "boots": total, "finding": finding.text.splitlines()[0][:200]}
            if total >= boots_max or time.monotonic() > until:
                return {"seed": None, "boots": total}
    raise AssertionError("count() ends")


def _boot(seed: int) -> Booted:
    return boot_story(draw_story(seed))


def load(path: Path = PATH) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def _names(given: argparse.Namespace, results: dict[str, Any]) -> Iterator[str]:
    for name in given.only or STORAGE_BUGS:
        if not (given.missing and results.get(name, {}).get("seed") is not None):
            yield name


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.crash.stories.search", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", action="append", choices=STORAGE_BUGS, metavar="NAME")
    parser.add_argument("--missing", action="store_true", help="those that were not found before")
    parser.add_argument("--boots", type=int, default=20_000, help="then it is not found")
    parser.add_argument("--seconds", type=float, default=1e9, help="of one search, at most")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    results = load()
    for name in _names(given, results):
        found = search(STORAGE_BUGS[name], given.boots, given.seconds)
        results[name] = found
        print(f"{name:50} {found}", flush=True)
        if given.write:
            known = {name: results[name] for name in STORAGE_BUGS if name in results}
            PATH.write_text(json.dumps(known, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
