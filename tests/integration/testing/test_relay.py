"""The relay in front of a real server: what passes under each fault of a link, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dlog.testing.relay import Direction, Relay

pytestmark = pytest.mark.integration

ONE, OTHER = "127.0.0.11", "127.0.0.12"
NOT_YET_S = 0.2
SOON_S = 20.0
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EchoServer:
    """Sends back what it gets."""

    def __init__(self) -> None:
        self.received = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                self.received += data
                writer.write(data)
        except ConnectionError:
            return  # it was aborted
        finally:
            writer.transport.abort()


@asynccontextmanager
async def relayed() -> AsyncIterator[tuple[Relay, EchoServer]]:
    echo, relay = EchoServer(), Relay()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    await relay.open(server.sockets[0].getsockname())
    try:
        yield relay, echo
    finally:
        await relay.close()
        server.close()


@asynccontextmanager
async def client(relay: Relay, source: str = ONE) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def exchange(stream: Stream, data: bytes) -> bytes:
    stream[1].write(data)
    return await asyncio.wait_for(stream[0].readexactly(len(data)), SOON_S)


async def is_silent(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), NOT_YET_S)
    except TimeoutError:
        return True
    return False


async def is_closed(stream: Stream) -> bool:
    try:
        return await asyncio.wait_for(stream[0].read(1), SOON_S) == b""
    except ConnectionError:
        return True


async def test_what_waited_in_a_stalled_link_arrives_when_it_is_healed() -> None:
    async with relayed() as (relay, echo), client(relay) as stream:
        assert await exchange(stream, b"before") == b"before"
        relay.stall()
        stream[1].write(b"during")
        assert await is_silent(stream[0])
        assert echo.received == b"before"
        relay.heal()
        assert await stream[0].readexactly(6) == b"during"


async def test_a_fault_of_one_client_is_none_of_another() -> None:
    async with relayed() as (relay, _), client(relay) as stream, client(relay, OTHER) as other:
        relay.stall(ONE)
        assert await exchange(other, b"passes") == b"passes"
        stream[1].write(b"waits")
        assert await is_silent(stream[0])
        relay.heal(OTHER)
        assert await is_silent(stream[0])
        relay.heal(ONE)
        assert await stream[0].readexactly(5) == b"waits"


async def test_a_link_that_loses_responses_passes_requests() -> None:
    async with relayed() as (relay, echo), client(relay) as stream:
        relay.stall(directions=frozenset({Direction.RESPONSES}))
        stream[1].write(b"stored")
        assert await is_silent(stream[0])
        assert echo.received == b"stored"
        relay.heal()
        assert await stream[0].readexactly(6) == b"stored"


async def test_a_link_that_loses_requests_passes_responses() -> None:
    async with relayed() as (relay, echo), client(relay) as stream:
        assert await exchange(stream, b"one") == b"one"
        relay.stall(directions=frozenset({Direction.REQUESTS}))
        stream[1].write(b"two")
        assert await is_silent(stream[0])
        assert echo.received == b"one"


async def test_a_reset_loses_what_waits_and_accepts_the_next_connection() -> None:
    async with relayed() as (relay, echo):
        async with client(relay) as stream:
            assert await exchange(stream, b"one") == b"one"
            relay.stall()
            stream[1].write(b"lost")
            assert await is_silent(stream[0])
            relay.reset(OTHER)
            assert await is_silent(stream[0])
            relay.reset(ONE)
            relay.heal()
            assert await is_closed(stream)
        async with client(relay) as stream:
            assert await exchange(stream, b"two") == b"two"
        assert echo.received == b"onetwo"


async def test_a_cut_link_closes_new_connections_too() -> None:
    async with relayed() as (relay, _), client(relay) as stream, client(relay, OTHER) as other:
        assert await exchange(stream, b"one") == b"one"
        assert await exchange(other, b"one") == b"one"
        relay.cut(ONE)
        assert await is_closed(stream)
        async with client(relay) as again:
            assert await is_closed(again)
        assert await exchange(other, b"two") == b"two"
        relay.heal(ONE)
        async with client(relay) as again:
            assert await exchange(again, b"three") == b"three"


async def test_a_delayed_link_passes_everything_in_order() -> None:
    async with relayed() as (relay, _), client(relay) as stream:
        relay.delay(NOT_YET_S * 2, ONE)
        stream[1].write(b"one")
        assert await is_silent(stream[0])
        stream[1].write(b"two")
        assert await asyncio.wait_for(stream[0].readexactly(6), SOON_S) == b"onetwo"


async def test_what_waits_for_a_client_that_has_left_is_dropped() -> None:
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(str(context)))
    async with relayed() as (relay, echo):
        async with client(relay) as stream, client(relay, OTHER) as other:
            relay.stall(directions=frozenset({Direction.RESPONSES}))
            for each in (stream, other):
                each[1].write(b"answered to no one")
            assert await is_silent(stream[0])
            relay.reset(ONE)
        relay.heal()
        async with client(relay) as stream:
            assert await exchange(stream, b"next") == b"next"
        assert echo.received.endswith(b"next")
    assert problems == []
