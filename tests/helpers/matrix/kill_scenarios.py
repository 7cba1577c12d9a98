"""What is played in every cell while a process is killed. A scenario raises if a law is broken.

All cells of one mix of bookies go through one kill: each prepares, waits at the moment, and goes on after it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ledger.errors import MetadataUnavailableError
from ledger.metadata.format.ledger import decode_ledger_metadata
from tests.helpers.ledger.appender import payload_of
from tests.helpers.matrix.cells import Scene
from tests.helpers.matrix.planted_entry import plant_entry
from tests.helpers.matrix.scenarios import both_agree, path_of, texts
from tests.helpers.matrix.sides import Fenced, Reader, Side, Writer

PATIENCE_S = 60.0


class Moment:
    """Something that happens once, when everybody who takes part is ready for it."""

    def __init__(self) -> None:
        self.waiting = 0
        self._past = asyncio.Event()

    async def reached(self) -> None:
        """Return once it has happened."""
        self.waiting += 1
        await self._past.wait()

    def is_over(self) -> None:
        self._past.set()


KillScenario = Callable[[Scene, list[Moment]], Awaitable[None]]


class Appender:
    """Appends payload_of(0), payload_of(1), … one after another, until it is stopped or fails."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.acked = -1
        self._wanted = True
        self._progress = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while self._wanted:
                entry_id = await self.writer.add(payload_of(self.acked + 1))
                assert entry_id == self.acked + 1
                self.acked = entry_id
                self._progress.set()
        finally:
            self._progress.set()

    async def reached(self, entry_id: int) -> None:
        """Return once this entry is acknowledged; raise what an append raised."""
        async with asyncio.timeout(PATIENCE_S):
            while self.acked < entry_id:
                if self._task.done():
                    await self._task
                self._progress.clear()
                await self._progress.wait()

    async def stop(self) -> int:
        """The last entry acknowledged; the writer goes on to live."""
        self._wanted = False
        async with asyncio.timeout(PATIENCE_S):
            await self._task
        return self.acked

    async def fenced(self) -> int:
        """The last entry acknowledged before an append was refused with the typed error."""
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Fenced):
                await self._task
        return self.acked


async def bookie_dies(scene: Scene, moments: list[Moment]) -> None:
    """Ledgers appended to through the death, fenced after it, left open, closed, and with a tail nobody confirmed."""
    through, rival = [Appender(await scene.writer.create(scene.digest)) for _ in range(2)]
    left_open, closed, tailed = [await scene.writer.create(scene.digest) for _ in range(3)]
    for writer in (left_open, closed, tailed):
        await writer.add_many(6)
    await closed.close()
    holder = random.choice(scene.members)
    await asyncio.to_thread(plant_entry, holder.port, tailed.ledger_id, 6, scene.digest)
    await through.reached(5)
    await rival.reached(5)
    (killed,) = moments
    await killed.reached()

    seen = await scene.other.open(closed.ledger_id, scene.digest, recover=False)
    assert await seen.read_all() == texts(6)
    recovered = await scene.other.open(left_open.ledger_id, scene.digest, recover=True)
    assert recovered.lac == 5
    assert await recovered.read_all() == texts(6)

    recovered = await scene.other.open(tailed.ledger_id, scene.digest, recover=True)
    assert recovered.lac in (5, 6)
    await both_agree(scene, tailed.ledger_id, recovered.lac + 1)

    await _until_changed(scene, through)
    await _until_changed(scene, rival)
    recovered = await scene.other.open(rival.writer.ledger_id, scene.digest, recover=True)
    acked = await rival.fenced()
    assert recovered.lac >= acked
    assert await recovered.read_all() == texts(recovered.lac + 1)

    await through.reached(through.acked + 10)
    last = await through.stop()
    await through.writer.close()
    await _closed_at(scene.other, through.writer.ledger_id, scene.digest, last)


async def zookeeper_dies(scene: Scene, moments: list[Moment]) -> None:
    """Appends go on without it; once it is back the ledgers are closed by their writer, and by the other."""
    kept, taken = [Appender(await scene.writer.create(scene.digest)) for _ in range(2)]
    await kept.reached(5)
    await taken.reached(5)
    killed, back = moments
    await killed.reached()
    for appender in (kept, taken):
        await appender.reached(appender.acked + 10)
    await back.reached()
    recovered = await _recovered_once_it_answers(scene, taken.writer.ledger_id)
    acked = await taken.fenced()
    assert recovered.lac >= acked
    assert await recovered.read_all() == texts(recovered.lac + 1)
    last = await kept.stop()
    await kept.writer.close()
    await _closed_at(scene.other, kept.writer.ledger_id, scene.digest, last)


async def _recovered_once_it_answers(scene: Scene, ledger_id: int) -> Reader:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await scene.other.open(ledger_id, scene.digest, recover=True)
            except MetadataUnavailableError:  # a client may still be looking for the server
                await asyncio.sleep(0.1)


async def _until_changed(scene: Scene, appender: Appender) -> None:
    """Return once the ledger goes on with another bookie in the dead one's place."""
    async with asyncio.timeout(PATIENCE_S):
        while len(_fragments(scene, appender.writer.ledger_id)) < 2:
            await appender.reached(appender.acked + 1)
            await asyncio.sleep(0.02)
    await appender.reached(appender.acked + 2)


def _fragments(scene: Scene, ledger_id: int) -> tuple[object, ...]:
    data, _ = scene.kazoo.get(path_of(scene, ledger_id))
    return decode_ledger_metadata(data).fragments


async def _closed_at(side: Side, ledger_id: int, digest: str, last: int) -> None:
    reader = await side.open(ledger_id, digest, recover=False)
    assert reader.lac == last
    assert await reader.read_all() == texts(last + 1)
