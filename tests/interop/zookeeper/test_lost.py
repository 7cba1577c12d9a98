"""ZooKeeper away while a writer appends: killed, or silent with its connections open.

No append may fail or be lost, and rotation goes on once it is back. DLOG_ZOOKEEPER_LOST_S says for how long it
is away; what is promised is a minute, and tests that run all day make do with a few seconds.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dlog.client import LogClient, connect
from dlog.config import LogConfig
from dlog.core.rotation_triggers import RotationLimits
from dlog.local.embedded import AsyncStandalone
from dlog.model import MessageId
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError
from tests.helpers.metadata.drivers import eventually_async
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = pytest.mark.integration

LOST_S = float(os.environ.get("DLOG_ZOOKEEPER_LOST_S", "5"))


class Load:
    """Appends at a pace of its own, whatever becomes of the ones before, until it is stopped."""

    def __init__(self, writer: LogWriter, pause_s: float = 0.01) -> None:
        self._writer = writer
        self._pause_s = pause_s
        self.acked: dict[bytes, MessageId] = {}
        self.longest_s = 0.0
        self.sent: list[bytes] = []
        self._pending: set[asyncio.Task[None]] = set()
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            payload = b"%d" % len(self.sent)
            self.sent.append(payload)
            self._pending.add(asyncio.create_task(self._append(payload)))
            await asyncio.sleep(self._pause_s)

    async def _append(self, payload: bytes) -> None:
        started = time.monotonic()
        self.acked[payload] = await self._writer.append(payload)
        self.longest_s = max(self.longest_s, time.monotonic() - started)

    async def stop(self) -> None:
        """On return every append has succeeded; the first that did not is raised."""
        self._running.cancel()
        await asyncio.gather(*self._pending)


@asynccontextmanager
async def written(server: ZooKeeperProcess, directory: Path, config: LogConfig) -> AsyncIterator[LogClient]:
    """Three bookies of ours on the server, and a client."""
    uri = f"zk+hierarchical://{server.address}{server.new_root()}"
    async with (
        AsyncStandalone(directory, metadata=uri, restart=False),
        await connect(uri, config=config) as client,
    ):
        yield client


@asynccontextmanager
async def away(server: ZooKeeperProcess, how: str) -> AsyncIterator[None]:
    server.kill() if how == "killed" else server.pause()
    try:
        yield
    finally:
        await asyncio.to_thread(server.start) if how == "killed" else server.resume()


async def check_all_there(client: LogClient, load: Load) -> None:
    async with client.reader("orders", until="latest") as reader:
        found = {message.payload: message.id async for message in reader}
    assert found == load.acked
    assert list(load.acked.values()) == sorted(load.acked.values())


@pytest.mark.parametrize("how", ["killed", pytest.param("paused", marks=pytest.mark.nightly)])
async def test_a_steady_writer_does_not_notice(fragile: ZooKeeperProcess, tmp_path: Path, how: str) -> None:
    async with (
        written(fragile, tmp_path, LogConfig()) as client,
        await client.open_writer("orders", create=True) as writer,
    ):
        load = Load(writer)
        await asyncio.sleep(0.5)
        before = await writer.rotate()
        await asyncio.sleep(0.1)  # a ledger that is still empty would not be replaced
        async with away(fragile, how):
            before_it, rotating = len(load.sent), asyncio.create_task(writer.rotate())
            await asyncio.sleep(LOST_S / 2)
            sent = list(load.sent)
            await asyncio.sleep(LOST_S / 2)
            # Those of the first half had the second half, and no ZooKeeper: they did not wait for it.
            assert len(sent) > before_it
            assert [payload for payload in sent if payload not in load.acked] == []
            if rotating.done():
                assert isinstance(rotating.exception(), LogStoreError)
        try:
            after = await rotating
        except LogStoreError:
            after = await rotated_again(writer, before)
        assert after > before
        await asyncio.sleep(0.5)
        await load.stop()
        print(f"{how} for {LOST_S} s: {len(load.acked)} appends, the longest took {load.longest_s:.3f} s")
        await check_all_there(client, load)


@pytest.mark.parametrize("how", ["killed", pytest.param("paused", marks=pytest.mark.nightly)])
async def test_a_writer_caught_in_a_rotation_waits_and_loses_nothing(
    fragile: ZooKeeperProcess, tmp_path: Path, how: str
) -> None:
    """It rotates all the time, so ZooKeeper goes wherever a rotation is; three times over."""
    config = LogConfig(rotation=RotationLimits(entries_max=10, interval_min_s=0.01))
    async with (
        written(fragile, tmp_path, config) as client,
        client.open_writer("orders", create=True) as writer,
    ):
        load = Load(writer)
        for _ in range(3):
            await asyncio.sleep(0.7)
            async with away(fragile, how):
                await asyncio.sleep(LOST_S / 3)
            # As the writer knows it: a call of this test could meet its own time limit before the session is back.
            count = len(writer.record.ledgers)

            async def rotated_since(count: int = count) -> bool:
                return len(writer.record.ledgers) > count + 2

            await eventually_async(rotated_since, 30)
        await load.stop()
        print(f"{how}: {len(load.acked)} appends, the longest took {load.longest_s:.3f} s")
        await check_all_there(client, load)


async def rotated_again(writer: LogWriter, before: int) -> int:
    """The ledger in use once a rotation succeeds; the first may still meet the session's end."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await writer.rotate()
            except LogStoreError:
                await asyncio.sleep(0.1)
