"""What the `bookie` command says of a server that accepts and does not answer."""

from __future__ import annotations

import asyncio

import pytest

from bookie_server.tools import admin_connection
from bookie_server.tools.admin_connection import linked
from ledger.errors import BookieUnavailableError
from ledger.wire.messages import BookieInfoRequest, BookieInfoResponse, Operation


async def test_a_server_that_does_not_answer_is_reported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A timeout has no text of its own."""
    monkeypatch.setattr(admin_connection, "ANSWER_S", 0.05)
    loop = asyncio.get_running_loop()
    async with await loop.create_server(asyncio.Protocol, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BookieUnavailableError, match=rf"127\.0\.0\.1:{port} \(no response in time\):"):
            async with linked("127.0.0.1", port, 1024) as bookie:
                await bookie.ask(Operation.GET_BOOKIE_INFO, BookieInfoRequest(), BookieInfoResponse)


async def test_a_name_that_no_host_can_have_is_a_bookie_that_does_not_answer() -> None:
    with pytest.raises(BookieUnavailableError, match=r"no bookie answers at a\.\.b:3181"):
        async with linked("a..b", 3181, 1000):
            pass
