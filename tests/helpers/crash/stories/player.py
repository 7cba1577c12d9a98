"""Plays a story, cuts the power at some of its effects, and has what is left booted at that moment."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from bookie_server.errors import DiskFullError
from bookie_server.storage.ledger_storage import LedgerStorage
from dlog.testing.disk.effects import Effect, SimulatedCrash
from dlog.testing.disk.image import DiskImage
from tests.helpers.crash.identity_scenarios import Known
from tests.helpers.crash.stories.bookie import StoryBookie, open_storage
from tests.helpers.crash.stories.booting import Cut, Finding, close_runner, describe
from tests.helpers.crash.stories.promises import Promises, check, copy_of
from tests.helpers.crash.stories.story import Life, Step, Story
from tests.helpers.crash.stories.story_disk import StoryDisk
from tests.helpers.simulation.disk import VirtualTimeLoop

Boot = Callable[[Story, Cut], Finding | None]

_STAYS_S = 0.05
"""Of the disk's time, how long a process lives on whose storage has failed: it unregisters first."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What is left of a life for the next one: the disk or its image, the promises, the metadata store."""

    image: DiskImage | None
    promises: Promises
    known: Known
    full: bool = False


class Player:
    """`share`: of the effects whose images are booted. `from_life`: nothing is booted in the lives before it."""

    def __init__(
        self, story: Story, boot: Boot, share: float, *, from_life: int = 0, images: int = 1
    ) -> None:
        self._story = story
        self._boot = boot
        self._share = share
        self._from_life = from_life
        self._images = images
        self.finding: Finding | None = None
        self.cuts: list[int] = []
        """At which effect each life was cut off, as far as it was; 0 for other ends."""
        self._number = 0
        self._draw = Random()
        self._disk: StoryDisk
        self._bookie: StoryBookie | None = None
        self._outside: Outside
        self._next: Outside | None = None
        self._taken = 0
        self._armed: deque[Step] = deque()
        self._countdown = 0

    def play(self) -> Finding | None:
        """The first finding, None if every promise was kept."""
        story = self._story
        known = asyncio.run(_new_known())
        self._outside, disk = Outside(None, {}, known), None
        for self._number, life in enumerate(story.lives):
            self._draw = Random(f"{story.seed} {self._number} cuts")
            if disk is None:
                name = f"{story.seed} {self._number}"
                disk = StoryDisk(name, story.timing, story.concurrency, self._outside.image)
            self._disk = disk
            self._live(life)
            if self.finding is not None:
                break
            self._outside = replace(self._outside, full=self._is_excused)
            if life.end == "power":
                self._outside, disk = self._next or self._cut_at_its_end(), None
        return self.finding

    def _live(self, life: Life) -> None:
        self._next, self._taken = None, 0
        self._armed.clear()
        self.cuts.append(0)
        self._disk.new_life()
        self._disk.on_effect, self._disk.loop_effect = self._on_effect, self._inside
        runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        runner.get_loop().set_exception_handler(self._on_exception)
        try:
            runner.run(self._steps(life))
        except Exception as error:  # noqa: BLE001  # whatever it raises is a finding, since nothing may
            text = f"{describe(error)}\n  in life {self._number}, while it worked"
            self.finding = self.finding or Finding(self._number, 0, text)
        finally:
            self._disk.on_effect, self._disk.loop_effect = _ignore, _nothing
            self._disk.faults.disarm()
            self._disk.process_crash()
            close_runner(runner)

    def _on_exception(self, _loop: object, context: dict[str, Any]) -> None:
        """A callback of the loop has raised: its exception reaches no caller."""
        error = context.get("exception")
        if error is not None and not isinstance(error, SimulatedCrash):
            text = f"{describe(error)}\n  in life {self._number}, in a callback"
            self.finding = self.finding or Finding(self._number, 0, text)

    async def _steps(self, life: Life) -> None:
        promises = self._outside.promises
        self._bookie = None
        storage = await self._opened()
        full = self._outside.full
        firm = await check(storage, promises, after_refusals=full)
        promises.clear()
        promises.update(firm)
        bookie = self._bookie = StoryBookie(storage, self._disk, promises, full=full)
        for step in life.steps:
            if bookie.failed or self.finding is not None:
                break
            if step.inside:
                self._armed.append(step)
                self._countdown = self._countdown or step.inside
            else:
                await bookie.do(step)
        if bookie.failed:
            await asyncio.sleep(_STAYS_S)
        if life.end == "stop" or self._number == len(self._story.lives) - 1:
            await bookie.answered()
            bookie.closing = True
            await storage.close()
        bookie.require_sound()

    async def _opened(self) -> LedgerStorage:
        config, known = self._story.config, self._outside.known
        name = f"{self._story.seed} {self._number}"
        try:
            return await open_storage(self._disk, config, known, name)
        except DiskFullError:
            assert self._disk.capacity_bytes is not None
            self._disk.process_crash()
            self._disk.capacity_bytes = None
            return await open_storage(self._disk, config, known, name + " again")

    def _cut_at_its_end(self) -> Outside:
        """Of a life in which no effect was cut."""
        image = self._disk.image(Random(f"{self._story.seed} {self._number} end"))
        return replace(self._outside, image=image)

    # ---- effects

    def _on_effect(self, effect: Effect) -> None:
        number = self._disk.effect_count
        life = self._story.lives[self._number]
        drawn = self._draw.random() < self._share
        if (drawn or number == life.cut) and self.finding is None:
            self._take(number, f"{effect.kind} of {effect.path} {effect.text}")

    def _take(self, number: int, before: str = "anything") -> None:
        life = self._story.lives[self._number]
        if self._number < self._from_life and number != life.cut:
            return
        working = () if self._bookie is None else tuple(sorted(self._bookie.working))
        for each in range(self._images):
            choose = Random(f"{self._story.seed} {self._number} {number} {each or ''}")
            cut = Cut(
                self._number, number, before, working, self._disk.image(choose),
                self._outside.promises, self._outside.known, self._is_excused,
            )  # fmt: skip
            if self._number >= self._from_life:
                self.finding = self._boot(self._story, cut)
            if self.finding is not None:
                return
            if not each:
                self._maybe_next(cut)

    def _maybe_next(self, cut: Cut) -> None:
        """Each cut of a life begins the next life with the same probability, unless the story names one."""
        life = self._story.lives[self._number]
        self._taken += 1
        if (cut.effect == life.cut) if life.cut else self._draw.random() * self._taken < 1:
            self._next = Outside(cut.image, copy_of(cut.promises), cut.known.copy(), cut.excused)
            self.cuts[-1] = cut.effect

    @property
    def _is_excused(self) -> bool:
        return self._outside.full if self._bookie is None else self._bookie.full

    def _inside(self) -> None:
        """A worker is in the middle of a job, and the loop goes on."""
        if not self._armed or self._bookie is None or self._bookie.failed:
            return
        self._countdown -= 1
        if self._countdown <= 0:
            self._bookie.begin(self._armed.popleft())
            self._countdown = self._armed[0].inside if self._armed else 0


async def _new_known() -> Known:
    known = Known.empty()
    await known.store().init_cluster()
    return known


def _ignore(_effect: Effect) -> None:
    """No observer is set."""


def _nothing() -> None:
    """Nothing happens inside of a job."""
