"""Connections that are asked for after the end of their client or program, or while it comes, are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ledger.config import LedgerClientConfig
from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, BookieInfo
from ledger.transport.pool import ConnectionSet
from ledger.transport.v2_connection import V2Connection
from tests.helpers.simulation.disk import run
from tests.helpers.wire.silent_transport import BOOKIE


async def never(_bookie_id: BookieId) -> BookieInfo | None:
    await asyncio.Event().wait()
    raise AssertionError("nothing sets the event")


def connections(
    resolve: Callable[[BookieId], Awaitable[BookieInfo | None]] = never,
) -> ConnectionSet[V2Connection]:
    return ConnectionSet(lambda bookie_id: V2Connection(bookie_id, 1000, 1000), resolve, LedgerClientConfig())


def test_a_connection_asked_for_after_the_end_is_refused() -> None:
    async def scene() -> None:
        ended = connections()
        ended.end("the client is closed")
        with pytest.raises(BookieUnavailableError, match="the client is closed") as caught:
            await ended.get(BOOKIE)
        assert caught.value.bookie_id == BOOKIE

    run(scene())


def test_a_retired_set_makes_no_more_connections() -> None:
    async def scene() -> None:
        retired = connections()
        waiting = asyncio.ensure_future(retired.get(BOOKIE))
        await asyncio.sleep(0.1)
        retired.retire("the recovery is over")
        for attempt in (waiting, retired.get(BOOKIE)):
            with pytest.raises(BookieUnavailableError, match="the recovery is over"):
                await attempt

    run(scene())


def test_the_end_refuses_all_who_wait_for_one_attempt_and_cancels_none_of_them() -> None:
    async def scene() -> None:
        ended = connections()
        waiting = [asyncio.ensure_future(ended.get(BOOKIE)) for _ in range(2)]
        await asyncio.sleep(0.1)
        await ended.close("the client is closed")
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in answers] == 2 * [BookieUnavailableError]

    run(scene())


def test_a_bookie_with_a_name_is_connected_when_the_program_has_no_threads_any_more() -> None:
    """As in a function of `atexit`: asyncio looks names up in a thread, and raises RuntimeError when it gets none."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def named(bookie_id: BookieId) -> BookieInfo:
            return BookieInfo(bookie_id=bookie_id, host="localhost", port=port)

        await loop.shutdown_default_executor()
        connected = connections(named)
        assert (await connected.get(BOOKIE)).lost is None
        await connected.close("the test is over")
        server.close()
        await server.wait_closed()
        with pytest.raises(BookieUnavailableError, match=f"bookie {BOOKIE} at localhost:{port}"):
            await connections(named).get(BOOKIE)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(scene())
