"""Boots what a power cut has left, and compares it with what was promised."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

from bookie_server.storage.rebuild.stopped import rebuild_index
from bookie_server.storage.storage_paths import StoragePaths
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.effects import SimulatedCrash
from dlog.testing.disk.image import DiskImage
from dlog.testing.disk.rocksdb_state import Batch
from tests.helpers.bookie.lost_intervals import unindexed
from tests.helpers.crash.identity_scenarios import Known
from tests.helpers.crash.stories.bookie import StoryBookie, open_storage
from tests.helpers.crash.stories.promises import Promises, check, copy_of
from tests.helpers.crash.stories.story import ANSWERED, Step, Story
from tests.helpers.crash.stories.story_disk import BootDisk
from tests.helpers.simulation.disk import VirtualTimeLoop

LATER_LEDGER, LATER_LARGE = 90, 91
"""No story names them: they come after the boot."""
_GOES_ON, _REBUILDS, _FORGETS = 0.3, 0.08, 0.05
_FORGOTTEN = 0.3
"""Of the records of an index that has lost some."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A power cut, what it left, and what must be there."""

    life: int
    effect: int
    before: str
    """The effect that it came before."""
    working: tuple[str, ...]
    """What was under way."""
    image: DiskImage
    promises: Promises
    known: Known
    excused: bool
    """The disk was full before: what the journal refused may be in the index alone."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A boot, or a bookie at work, that broke a promise."""

    life: int
    effect: int
    """Of the cut; 0: the bookie itself went wrong at its work."""
    text: str


class Boots:
    """Boots in a thread with a loop of its own, while the story's loop stands still."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._runner: asyncio.Runner | None = None
        self._raised: list[str] = []

    def boot(self, story: Story, cut: Cut) -> Finding | None:
        return self._thread.submit(self._boot, story, cut).result()

    def _boot(self, story: Story, cut: Cut) -> Finding | None:
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
            self._runner.get_loop().set_exception_handler(self._on_exception)
        self._raised.clear()
        try:
            self._runner.run(boot(story, cut))
            assert not self._raised, f"a callback raised {self._raised[0]}"
        except Exception as error:  # noqa: BLE001  # whatever it raises is a finding, since nothing may
            self._end()  # with what the boot has left on the loop
            changes = "; ".join(cut.image.changes)
            text = f"{describe(error)}\n  power cut before {cut.before}, {list(cut.working)}; {changes}"
            return Finding(cut.life, cut.effect, text)
        return None

    def _on_exception(self, _loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, SimulatedCrash):
            self._raised.append(describe(error))

    def _end(self) -> None:
        if self._runner is not None:
            close_runner(self._runner)
            self._runner = None

    def close(self) -> None:
        self._thread.submit(self._end).result()
        self._thread.shutdown()


def close_runner(runner: asyncio.Runner) -> None:
    """Whatever tasks still have to say, their process is dead."""
    runner.get_loop().set_exception_handler(lambda _loop, _context: None)
    runner.close()


def describe(error: BaseException) -> str:
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}"


def fingerprint(image: DiskImage) -> int:
    """Of everything in it; within one process."""
    stores = tuple((path, frozenset(store.records.items())) for path, store in sorted(image.stores.items()))
    return hash((tuple(image.directories), stores, frozenset(image.files.items())))


async def boot(story: Story, cut: Cut) -> None:
    """It holds what it must. A share also takes more, collects garbage and stops; in a few the index, or part of it, is
    lost first.
    """
    drawn = Random(f"{story.seed} {cut.life} {cut.effect} boot")
    way, number = drawn.random(), drawn.getrandbits(32)
    disk, known, promises = BootDisk(number, cut.image), cut.known.copy(), cut.promises
    if way < _REBUILDS and not cut.excused:
        _lose_index(story, disk)
    forgets = _REBUILDS <= way < _REBUILDS + _FORGETS and not cut.excused
    if forgets:
        _lose_records(disk, drawn)
    storage = await open_storage(disk, story.config, known, f"{number} boot")
    if forgets:
        promises = copy_of(promises)
        await _collect(StoryBookie(storage, disk, promises, full=False), story)
        await storage.restore_blocks(await unindexed(storage))
    if way > 1 - _GOES_ON:
        promises = copy_of(promises)
        await _go_on(StoryBookie(storage, disk, promises, full=cut.excused), story, drawn)
        await storage.close()
        disk.process_crash()  # frees its locks
        storage = await open_storage(disk, story.config, known, f"{number} again")
    await check(storage, promises)
    if way > 0.5:
        await storage.close()
    else:
        disk.process_crash()
        await _drop_tasks()


def _lose_index(story: Story, disk: SimulatedDisk) -> None:
    """As if the index were damaged: `bookie rebuild-index` makes it anew."""
    paths = StoragePaths.of(story.config)
    if not disk.exists(paths.index):
        return  # in its first start
    disk.remove_tree(paths.index)
    try:
        rebuilt = rebuild_index(disk, story.config, lambda _progress: None)
    finally:
        disk.process_crash()
    assert not rebuilt.lost, f"the rebuilt index lacks {rebuilt.lost}"


def _lose_records(disk: SimulatedDisk, drawn: Random) -> None:
    """As no crash would leave the index: without some records of where entries are, or of which files they are in.

    Not of both: after some crashes the index alone knows the file of a compaction, until the next checkpoint.
    """
    first, end = drawn.choice(((b"I", b"J"), (b"L", b"M")))
    for _path, store in disk._stores():
        places = store.records.between(first, end)
        store.write(Batch((), tuple(each for each in places if drawn.random() < _FORGOTTEN)))
        store.sync()


async def _go_on(bookie: StoryBookie, story: Story, drawn: Random) -> None:
    """What was found is firm. Ledgers come and go, until the entry logs of before are full and collected."""
    storage = bookie.storage
    firm = await check(storage, bookie.promises, after_refusals=bookie.full)
    bookie.promises.clear()
    bookie.promises.update(firm)
    await _collect(bookie, story)
    await bookie.do(Step(do="add", ledger=LATER_LEDGER, ids=(5, 3, 4), wait_s=ANSWERED))
    if drawn.random() < 0.5:
        await check(storage, bookie.promises)


async def _collect(bookie: StoryBookie, story: Story) -> None:
    """Until the entry logs of before are full, and what is garbage in them was collected."""
    size = story.config.entry_log_bytes_max // 4
    for step in (
        Step(do="add", ledger=LATER_LEDGER, ids=(0, 1, 2)),
        Step(do="add", ledger=LATER_LARGE, ids=(0, 1, 2, 3), size=size, wait_s=ANSWERED),
        Step(do="checkpoint", wait_s=ANSWERED),
        Step(do="add", ledger=LATER_LARGE, ids=(4,), size=size, wait_s=ANSWERED),
        Step(do="checkpoint", wait_s=ANSWERED),
        Step(do="delete", ledger=LATER_LARGE),
        Step(do="fence", ledger=LATER_LEDGER, wait_s=ANSWERED),
        Step(do="checkpoint", wait_s=ANSWERED),
        Step(do="collect", wait_s=ANSWERED),
        Step(do="compact", wait_s=ANSWERED),
    ):
        await bookie.do(step)


async def _drop_tasks() -> None:
    """Of a storage whose process is dead."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
