"""Random stories of a bookie's storage: the power is cut anywhere in them, and what it may leave is booted.

    python -m tests.helpers.crash.stories --seeds 1..2000 -j 2 [--boots 100000]
    python -m tests.helpers.crash.stories --seed 17            one story, and what its failure needs (shrunken-17.toml)
    python -m tests.helpers.crash.stories --kept FILE          a story in a file

`--bug NAME` plants a bug of tests/simulation/mutations or tests/helpers/crash/stories/planted_bugs.py first.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path

from tests.helpers.crash.stories.generator import draw_story
from tests.helpers.crash.stories.planted_bugs import STORAGE_BUGS
from tests.helpers.crash.stories.running import Booted, boot_story, each_booted
from tests.helpers.crash.stories.shrinking import find, shrink, with_cuts
from tests.helpers.crash.stories.story import Story, read_story, write_story
from tests.helpers.mutations.planting import planted

_PROGRESS_S = 20.0


def main() -> int:
    """0: every promise was kept."""
    given = _parser().parse_args()
    edits = STORAGE_BUGS[given.bug].edits if given.bug else ()
    if given.seeds is not None:
        return _run(given, edits)
    with planted(edits) if edits else nullcontext():
        if given.kept is not None:
            story = read_story(given.kept.read_text("utf-8"))
            found = find(story)
            print(found.text if found is not None else "every promise was kept")
            return found is not None
        return _replay(given.seed, shrinks=not given.whole)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.crash.stories", description=(__doc__ or "").splitlines()[0]
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seeds", type=_seeds, help="N for 1..N, or A..B")
    which.add_argument("--seed", type=int, help="play one, and shrink it if it fails")
    which.add_argument(
        "--kept", type=Path, metavar="FILE", help="boot everywhere in the last life of a story"
    )
    parser.add_argument("-j", "--processes", type=int, default=1)
    parser.add_argument("--boots", type=int, help="end after this number")
    parser.add_argument("--seconds", type=float, help="end after this time")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--whole", action="store_true", help="do not shrink")
    parser.add_argument("--bug", choices=sorted(STORAGE_BUGS), metavar="NAME", help="plant a bug first")
    return parser


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else range(1, int(text) + 1)


def _run(given: argparse.Namespace, edits: tuple) -> int:  # type: ignore[type-arg]
    total, began = Booted(), time.monotonic()
    printed = began
    with closing(each_booted(given.seeds, given.processes, edits)) as found:
        for booted in found:
            total.add(booted)
            for seed, finding in booted.findings:
                bug = f" --bug {given.bug}" if given.bug else ""
                print(f"seed {seed} FAILED in life {finding.life} at effect {finding.effect}: {finding.text}")
                print(f"  python -m tests.helpers.crash.stories --seed {seed}{bug}", flush=True)
            now = time.monotonic()
            if now - printed > _PROGRESS_S:
                printed = now
                print(f"{total.boots.total()} boots of {total.seeds} stories", flush=True)
            over = given.boots is not None and total.boots.total() >= given.boots
            if over or (given.seconds is not None and now - began > given.seconds):
                break
    _report(total, time.monotonic() - began, given.json)
    return 1 if total.findings else 0


def _report(total: Booted, took_s: float, path: Path | None) -> None:
    for name in sorted(total.boots):
        print(f"{name:60} {total.boots[name]:8} boots {total.images[name]:8} images")
    boots, images = total.boots.total(), total.images.total()
    print(
        f"{boots} boots of {images} distinct images in {total.seeds} stories, {boots / took_s:.0f} boots/s, "
        f"{len(total.findings)} stories failed"
    )
    if path is not None:
        counts = {"boots": dict(total.boots), "images": dict(total.images), "seeds": total.seeds}
        failed = {str(seed): finding.text for seed, finding in total.findings}
        path.write_text(json.dumps(counts | {"failed": failed}, indent=1) + "\n", "utf-8")


def _replay(seed: int, *, shrinks: bool) -> int:
    story = draw_story(seed)
    findings = boot_story(story).findings
    if not findings:
        print("every promise was kept")
        return 0
    [(_, finding)] = findings
    print(f"life {finding.life}, effect {finding.effect}: {finding.text}")
    story = with_cuts(story, finding)
    if shrinks and find(story) is not None:
        story = shrink(story, _print_progress)
        finding = find(story) or finding
        print(f"shrunken: {finding.text}")
    path = Path(f"shrunken-{seed}.toml")
    path.write_text(write_story(story, finding.text), "utf-8")
    print(path.read_text("utf-8"))
    print(f"written to {path}: python -m tests.helpers.crash.stories --kept {path}")
    return 1


def _print_progress(story: Story) -> None:
    print(f"  {story.step_count} steps in {len(story.lives)} lives", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
