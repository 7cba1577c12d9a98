"""Appends to a log: batches side by side, single messages as they come, and one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

from dlog.write.writer import LogWriter

MESSAGE_BYTES = 100
BATCH = 500
_BATCHES_AT_ONCE = 64


async def measure_append_many(writer: LogWriter, *, warm_up_s: float, seconds: float) -> float:
    """Messages acknowledged in a second, in batches of which some are always under way."""
    load = _BatchLoad(writer)
    tasks = [asyncio.create_task(load.run()) for _ in range(_BATCHES_AT_ONCE)]
    await asyncio.sleep(warm_up_s)
    before, started = load.acked, time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (load.acked - before) / (time.perf_counter() - started)
    load.running = False
    await asyncio.gather(*tasks)
    return rate


class _BatchLoad:
    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._payloads = [bytes(MESSAGE_BYTES)] * BATCH
        self.running = True
        self.acked = 0

    async def run(self) -> None:
        while self.running:
            message_ids = await self._writer.append_many(self._payloads)
            self.acked += len(message_ids)


async def measure_submit(writer: LogWriter, *, warm_up_s: float, seconds: float) -> float:
    """Messages a second from one caller that submits them singly; the last ack is waited for.

    The caller is held back by the writer's buffer alone, so the clock runs until all of them are acknowledged.
    """
    await _submit_for(writer, warm_up_s)
    started = time.perf_counter()
    count = await _submit_for(writer, seconds)
    return count / (time.perf_counter() - started)


async def _submit_for(writer: LogWriter, seconds: float) -> int:
    submit, payload, until = writer.submit, bytes(MESSAGE_BYTES), time.perf_counter() + seconds
    count, last = 0, await submit(payload)
    while time.perf_counter() < until:
        for _ in range(100):
            last = await submit(payload)
        count += 100
        await asyncio.sleep(0)  # `submit` returns at once while there is room
    await _settled(last)
    return count


async def _settled(last: Awaitable[Any]) -> None:
    """Acks come in the order of the calls, so the last one is the end."""
    await last


async def measure_latencies(writer: LogWriter, *, message_bytes: int, count: int) -> list[float]:
    """Seconds of every append when the next one waits for it."""
    payload = bytes(message_bytes)
    for _ in range(20):  # connections are made at the first append
        await writer.append(payload)
    latencies = []
    for _ in range(count):
        started = time.perf_counter()
        await writer.append(payload)
        latencies.append(time.perf_counter() - started)
    return latencies
