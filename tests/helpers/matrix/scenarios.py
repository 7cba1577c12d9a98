"""What is played in every cell without killing anything. A scenario raises if a law is broken.

One side writes, the other reads, recovers or fences; `kill_scenarios.py` has those in which processes die.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from ledger.metadata.format.layout import LayoutType
from ledger.metadata.format.ledger import decode_ledger_metadata
from ledger.metadata.ledger_paths import ledger_path
from ledger.model import ENTRY_BYTES_MAX, DigestType, QuorumSizes
from ledger.wire.digest import make_digester
from tests.helpers.apache.java_client import filled, shown
from tests.helpers.ledger.appender import payload_of
from tests.helpers.matrix.cells import Scene
from tests.helpers.matrix.planted_entry import plant_entry
from tests.helpers.matrix.sides import PASSWORD, Fenced, Missing, Reader

Scenario = Callable[[Scene], Awaitable[None]]


class NotThere(Exception):
    """This cell cannot play the scenario: a client lacks the call."""


POLL_S = 20.0


def texts(count: int) -> list[str]:
    return [shown(payload_of(entry_id)) for entry_id in range(count)]


async def written_here_is_read_there(scene: Scene) -> None:
    """While the ledger is open up to what is confirmed, and whole once it is closed."""
    writer = await scene.writer.create(scene.digest)
    assert set(writer.ensemble) == {bookie.bookie_id for bookie in scene.members}
    assert await writer.add_many(30) == 29
    assert await writer.add(payload_of(30)) == 30
    early = await scene.other.open(writer.ledger_id, scene.digest, recover=False)
    # Only a writer that publishes its last add's confirmation lets a reader see that add at once.
    assert early.lac in (29, 30)
    assert await early.read_all() == texts(early.lac + 1)
    await writer.close()
    late = await scene.other.open(writer.ledger_id, scene.digest, recover=False)
    assert late.lac == 30
    assert await late.read_all() == texts(31)


async def left_open_and_recovered_there(scene: Scene) -> None:
    """At every length from none to a few entries; and what is recovered stays so for both."""
    for count in (0, 1, 2, 5):
        writer = await scene.writer.create(scene.digest)
        if count:
            await writer.add_many(count)
        recovered = await scene.other.open(writer.ledger_id, scene.digest, recover=True)
        assert recovered.lac == count - 1
        assert await recovered.read_all() == texts(count)
        await both_agree(scene, writer.ledger_id, count)


async def striped(scene: Scene) -> None:
    """Java's default sizes: every entry on two of three bookies, read while open, recovered, read again."""
    quorum = QuorumSizes(ensemble=3, write=2, ack=2)
    writer = await scene.writer.create(scene.digest, quorum=quorum)
    await writer.add_many(20)
    await writer.add(payload_of(20))
    early = await scene.other.open(writer.ledger_id, scene.digest, recover=False)
    assert early.lac in (19, 20)
    assert await early.read_all() == texts(early.lac + 1)
    recovered = await scene.other.open(writer.ledger_id, scene.digest, recover=True)
    assert recovered.lac == 20
    await both_agree(scene, writer.ledger_id, 21)


async def tail_that_nobody_acknowledged(scene: Scene) -> None:
    """An entry on one bookie may stay or go, on an ack quorum it must stay; both sides see the same ever after."""
    for copies in (1, 2):
        writer = await scene.writer.create(scene.digest)
        await writer.add_many(4)
        for bookie in random.sample(scene.members, copies):
            await asyncio.to_thread(plant_entry, bookie.port, writer.ledger_id, 4, scene.digest)
        recovered = await scene.other.open(writer.ledger_id, scene.digest, recover=True)
        assert recovered.lac in ((3, 4) if copies == 1 else (4,))
        assert await recovered.read_all() == texts(recovered.lac + 1)
        await both_agree(scene, writer.ledger_id, recovered.lac + 1)


async def live_writer_is_fenced(scene: Scene) -> None:
    """Its next add fails with the error that its users know, and nothing that it had acknowledged is gone."""
    writer = await scene.writer.create(scene.digest)
    await writer.add_many(10)
    recovered = await scene.other.open(writer.ledger_id, scene.digest, recover=True)
    assert recovered.lac == 9
    with pytest.raises(Fenced):
        await writer.add(payload_of(10))
    await both_agree(scene, writer.ledger_id, 10)


async def close_races_with_recovery(scene: Scene) -> None:
    """Writer and recovery close at once, while adds are under way: one result, with all that was acknowledged."""
    writer = await scene.writer.create(scene.digest)
    await writer.add_many(5)

    async def close() -> bool:
        with suppress(Fenced):
            await writer.close()
            return True
        return False

    recovering = asyncio.ensure_future(scene.other.open(writer.ledger_id, scene.digest, recover=True))
    await asyncio.sleep(random.choice((0, 0.002, 0.01)))
    closed = await close()
    recovered = await recovering
    assert recovered.lac == 4, f"the writer's close {'succeeded' if closed else 'was refused'}"
    await both_agree(scene, writer.ledger_id, 5)


