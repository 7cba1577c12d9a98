"""However a writer's life goes, in the end every append is settled, nothing is buffered, and nothing runs on."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from dlog.client import LogClient
from dlog.errors import AppendAbortedError, AppendIndeterminateError, AppendsFailedError
from dlog.model import MessageId
from dlog.testing import SimulatedCluster, simulate
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError, LogStoreError
from tests.helpers.ledger.scripted_bookies import GUARD_S, until
from tests.helpers.log.scripted_log import ScriptedLog, scripted_log, store_of

STEPS = 25


class Life:
    """One writer, a tool that fences its ledgers, bookies that fall silent and a store that goes away."""

    def __init__(self, seed: int, log: ScriptedLog, client: LogClient, tool: LogClient) -> None:
        self.chance = random.Random(seed)
        self.log, self.client, self.tool = log, client, tool
        self.appends: list[asyncio.Future[MessageId]] = []
        self.beside: list[asyncio.Future[object]] = []

    async def live(self, writer: LogWriter) -> None:
        for _ in range(STEPS):
            await self.step(writer)
            if self.chance.random() < 0.3:
                await asyncio.sleep(self.chance.choice([0, 0.001, 0.01]))

    async def step(self, writer: LogWriter) -> None:
        roll = self.chance.random()
        if roll < 0.6:
            await self.append(writer)
        elif roll < 0.7:
            self.beside.append(asyncio.ensure_future(writer.rotate()))
        elif roll < 0.76:
            self.beside.append(asyncio.ensure_future(self.fence(writer.record.ledger_ids[-1])))
        elif roll < 0.84:
            self.chance.choice(self.log.bookies).be_silent()
        elif roll < 0.92:
            self.calm()
        else:
            store_of(self.client).away = True

    async def append(self, writer: LogWriter) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            try:
                future = writer.submit_nowait(b"%d" % len(self.appends))
            except LogStoreError:
                return
            self.appends.append(future)
            if self.chance.random() < 0.1:
                future.cancel()
            if self.chance.random() < 0.5:
                self.beside.append(asyncio.ensure_future(writer.flush()))

    async def fence(self, ledger_id: int) -> None:
        handle = await self.tool.ledgers.open_with_recovery(ledger_id)  # type: ignore[arg-type]  # it is one
        await handle.close()

    def calm(self) -> None:
        store_of(self.client).away = False
        for bookie in self.log.bookies:
            bookie.speak()

    async def end(self, writer: LogWriter) -> None:
        roll = self.chance.random()
        if roll < 0.3:
            writer.abort()
        elif roll < 0.6:
            with suppress(AppendsFailedError):  # the appends that it ends after this time
                await writer.close(timeout_s=0.2)
        elif roll < 0.8:
            self.calm()
            await self.tool.open_writer("orders", create=True)
        else:
            self.calm()
            with suppress(AppendsFailedError):  # those that the hold limit ends
                await writer.close()
        async with asyncio.timeout(10):
            await asyncio.shield(writer.over)

    async def check(self) -> None:
        """Acked is there at its id, rejected is not, indeterminate is there or nowhere; all in the order of the calls.

        Source: docs/log-semantics.md#i4 to #i6, #rule-6.
        """
        self.calm()
        async with self.tool.open_writer("orders", create=True):
            pass
        async with self.tool.reader("orders", until="latest") as reader:
            found = {message.payload: message.id async for message in reader}
        assert list(found) == sorted(found, key=lambda payload: int(payload or b""))
        for number, future in enumerate(self.appends):
            there = found.pop(b"%d" % number, None)
            if future.cancelled():
                continue
            error = future.exception()
            if error is None:
                assert there == future.result()
            elif isinstance(error, AppendIndeterminateError):
                assert there in (None, error.message_id)
            else:
                assert there is None, error
        assert found == {}


@pytest.mark.parametrize("seed", range(24))
async def test_every_life_ends_with_everything_settled(seed: int) -> None:
    async with scripted_log() as log:
        before = len(asyncio.all_tasks())
        async with log.client(hold_limit_s=1.0) as client, log.client() as tool:
            life = Life(seed, log, client, tool)
            writer = await client.open_writer("orders", create=True)
            await life.live(writer)
            await life.end(writer)
            assert all(future.done() for future in life.appends)
            assert writer.buffered_bytes == 0
            life.calm()
            async with asyncio.timeout(10):
                await asyncio.gather(*life.beside, return_exceptions=True)
            await life.check()
        await until(lambda: len(asyncio.all_tasks()) <= before, 5)


async def test_a_writer_whose_tasks_the_program_cancels_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that cancels all tasks of its loop before it closes its clients, here in the middle of a rotation.

    The next ledger would never be there, and to close the writer took as long as `hold_limit_s`.
    """

    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"a")
        monkeypatch.setattr(client.ledgers, "create", hang)
        before = asyncio.all_tasks()
        rotation = asyncio.ensure_future(writer.rotate())
        await asyncio.sleep(0.01)
        for task in asyncio.all_tasks() - before - {rotation}:
            task.cancel()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendAbortedError, match="cancelled by this program"):
                await rotation
            with pytest.raises(AppendAbortedError, match="cancelled by this program"):
                await writer.append(b"b")
            await writer.close()


def test_a_second_close_that_is_cancelled_leaves_the_first_one_alone() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            for number in range(3):
                cluster.network.clog(cluster.loop.node.name, f"bookie-{number}", 3.0)
            append = asyncio.create_task(writer.append(b"a"))
            first = asyncio.create_task(writer.close())
            await asyncio.sleep(0.1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(writer.close(), 0.1)
            await first
            assert append.result() is not None

    simulate(main)


async def test_an_append_whose_headers_end_the_writer_is_refused() -> None:
    """They are an iterable of the program; what a writer accepts after its end would never have an outcome."""
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)

        def headers() -> Iterator[tuple[bytes, bytes]]:
            writer.abort()
            yield b"name", b"value"

        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendAbortedError, match="is closed"):
                await writer.append(b"first", None, headers())


async def test_a_flush_refuses_a_time_that_is_none() -> None:
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        for wrong in (math.nan, math.inf, "1"):
            with pytest.raises(ConfigurationError, match="timeout_s must be a number or None"):
                await writer.flush(wrong)  # type: ignore[arg-type]
