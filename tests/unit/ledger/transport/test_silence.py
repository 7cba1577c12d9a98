"""A connection on which something is owed and nothing comes is given up; virtual time, no socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledger.config import Visibility
from ledger.core.append import AppendCommand, AppendMachine
from ledger.errors import BookieUnavailableError
from ledger.model import DigestType, LedgerId, QuorumSizes
from ledger.reading.bookie_reads import read_entry
from ledger.transport.v2_connection import V2Connection
from ledger.transport.v3_connection import V3Connection
from ledger.wire import v2
from ledger.wire.digest import make_digester
from ledger.wire.messages import AddResponse
from ledger.wire.status import Answer, Status
from ledger.writing.ensemble_member import EnsembleMember
from tests.helpers.simulation.disk import VirtualTimeLoop, run
from tests.helpers.wire.silent_transport import BOOKIE, SilentTransport, absent


def connected(connection: Any) -> Any:
    connection.connection_made(SilentTransport())
    return connection


def v2_connection() -> V2Connection:
    return connected(V2Connection(BOOKIE, 1000, 1000))


def test_silence_ends_it_for_all_callers() -> None:
    async def scene() -> None:
        connection = v2_connection()
        answer = connection.read(1, 2, 5.0)
        await asyncio.sleep(4.99)
        assert connection.lost is None
        await asyncio.sleep(0.02)
        assert isinstance(connection.lost, BookieUnavailableError) and connection._transport.aborted
        with pytest.raises(BookieUnavailableError, match="did not respond within 5 s"):
            await answer

    run(scene())


def test_silence_is_no_fault_while_nothing_is_pending() -> None:
    async def scene() -> None:
        connection = v2_connection()
        connection.read(1, 2, 5.0)
        await asyncio.sleep(1)
        connection.data_received(absent(2))
        await asyncio.sleep(1000)
        assert connection.lost is None

    run(scene())


def test_another_answer_shows_that_the_connection_lives() -> None:
    """The request that was not answered is its owner's to miss; asked again, it finds the silence."""

    async def scene() -> None:
        connection = v2_connection()
        digester = make_digester(DigestType.CRC32C, b"")
        first = asyncio.ensure_future(read_entry(connection, LedgerId(1), 2, digester, 5.0))
        await asyncio.sleep(1)
        connection.read(1, 3, 5.0)
        connection.data_received(absent(3))
        assert (await first).answer is Answer.UNKNOWN and connection.lost is None
        assert (await read_entry(connection, LedgerId(1), 2, digester, 5.0)).answer is Answer.UNKNOWN
        await asyncio.sleep(0)
        assert connection.lost is not None and asyncio.get_running_loop().time() < 10.1

    run(scene())


def test_a_cancelled_request_still_counts_as_pending() -> None:
    """A reader cancels whom it asked as soon as another replica has answered."""

    async def scene() -> None:
        connection = v2_connection()
        connection.read(1, 2, 5.0).cancel()
        await asyncio.sleep(5.1)
        assert connection.lost is not None

    run(scene())


def test_a_long_poll_may_be_silent_for_its_own_time() -> None:
    async def scene() -> None:
        connection: V3Connection = connected(V3Connection(BOOKIE, 1000, 1000))
        poll = asyncio.ensure_future(connection.wait_for_lac(1, 0, 30.0, 5.0))
        await asyncio.sleep(34.9)
        assert connection.lost is None
        with pytest.raises(BookieUnavailableError):
            await poll
        assert asyncio.get_running_loop().time() < 35.1

    run(scene())


def test_the_shortest_time_of_what_is_owed_counts() -> None:
    async def scene() -> None:
        connection: V3Connection = connected(V3Connection(BOOKIE, 1000, 1000))
        poll = asyncio.ensure_future(connection.wait_for_lac(1, 0, 30.0, 5.0))
        await asyncio.sleep(1)
        with pytest.raises(BookieUnavailableError, match="did not respond within 2 s"):
            await connection.read_lac(1, 2.0)
        assert asyncio.get_running_loop().time() == pytest.approx(3.0)
        await asyncio.gather(poll, return_exceptions=True)

    run(scene())


class _Owner:
    def __init__(self) -> None:
        self.lost: list[float] = []
        self.machine = AppendMachine(QuorumSizes(), Visibility.FAST)

    def execute(self, commands: list[AppendCommand]) -> None: ...

    def on_add_refused(self, member: EnsembleMember, entry_id: int, status: Status) -> None: ...

    def on_member_lost(self, member: EnsembleMember, error: Exception) -> None:
        self.lost.append(asyncio.get_running_loop().time())


def test_adds_that_are_still_owed_after_an_answer_count_from_there() -> None:
    async def scene() -> None:
        connection, owner = v2_connection(), _Owner()
        member = EnsembleMember(owner, 0, BOOKIE, 5.0)
        member.attach(LedgerId(1), connection)
        member.send_adds(b"three", 3)
        await asyncio.sleep(3)
        connection.data_received(v2.encode_response(AddResponse(status=Status.EOK, ledger_id=1, entry_id=0)))
        await asyncio.sleep(100)
        assert owner.lost == [pytest.approx(8.0)]

    run(scene())


def test_a_process_that_was_paused_blames_no_bookie() -> None:
    """What came meanwhile is unread when the timers run."""

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        connection = v2_connection()
        connection.read(1, 2, 5.0)
        loop._virtual.now += 60
        await asyncio.sleep(1)
        assert connection.lost is None
        await asyncio.sleep(60)
        assert connection.lost is not None

    run(scene())