async def adds_race_with_recovery(scene: Scene) -> None:
    """The fence falls between adds that follow each other: a prefix stays, all acknowledged entries in it."""
    writer = await scene.writer.create(scene.digest)
    acked = await writer.add_many(1)

    async def append() -> int:
        last = acked
        with suppress(Fenced):
            while True:
                last = await writer.add(payload_of(last + 1))
        return last

    appending = asyncio.ensure_future(append())
    await asyncio.sleep(0.01)
    recovered = await scene.other.open(writer.ledger_id, scene.digest, recover=True)
    async with asyncio.timeout(POLL_S):
        last = await appending
    assert recovered.lac >= last
    assert await recovered.read_all() == texts(recovered.lac + 1)
    await both_agree(scene, writer.ledger_id, recovered.lac + 1)


async def batch_reads(scene: Scene) -> None:
    """Windows by count and by size give a prefix of what was asked for, and together everything."""
    if scene.cell.wire == "v3" and scene.other.name == "java":
        raise NotThere("its version 3 has no batch read, and the call never returns")
    writer = await scene.writer.create(scene.digest)
    await writer.add_many(60)
    await writer.close()
    reader = await scene.other.open(writer.ledger_id, scene.digest, recover=False)
    assert await _in_windows(reader, 60, 7, 1 << 20) == texts(60)
    assert await _in_windows(reader, 60, 1000, 700) == texts(60)
    assert await reader.read_some(59, 10, 1 << 20) == texts(60)[59:]


async def _in_windows(reader: Reader, count: int, entries: int, size: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        window = await reader.read_some(len(found), min(entries, count - len(found)), size)
        assert 0 < len(window) <= entries
        found += window
    return found


async def long_poll_while_the_other_writes(scene: Scene) -> None:
    """A waiting reader hears of what is confirmed without asking again and again."""
    writer = await scene.writer.create(scene.digest)
    await writer.add_many(3)
    reader = await scene.other.open(writer.ledger_id, scene.digest, recover=False)
    for known in range(reader.lac, 6):
        waiting = asyncio.ensure_future(reader.wait_beyond(known, POLL_S))
        await asyncio.sleep(0.005)
        # The second add carries the news that the first is confirmed.
        await writer.add_many(2)
        assert await waiting > known
    await writer.close()
    assert (await (await scene.other.open(writer.ledger_id, scene.digest, recover=False)).read_all())[
        :6
    ] == texts(6)


async def deleted_there(scene: Scene) -> None:
    writer = await scene.writer.create(scene.digest)
    await writer.add_many(3)
    await writer.close()
    await scene.other.delete(writer.ledger_id)
    for side in (scene.writer, scene.other):
        with pytest.raises(Missing):
            await side.open(writer.ledger_id, scene.digest, recover=False)


async def largest_entry(scene: Scene) -> None:
    """The largest that our client takes: 500 bytes below the frame, so that both versions carry it."""
    size = ENTRY_BYTES_MAX - make_digester(DigestType[scene.digest], PASSWORD).overhead_bytes
    writer = await scene.writer.create(scene.digest, quorum=QuorumSizes(ensemble=2, write=2, ack=2))
    await writer.add(filled(size))
    await writer.close()
    reader = await scene.other.open(writer.ledger_id, scene.digest, recover=False)
    assert await reader.read_all() == [shown(filled(size))]
    await scene.other.delete(writer.ledger_id)


async def custom_metadata(scene: Scene) -> None:
    custom = {"application": b"orders", "empty": b"", "bytes": bytes(range(256))}
    writer = await scene.writer.create(scene.digest, custom)
    await writer.add_many(1)
    recovered = await scene.other.open(writer.ledger_id, scene.digest, recover=True)
    assert recovered.lac == 0
    metadata = decode_ledger_metadata(scene.kazoo.get(path_of(scene, writer.ledger_id))[0])
    assert dict(metadata.custom) == custom


async def metadata_keeps_its_bytes(scene: Scene) -> None:
    """Read, decoded, encoded and written with nothing changed, by either client: the same bytes, open or closed."""
    writer = await scene.writer.create(scene.digest, {"b": b"2", "a": b"1"})
    await writer.add_many(2)
    path = path_of(scene, writer.ledger_id)
    for _ in ("open", "closed"):
        before, _ = scene.kazoo.get(path)
        results = []
        for side in (scene.writer, scene.other):
            scene.kazoo.set(path, before)
            await side.rewrite_metadata(writer.ledger_id)
            results.append(scene.kazoo.get(path)[0])
        assert results[0] == results[1]
        assert replace(decode_ledger_metadata(before), c_token=0) == decode_ledger_metadata(results[0])
        await scene.other.open(writer.ledger_id, scene.digest, recover=True)


SCENARIOS: tuple[Scenario, ...] = (
    written_here_is_read_there,
    left_open_and_recovered_there,
    striped,
    tail_that_nobody_acknowledged,
    live_writer_is_fenced,
    close_races_with_recovery,
    adds_race_with_recovery,
    batch_reads,
    long_poll_while_the_other_writes,
    deleted_there,
    largest_entry,
    custom_metadata,
    metadata_keeps_its_bytes,
)


async def both_agree(scene: Scene, ledger_id: int, count: int) -> None:
    """Each side reads the same closed ledger, whether it would recover it or not."""
    for side, recover in ((scene.writer, True), (scene.other, False)):
        reader = await side.open(ledger_id, scene.digest, recover=recover)
        assert reader.lac == count - 1
        assert await reader.read_all() == texts(count)


def path_of(scene: Scene, ledger_id: int) -> str:
    return scene.cluster.root + ledger_path(LayoutType.HIERARCHICAL, ledger_id)
