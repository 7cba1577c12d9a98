"""Entries over version 3: answers to adds reach the ledger's sink, answers to reads whoever asked."""

from __future__ import annotations

import asyncio

import pytest

from ledger.errors import BookieUnavailableError, UnauthorizedError
from ledger.model import BookieId
from ledger.transport.v3_connection import V3Connection
from ledger.wire import v3
from ledger.wire.messages import (
    Operation,
    ReadFlag,
    V3AddResponse,
    V3ReadRequest,
    V3ReadResponse,
    V3Response,
)
from ledger.wire.status import Status
from tests.helpers.wire.silent_transport import RecordingTransport


class Sink:
    unacknowledged_bytes = 0

    def __init__(self) -> None:
        self.told: list[object] = []

    def on_adds_acked(self, first: int, last: int) -> None:
        self.told.append((first, last))

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None:
        self.told.append(entry_ids)

    def on_add_refused(self, entry_id: int, status: Status) -> None:
        self.told.append((entry_id, status))

    def on_connection_lost(self, error: Exception) -> None:
        self.told.append(type(error))


def connect() -> tuple[V3Connection, RecordingTransport]:
    connection, wire = V3Connection(BookieId("b"), 1000, 1000), RecordingTransport()
    connection.connection_made(wire)  # type: ignore[arg-type]  # as much of a transport as it needs
    return connection, wire


def add_answer(ledger_id: int, entry_id: int, status: Status = Status.EOK) -> bytes:
    body = V3AddResponse(status=status, ledger_id=ledger_id, entry_id=entry_id)
    return v3.encode_response(V3Response(txn_id=9, operation=Operation.ADD_ENTRY, status=status, body=body))


async def test_answers_of_one_read_come_as_runs_of_each_ledger() -> None:
    connection, _ = connect()
    one, two, absent = Sink(), Sink(), Sink()
    connection.attach(1, one)
    connection.attach(2, two)
    connection.attach(3, absent)
    connection.detach(3, absent)
    frames = [add_answer(1, 0), add_answer(2, 7), add_answer(1, 1), add_answer(2, 5), add_answer(3, 0)]
    connection.data_received(b"".join(frames))
    assert (one.told, two.told, absent.told) == ([(0, 1)], [[7, 5]], [])


async def test_a_wide_gap_between_two_answers_costs_no_memory() -> None:
    connection, _ = connect()
    sink = Sink()
    connection.attach(1, sink)
    connection.data_received(add_answer(1, 0) + add_answer(1, 1 << 60))
    assert sink.told == [[0, 1 << 60]]


async def test_a_refusal_names_its_entry() -> None:
    connection, _ = connect()
    sink = Sink()
    connection.attach(1, sink)
    connection.data_received(add_answer(1, 4, Status.EFENCED))
    assert sink.told == [(4, Status.EFENCED)]


async def test_an_answer_that_names_no_entry_ends_the_connection() -> None:
    """So does a bookie answer that wants its clients to authenticate."""
    connection, _ = connect()
    sink = Sink()
    connection.attach(1, sink)
    bare = V3Response(txn_id=9, operation=Operation.ADD_ENTRY, status=Status.EUA, body=None)
    connection.data_received(v3.encode_response(bare))
    assert sink.told == [BookieUnavailableError]
    assert "EUA" in str(connection.lost)


@pytest.mark.parametrize(
    ("key", "flag"), [(None, None), (bytes(range(20)), ReadFlag.FENCE)], ids=["plain", "fencing"]
)
async def test_a_read_brings_status_and_entry(key: bytes | None, flag: ReadFlag | None) -> None:
    connection, wire = connect()
    pending = connection.read(1, 5, 5.0, fence_key=key, priority=key is not None)
    await asyncio.sleep(0)
    request = v3.decode_request(wire.sent[0][4:])
    assert isinstance(request.body, V3ReadRequest)
    assert (request.body.entry_id, request.body.flag, request.body.master_key) == (5, flag, key)
    assert request.high_priority == (key is not None)
    body = V3ReadResponse(status=Status.EOK, ledger_id=1, entry_id=5, entry=b"entry")
    answer = V3Response(txn_id=request.txn_id, operation=Operation.READ_ENTRY, status=Status.EOK, body=body)
    asyncio.get_running_loop().call_soon(connection.data_received, v3.encode_response(answer))
    status, entry = await pending
    assert (status, bytes(entry)) == (Status.EOK, b"entry")


async def test_a_refused_read_brings_its_status_alone() -> None:
    connection, wire = connect()
    pending = connection.read(1, 5, 5.0)
    await asyncio.sleep(0)
    request = v3.decode_request(wire.sent[0][4:])
    bare = V3Response(txn_id=request.txn_id, operation=Operation.READ_ENTRY, status=Status.EUA, body=None)
    connection.data_received(v3.encode_response(bare))
    assert await pending == (Status.EUA, memoryview(b""))


async def test_a_bookie_that_wants_authentication_reports_it_when_asked_for_its_lac() -> None:
    """It answers with a status and no body, which alone would tell nothing."""
    connection, _ = connect()
    asking = asyncio.ensure_future(connection.read_lac(1, 5.0))
    await asyncio.sleep(0)
    bare = V3Response(txn_id=1, operation=Operation.READ_LAC, status=Status.EUA, body=None)
    connection.data_received(v3.encode_response(bare))
    with pytest.raises(UnauthorizedError, match="authenticate themselves"):
        await asking


async def test_a_poll_of_any_length_is_sent() -> None:
    """Its time is a number of milliseconds of 64 bits. What cannot be sent must not count as pending either."""
    connection, wire = connect()
    polling = asyncio.ensure_future(connection.wait_for_lac(1, 4, 1e300, 5.0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    request = v3.decode_request(wire.sent[0][4:])
    assert isinstance(request.body, V3ReadRequest)
    assert (request.body.previous_lac, request.body.timeout_ms) == (4, 86_400_000)
    body = V3ReadResponse(status=Status.EOK, ledger_id=1, entry_id=-1, max_lac=7)
    answer = V3Response(txn_id=request.txn_id, operation=Operation.READ_ENTRY, status=Status.EOK, body=body)
    connection.data_received(v3.encode_response(answer))
    found = await polling
    assert found is not None and found.max_lac == 7
