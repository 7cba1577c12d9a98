"""Connections of the pages: one request each, and no peer holds one for long, or keeps others out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from bookie_server.errors import PortTakenError
from bookie_server.monitoring import server as monitoring_server
from bookie_server.monitoring.request import Request
from bookie_server.monitoring.response import Response, json_response
from bookie_server.monitoring.server import CONNECTIONS_MAX, DROPPED_BYTES_MAX, MonitoringServer
from ledger.errors import ConfigurationError

GET = b"GET /health HTTP/1.1\r\nHost: b\r\n\r\n"


def echo(request: Request) -> Response:
    return json_response({"path": request.path})


@asynccontextmanager
async def serving() -> AsyncIterator[MonitoringServer]:
    server = await MonitoringServer.open("127.0.0.1", 0, echo)
    try:
        yield server
    finally:
        await server.close()


async def sent(port: int, *parts: bytes, half_closes: bool = False) -> bytes:
    """All that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if half_closes:
            writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b"reset"
    finally:
        writer.close()


async def test_a_request_gets_its_page_and_the_connection_ends() -> None:
    async with serving() as server:
        head, _, body = (await sent(server.port, GET + GET)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"Connection: close" in head
    assert json.loads(body) == {"path": "/health"}, "one response, for one request"
    assert f"Content-Length: {len(body)}".encode() in head


async def test_a_peer_may_half_close_after_its_request() -> None:
    async with serving() as server:
        assert (await sent(server.port, GET, half_closes=True)).startswith(b"HTTP/1.1 200")
        assert await sent(server.port, GET[:20], half_closes=True) in (b"", b"reset")


async def test_the_head_of_a_page_is_the_same_without_its_body() -> None:
    async with serving() as server:
        whole = await sent(server.port, GET)
        head = await sent(server.port, GET.replace(b"GET", b"HEAD"))
    assert whole.startswith(head) and head.endswith(b"\r\n\r\n") and whole != head


async def test_a_body_is_not_read_and_its_sender_gets_the_response_all_the_same() -> None:
    post = b"POST /health HTTP/1.1\r\nHost: b\r\nContent-Length: 1000000\r\n\r\n"
    async with serving() as server:
        found = await sent(server.port, post + bytes(500_000), bytes(500_000))
    assert found.startswith(b"HTTP/1.1 405 ") and b"\r\nAllow: GET, HEAD\r\n" in found


async def test_a_bad_request_gets_a_short_status_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server:
        assert (await sent(server.port, b"\x16\x03\x01")).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert (await sent(server.port, b"GET /" + b"a" * 3000)).startswith(b"HTTP/1.1 431 ")
    assert caplog.records == []


async def test_a_slow_request_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring_server, "HEAD_S", 0.05)
    async with serving() as server:
        assert (await sent(server.port, GET[:-1])).startswith(b"HTTP/1.1 408 ")
        assert await sent(server.port) in (b"", b"reset"), "nothing was asked"


async def test_a_peer_that_keeps_its_end_open_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring_server, "RESPONSE_S", 0.05)
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET)
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(30):
                while True:
                    writer.write(b"more")
                    await writer.drain()
                    await asyncio.sleep(0.01)
        writer.close()


async def test_a_peer_that_sends_on_after_its_request_is_not_read_for_long() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(GET)
        assert (await reader.readuntil(b"}\n")).startswith(b"HTTP/1.1 200")
        taken = 0
        with pytest.raises(TimeoutError):
            while taken < 100 * DROPPED_BYTES_MAX:
                writer.write(bytes(DROPPED_BYTES_MAX))
                async with asyncio.timeout(1):
                    await writer.drain()
                taken += DROPPED_BYTES_MAX
        assert taken < 50 * DROPPED_BYTES_MAX, "what the kernel holds for both ends"
        writer.transport.abort()


async def test_peers_that_ask_for_nothing_keep_no_other_out() -> None:
    async with serving() as server:
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(CONNECTIONS_MAX)]
        held[-1][1].write(GET[:20])
        assert (await sent(server.port, GET)).startswith(b"HTTP/1.1 200")
        with suppress(ConnectionError):
            assert await held[0][0].read() == b"", "the oldest makes way"
        _, last = held[-1]
        last.write(GET[20:])
        assert (await held[-1][0].read()).startswith(b"HTTP/1.1 200"), "others stay"
        for _, writer in held:
            writer.close()


async def test_a_close_ends_connections() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.sleep(0.01)
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_a_port_that_is_taken_and_a_foreign_host_are_named_with_their_option() -> None:
    async with serving() as server:
        with pytest.raises(PortTakenError, match=rf"127.0.0.1:{server.port} .* or give another --http-port$"):
            await MonitoringServer.open("127.0.0.1", server.port, echo)
    with pytest.raises(ConfigurationError, match="give an address of this machine as --http-host"):
        await MonitoringServer.open("192.0.2.1", 0, echo)
