"""Draws a story from a seed: everything that a bookie's storage may be asked, in any order and concurrently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from tests.helpers.crash.stories.story import ANSWERED, Life, Step, Story

KIB = 1024
_SIZES = ((20,), (20, 20, 300), (20, 300, 3 * KIB), (8 * KIB,), (20, 8 * KIB, 20 * KIB))
"""Payload sizes of a story: many small entries, a few large ones that fill files, both."""
_WEIGHTS = {
    "add": 30, "late": 14, "rewrite": 5, "conflict": 2, "fence": 6, "lac": 7, "delete": 5, "force": 1,
    "checkpoint": 12, "collect": 5, "check": 3, "trouble": 5,
}  # fmt: skip
_FAULTS = (
    ("sync_error", ".journal"), ("sync_error", "entry-logs"), ("sync_error", "index"), ("sync_error", "log-mark"),
    ("sync_error", "ledger-states"), ("sync_error", "/journal"),
    ("write_error", ".journal"), ("write_error", "entry-logs"),
    ("short_write", ""), ("no_descriptor", ""), ("no_descriptor", "index"), ("no_descriptor", "journal"),
)  # fmt: skip


def draw_story(seed: int) -> Story:
    draw = Random(f"crash story {seed}")
    drawing = _Drawing(draw)
    lives = tuple(drawing.life() for _ in range(draw.choice((1, 2, 2, 3, 4))))
    lives = _with_compactions(lives, Random(f"compaction {seed}"))
    lives = _with_rebuilds(lives, Random(f"rebuild {seed}"))
    directories = Random(f"directories {seed}")
    more_directories = directories.choice((0, 0, 1, 2))
    if more_directories:
        lives = tuple(
            replace(life, steps=tuple(_with_one_failing(life.steps, directories))) for life in lives
        )
    log_bytes = draw.choice((4 * KIB, 16 * KIB, 64 * KIB))
    settings = {
        "entry_log_bytes_max": log_bytes,
        "block_bytes_max": draw.choice((300, 2 * KIB)),
        "write_cache_bytes_max": draw.choice((8 * KIB, 64 * KIB, 1024 * KIB, 1024 * KIB)),
        "ledger_states_max": draw.choice((1, 1000)),
        "reserve_bytes": draw.choice((0, 64 * KIB)),
        "checkpoint_interval_s": draw.choice((0.005, 3600.0, 3600.0)),
        "read_cache_bytes_max": draw.choice((0, 64 * KIB)),
        "single_write_bytes_min": Random(f"single write {seed}").choice((0, 1, 400, 400)),
    }
    return Story(
        seed=seed,
        lives=lives,
        settings=settings,
        more_directories=more_directories,
        prompt=draw.choice((0.0, 0.0, 0.5)),
        sync_s_max=draw.choice((100e-6, 2e-3, 20e-3)),
        concurrency=draw.choice((0.0, 0.1, 0.4)),
    )


def _with_compactions(lives: tuple[Life, ...], draw: Random) -> tuple[Life, ...]:
    """A third of all stories have them, so that the others are as they were before."""
    return _with("compact", lives, draw) if draw.random() <= 0.3 else lives


def _with_rebuilds(lives: tuple[Life, ...], draw: Random) -> tuple[Life, ...]:
    return _with("rebuild", lives, draw) if draw.random() <= 0.2 else lives


def _with(do: str, lives: tuple[Life, ...], draw: Random) -> tuple[Life, ...]:
    return tuple(replace(life, steps=tuple(_between(do, life.steps, draw))) for life in lives)


def _between(do: str, steps: tuple[Step, ...], draw: Random) -> Iterator[Step]:
    for step in steps:
        yield step
        if draw.random() < 0.2:
            wait_s = draw.choice((0.0, 100e-6, 1e-3, ANSWERED))
            yield Step(do=do, inside=draw.choice((0, 0, 1, 3)), wait_s=wait_s)


def _with_one_failing(steps: tuple[Step, ...], draw: Random) -> Iterator[Step]:
    """Here and there a ledger directory without the index fails, or one of them is full or not full any more."""
    for step in steps:
        yield step
        drawn = draw.random()
        if drawn < 0.05:
            yield Step(do="fill_directory", part=draw.choice(("", "more-0", "more-1", "ledgers/entry-logs")))
        elif drawn < 0.1:
            kind = draw.choice(("sync_error", "write_error"))
            yield Step(do="fault", kind=kind, part="more-0/entry-logs", number=draw.choice((1, 1, 2, 3)))


class _Drawing:
    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._ledgers = list(range(1, draw.choice((2, 3, 4, 6))))
        self._sizes = draw.choice(_SIZES)
        self._next = dict.fromkeys(self._ledgers, 0)
        self._written: dict[tuple[int, int], int] = {}
        """Payload size of each entry that was asked for first."""
        self._lacs = dict.fromkeys(self._ledgers, -1)
        weights = {kind: weight * draw.choice((0, 1, 1, 3)) for kind, weight in _WEIGHTS.items()}
        self._kinds = {**weights, "add": _WEIGHTS["add"], "checkpoint": max(3, weights["checkpoint"])}
        self._haste = draw.random()
        self._inside = draw.choice((0.0, 0.0, 0.2, 0.5))

    def life(self) -> Life:
        draw = self._draw
        steps: list[Step] = []
        for _ in range(draw.choice((3, 8, 15, 25, 40))):
            steps += self._steps()
        return Life(steps=tuple(steps), end=draw.choice(("power", "power", "power", "kill", "kill", "stop")))

    def _steps(self) -> list[Step]:
        draw = self._draw
        kind = draw.choices(list(self._kinds), list(self._kinds.values()))[0]
        if kind == "trouble":
            return self._trouble()
        step = self._step(kind, draw.choice(self._ledgers))
        if step.do == "check":
            return [step]
        if self._inside and step.do not in ("check",) and draw.random() < self._inside:
            return [replace(step, inside=draw.choice((1, 1, 2, 3, 5, 8)))]
        return [replace(step, wait_s=self._wait_s())]

    def _wait_s(self) -> float:
        draw = self._draw
        if draw.random() < self._haste:
            return 0.0
        return draw.choice((ANSWERED, ANSWERED, 100e-6, 1e-3, 10e-3))

    def _step(self, kind: str, ledger: int) -> Step:
        draw = self._draw
        match kind:
            case "add":
                count = draw.choice((1, 1, 2, 5, 12))
                size = draw.choice(self._sizes)
                if size > 4 * KIB:
                    count = min(count, 3)
                first = self._next[ledger]
                return self._add(ledger, tuple(range(first, first + count)), size)
            case "late":  # a recovery's order, gaps and repetitions
                last = self._next[ledger]
                among = range(max(0, last - 12), last + draw.choice((1, 4, 12)))
                ids = draw.sample(among, min(len(among), draw.choice((1, 2, 3, 6))))
                return self._add(ledger, tuple(ids), draw.choice(self._sizes))
            case "rewrite" | "conflict":
                return self._again(kind, ledger)
            case "lac":
                lac = draw.randint(-1, self._next[ledger] + 3)
                return Step(do="lac", ledger=ledger, lac=lac, size=draw.choice((16, 40)))
            case "fence" | "delete":
                return Step(do=kind, ledger=ledger)
            case _:
                return Step(do=kind)

    def _add(self, ledger: int, ids: tuple[int, ...], size: int) -> Step:
        """New entries have the size; those that were written before, and what comes with them, have theirs."""
        known = {self._written[ledger, entry_id] for entry_id in ids if (ledger, entry_id) in self._written}
        if known:
            size = min(known)
            ids = tuple(each for each in ids if self._written.get((ledger, each), size) == size)
        for entry_id in ids:
            self._written[ledger, entry_id] = size
        self._next[ledger] = max(self._next[ledger], max(ids) + 1)
        return Step(do="add", ledger=ledger, ids=ids, size=size)

    def _again(self, kind: str, ledger: int) -> Step:
        """Entries that recovery writes again with its own LAC, or a writer with other bytes."""
        draw = self._draw
        mine = sorted(entry_id for of, entry_id in self._written if of == ledger)
        if not mine:
            return self._step("add", ledger)
        size = self._written[ledger, draw.choice(mine[-10:])]
        ids = [each for each in mine[-10:] if self._written[ledger, each] == size]
        chosen = tuple(draw.sample(ids, min(len(ids), draw.choice((1, 2, 4)))))
        lac = draw.choice((None, -1, max(chosen)))
        return Step(do="add", ledger=ledger, ids=chosen, size=size, lac=lac, other=int(kind == "conflict"))

    def _trouble(self) -> list[Step]:
        draw = self._draw
        if draw.random() < 0.5:
            kind, part = draw.choice(_FAULTS)
            return [Step(do="fault", kind=kind, part=part, number=draw.choice((1, 2, 3, 6)))]
        # The journal's file and its spare are there already: only large entries meet the full disk in it.
        room = draw.choice((0, 0, 2 * KIB, 30 * KIB, 70 * KIB, 140 * KIB))
        sizes, self._sizes = self._sizes, draw.choice((self._sizes, (20, 8 * KIB, 20 * KIB)))
        under = [self._steps_untroubled() for _ in range(draw.choice((2, 6, 16)))]
        self._sizes = sizes
        return [Step(do="fill", number=room), *under, Step(do="space", wait_s=ANSWERED)]

    def _steps_untroubled(self) -> Step:
        draw = self._draw
        kind = draw.choice(("add", "add", "late", "fence", "lac", "delete", "checkpoint", "collect"))
        return replace(self._step(kind, draw.choice(self._ledgers)), wait_s=self._wait_s())
