"""The socket that commands of the same machine ask a running bookie over."""

from __future__ import annotations

import asyncio
import errno
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bookie_server.control import server as control_server
from bookie_server.control.messages import (
    REQUEST_BYTES_MAX,
    Command,
    Request,
    decode_answer,
    encode_request,
    files_of,
    files_result,
)
from bookie_server.control.server import CONNECTIONS_MAX, ControlSocket, Perform, socket_address
from bookie_server.errors import StorageError
from bookie_server.storage.compaction.space import FileSpace
from bookie_server.storage.config import StorageConfig
from bookie_server.tools.running_bookie import ask_running
from ledger.errors import BookieUnavailableError, UnavailableError
from tests.helpers.bookie.storage import small_config

SPACE = Request(Command.SPACE)


async def echo(request: Request) -> Any:
    return [request.command, request.threshold]


async def never(_: Request) -> Any:
    await asyncio.Event().wait()


@asynccontextmanager
async def serving(config: StorageConfig, perform: Perform) -> AsyncIterator[None]:
    control = await ControlSocket.open(config.ledger_directory, perform)
    try:
        yield
    finally:
        await control.close()


@asynccontextmanager
async def connected(
    config: StorageConfig,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    with socket_address(config.ledger_directory) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.fixture
def config(tmp_path: Path) -> StorageConfig:
    """In a directory whose path has more bytes than the address of a socket may."""
    made = small_config(tmp_path / ("long" * 40))
    made.ledger_directory.mkdir(parents=True)
    return made


async def ask(config: StorageConfig, request: Request) -> Any:
    return await asyncio.to_thread(ask_running, config, request)


async def test_a_directory_in_which_nothing_can_be_removed_does_not_keep_a_bookie_from_stopping(
    config: StorageConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an error of the file system, which then can only be read."""
    control = await ControlSocket.open(config.ledger_directory, echo)

    def unlink(self: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "unlink", unlink)
    await control.close()
    assert await ask(config, SPACE) is None, "the socket that stays is of no process"


async def test_a_running_bookie_is_asked(config: StorageConfig) -> None:
    async with serving(config, echo):
        assert await ask(config, Request(Command.COMPACT, 0.5)) == ["compact", 0.5]
        mode = (config.ledger_directory / "control").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    assert list(config.ledger_directory.iterdir()) == []


async def test_a_stopped_bookie_is_not(config: StorageConfig) -> None:
    assert await ask(config, SPACE) is None
    async with serving(config, echo):
        killed = config.ledger_directory / "killed"
        (config.ledger_directory / "control").rename(killed)
    killed.rename(config.ledger_directory / "control")
    assert await ask(config, SPACE) is None
    async with serving(config, echo):
        assert await ask(config, SPACE) == ["space", 0.0], "the next start takes its place"


async def test_the_reason_for_a_refusal_comes_to_the_client(config: StorageConfig) -> None:
    async def refuse(_: Request) -> Any:
        raise StorageError("the index is damaged")

    async with serving(config, refuse):
        with pytest.raises(UnavailableError, match=r"^the index is damaged$"):
            await ask(config, SPACE)


async def test_long_work_is_waited_for(config: StorageConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a client waits for a bookie that is silent."""
    monkeypatch.setattr(control_server, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr("bookie_server.tools.running_bookie._SILENT_S", 0.2)

    async def slow(_: Request) -> Any:
        await asyncio.sleep(0.5)
        return "done"

    async with serving(config, slow):
        assert await ask(config, SPACE) == "done"


async def test_a_bookie_serves_while_it_sends_a_long_answer(config: StorageConfig) -> None:
    """`bookie space` of one with a million ledgers: its event loop goes on between one file and the next."""
    turns, sent = 0, []

    def files() -> Iterator[FileSpace]:
        for each in range(100):
            sent.append(turns)
            yield FileSpace(each, Path("/log"), 10, {each: 5})

    async def space(_: Request) -> Any:
        asyncio.get_running_loop().call_soon(turn)
        return files_result(files())

    def turn() -> None:
        nonlocal turns
        turns += 1
        if len(sent) < 100:
            asyncio.get_running_loop().call_soon(turn)

    async with serving(config, space):
        assert len(files_of(await ask(config, SPACE))) == 100
    assert sent == sorted(set(sent)), "each one in a turn of its own"


async def test_a_bookie_that_is_silent_is_not_waited_for(
    config: StorageConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie_server.tools.running_bookie._SILENT_S", 0.2)
    async with serving(config, never):
        with pytest.raises(BookieUnavailableError, match="has not responded"):
            await ask(config, SPACE)


async def test_work_ends_with_its_client(config: StorageConfig) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work(_: Request) -> Any:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serving(config, work):
        async with connected(config) as (_, writer):
            writer.write(encode_request(SPACE))
            await asyncio.wait_for(began.wait(), 10)
            assert not ended.is_set()
        await asyncio.wait_for(ended.wait(), 10)


async def test_work_ends_with_the_bookie(config: StorageConfig) -> None:
    began = asyncio.Event()

    async def work(_: Request) -> Any:
        began.set()
        await asyncio.Event().wait()

    async with serving(config, work):
        asked = asyncio.create_task(ask(config, SPACE))
        await asyncio.wait_for(began.wait(), 10)
    with pytest.raises(BookieUnavailableError, match="closed the connection"):
        await asked


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        pytest.param(b"GET / HTTP/1.1\n", True, id="another protocol"),
        pytest.param(b"x" * (REQUEST_BYTES_MAX + 1), False, id="no end"),
        pytest.param(b"\0" * 20 + b"\n", True, id="zeros"),
    ],
)
async def test_garbage_is_refused_and_the_next_request_served(
    config: StorageConfig, sent: bytes, answered: bool
) -> None:
    async with serving(config, echo):
        async with connected(config) as (reader, writer):
            writer.write(sent)
            line = await asyncio.wait_for(reader.read(), 10) if not answered else await reader.readline()
            answer = decode_answer(line) if line else None
            assert (answer is not None and "does not know the request" in answer.error) == answered
        assert await ask(config, SPACE) == ["space", 0.0]


async def test_a_client_that_asks_nothing_is_not_waited_for(
    config: StorageConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_server, "_REQUEST_S", 0.1)
    async with serving(config, echo), connected(config) as (reader, writer):
        writer.write(b'{"command":')
        assert await asyncio.wait_for(reader.read(), 10) == b""


async def test_connections_are_limited(config: StorageConfig) -> None:
    async with serving(config, never):
        links = [connected(config) for _ in range(CONNECTIONS_MAX + 1)]
        opened = [await each.__aenter__() for each in links]
        last, _ = opened[-1]
        assert await asyncio.wait_for(last.read(), 10) == b""
        for each in links:
            await each.__aexit__(None, None, None)
