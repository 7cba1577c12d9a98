"""Tails under takeovers, rotations and a killed bookie: every reader sees the same history, and nothing else.

The names in comments are those of the checks in docs/simulation.md: C1 no acknowledged message is lost or elsewhere,
C2 none that was never sent, C4 none twice, C5 all readers agree, C8 no holes, C10 once read, always readable, C11 ids
increase.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count

import pytest

import dlog.aio
from dlog.errors import AppendIndeterminateError, TakeoverContendedError, TakeoverLostError
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from ledger.errors import LogStoreError

pytestmark = pytest.mark.integration

END = b"end"
MESSAGES = 500
"""What each writer gets acknowledged before the next one takes the log over."""


class History:
    """What writers sent and were told."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.acked: dict[MessageId, bytes] = {}
        self.unknown: dict[MessageId, bytes] = {}

    async def append(self, writer: dlog.aio.LogWriter, payload: bytes) -> bool:
        """One append and its outcome; whether the writer may go on."""
        self.sent.add(payload)
        try:
            self.acked[await writer.append(payload)] = payload
        except AppendIndeterminateError as error:
            self.unknown[error.message_id] = payload
            return False
        except LogStoreError:
            return False
        return True


async def write(history: History, writer: dlog.aio.LogWriter, name: str) -> None:
    """Appends, sixteen at a time, until the log is lost; a rotation every now and then."""

    async def active_ledger(number: int) -> None:
        for index in count():
            if not await history.append(writer, f"{name}-{number}-{index}".encode()):
                return
            if number == 0 and index % 5 == 4:
                with suppress(LogStoreError):
                    await writer.rotate()

    await asyncio.gather(*(active_ledger(number) for number in range(16)))


async def follow(uri: str, log: str, seen: list[tuple[MessageId, bytes | None]], delay_s: float) -> None:
    await asyncio.sleep(delay_s)
    async with dlog.aio.connect(uri) as client, client.tail(log, start="earliest") as reader:
        async for message in reader:
            seen.append((message.id, message.payload))
            if message.payload == END:
                return


async def acked(history: History, total: int, writing: asyncio.Task[None]) -> None:
    """Return once this number of messages is acknowledged, with the writer still at work."""
    while len(history.acked) < total:
        assert not writing.done(), "it lost the log before anybody took it over"
        await asyncio.sleep(0.01)


async def take_over(client: dlog.aio.LogClient, log: str) -> dlog.aio.LogWriter:
    while True:
        with suppress(TakeoverLostError, TakeoverContendedError):
            return await client.open_writer(log, create=True)


async def test_all_readers_see_one_history(cluster: Standalone, log: str) -> None:
    """Six writers depose one another while the old ones go on, a bookie dies and returns, three tails follow."""
    history = History()
    tails: list[list[tuple[MessageId, bytes | None]]] = [[], [], []]
    async with asyncio.timeout(90), dlog.aio.connect(cluster.uri) as client:
        await client.create(log)
        following = [
            asyncio.create_task(follow(cluster.uri, log, seen, delay_s=0.7 * number))
            for number, seen in enumerate(tails)
        ]
        writing = []
        for number in range(6):
            writer = await take_over(client, log)
            writing.append(asyncio.create_task(write(history, writer, f"w{number}")))
            await acked(history, len(history.acked) + MESSAGES, writing[-1])
            if number == 1:
                await asyncio.to_thread(cluster.kill, 2)
            if number == 4:
                await asyncio.to_thread(cluster.restart, 2)
        last = await take_over(client, log)
        await asyncio.gather(*writing)
        assert await history.append(last, END)
        await asyncio.gather(*following)
        async with client.reader(log, until="latest") as reader:
            final = [(message.id, message.payload) async for message in reader]

    ids = [message_id for message_id, _ in final]
    assert ids == sorted(set(ids))  # C11
    assert all(seen == final for seen in tails)  # C5, C8, C10
    by_id = dict(final)
    assert {message_id: by_id.get(message_id) for message_id in history.acked} == history.acked  # C1
    payloads = [payload for _, payload in final]
    assert len(set(payloads)) == len(payloads)  # C4
    assert {payload for payload in payloads if payload is not None} <= history.sent  # C2
    for message_id, payload in history.unknown.items():
        assert payload not in payloads or by_id.get(message_id) == payload  # at its would-be id or nowhere
