"""Scenes of one reader over a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dlog.read.range import Place, ReadRange
from dlog.read.reader import Reader
from tests.helpers.log.memory_ledgers import MemoryLog

Scene = Callable[[MemoryLog], Coroutine[Any, Any, None]]


def play(request: pytest.FixtureRequest, scene: Scene) -> None:
    async def run() -> None:
        async with asyncio.timeout(20):
            await scene(await MemoryLog.create(request.node.name))

    asyncio.run(run())


async def payloads(reader: Reader, count: int | None = None) -> list[bytes | None]:
    found: list[bytes | None] = []
    if count == 0:
        return found
    async for message in reader:
        found.append(message.payload)
        if len(found) == count:
            break
    return found


UNTIL_LATEST = ReadRange(until=Place.LATEST)


async def two_ledgers(log: MemoryLog) -> None:
    log.add_ledger(3, (b"a", b"b"), (b"c",), sealed=True)
    log.add_ledger(5, (b"d",), (b"e", b"f"))
    await log.record(3, 5, seals={3: 1})
