"""A log whose metadata is in ZooKeeper, on bookies of ours: the same program with another address."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dlog.client import connect
from ledger.metadata.drivers import open_store
from tests.helpers.metadata.drivers import eventually_async
from tests.helpers.processes.zookeeper import ZooKeeperProcess
from tests.helpers.repository import ROOT

START_S = 60.0
pytestmark = pytest.mark.integration


@contextmanager
def bookies(uri: str, directory: Path, count: int) -> Iterator[None]:
    """So many bookie processes, each with a directory and a free port of its own."""
    command = [sys.executable, "-m", "bookie_server", "start", "--metadata", uri, "--port", "0", "--data"]
    with ExitStack() as stack:
        for number in range(count):
            process = stack.enter_context(
                subprocess.Popen(
                    [*command, str(directory / f"bookie-{number}")],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            )
            stack.callback(process.terminate)
        yield


async def test_a_writer_goes_on_while_zookeeper_is_away(fragile: ZooKeeperProcess, tmp_path: Path) -> None:
    """Appends, rotation, takeover and a full read; between them ZooKeeper is killed under the appends."""
    uri = f"zk+hierarchical://{fragile.address}{fragile.new_root()}?session_timeout_ms=60000"
    store = await open_store(uri)
    await store.init_cluster()

    async def all_registered() -> bool:
        return len((await store.bookies()).writable) == 3

    sent: list[bytes] = []
    with bookies(uri, tmp_path, 3):
        await eventually_async(all_registered, START_S)
        async with connect(uri) as client:
            async with client.open_writer("orders", create=True) as writer:

                async def append(count: int) -> None:
                    for _ in range(count):
                        sent.append(b"%d" % len(sent))
                        await writer.append(sent[-1])

                await append(20)
                await writer.rotate()
                await append(20)
                fragile.kill()
                async with asyncio.timeout(30):
                    await append(100)
                await asyncio.to_thread(fragile.start)
                await writer.rotate()
                await append(20)
            async with client.open_writer("orders", create=True) as successor:
                sent.append(b"taken over")
                await successor.append(sent[-1])
            async with client.reader("orders", until="latest") as reader:
                assert [message.payload async for message in reader] == sent
        assert [ledger_id async for ledger_id in store.ledger_ids()] == [0, 1, 2, 3]
    await store.close()
