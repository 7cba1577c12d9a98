"""Plays many stories on some processes and counts what was booted."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from tests.helpers.crash.stories.booting import Boots, Cut, Finding, fingerprint
from tests.helpers.crash.stories.generator import draw_story
from tests.helpers.crash.stories.player import Player
from tests.helpers.crash.stories.story import Story
from tests.helpers.mutations.planting import Edit, planted

SHARE = 0.25
"""Of the effects of a story: at each of these one image is booted."""
_SEEDS_A_PROCESS = 500


@dataclass(slots=True)
class Booted:
    """What was booted, by what the power cut fell into; images count once in each story."""

    boots: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)
    seeds: int = 0
    findings: list[tuple[int, Finding]] = field(default_factory=list)
    """Seed, and the first broken promise of its story."""

    def add(self, other: Booted) -> None:
        self.boots += other.boots
        self.images += other.images
        self.seeds += other.seeds
        self.findings += other.findings


def boot_story(story: Story, share: float = SHARE) -> Booted:
    """Play one story, as far as its first finding."""
    boots, booted, seen = Boots(), Booted(seeds=1), set[int]()

    def boot(story: Story, cut: Cut) -> Finding | None:
        name = _name(cut)
        booted.boots[name] += 1
        mark = fingerprint(cut.image)
        booted.images[name] += mark not in seen
        seen.add(mark)
        return boots.boot(story, cut)

    try:
        finding = Player(story, boot, share).play()
    finally:
        boots.close()
    if finding is not None:
        booted.findings.append((story.seed, finding))
    return booted


def _name(cut: Cut) -> str:
    """What a reader of the counts wants to know of it."""
    life = ("first life", "second life", "later lives")[min(cut.life, 2)]
    return f"stories, {life}{', ' + ' and '.join(cut.working) if cut.working else ''}"


def boot_stories(seeds: Iterable[int], processes: int = 1, *, boots_max: int | None = None) -> Booted:
    """Every story of `seeds`, or until so many images were booted."""
    total = Booted()
    with closing(each_booted(list(seeds), processes)) as found:
        for booted in found:
            total.add(booted)
            if boots_max is not None and total.boots.total() >= boots_max:
                break
    return total


def each_booted(
    seeds: Sequence[int], processes: int, edits: Sequence[Edit] = ()
) -> Generator[Booted, None, None]:
    """In the order in which they end, with these bugs planted."""
    jobs = [(seed, tuple(edits)) for seed in seeds]
    if processes <= 1:
        yield from map(_boot_seed, jobs)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, _prepare, maxtasksperchild=_SEEDS_A_PROCESS) as pool:
        yield from pool.imap_unordered(_boot_seed, jobs)


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which has the counts


def _boot_seed(job: tuple[int, Sequence[Edit]]) -> Booted:
    seed, edits = job
    with planted(edits):
        return boot_story(draw_story(seed))
