"""Answers to writers of many ledgers are handled a portion a turn, so that what they send next leaves in between."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ledger.errors import BookieUnavailableError
from ledger.model import BookieId
from ledger.transport.entry_connection import ANSWERS_AT_ONCE, EntryConnection
from ledger.transport.v2_connection import V2Connection
from ledger.transport.v3_connection import V3Connection
from ledger.wire import v2, v3
from ledger.wire.messages import AddResponse, Operation, ReadResponse, V3AddResponse, V3Response
from ledger.wire.status import Status, to_v3
from ledger.wire.varint import varint
from ledger.wire.write_lac import LedgerLacs, WrittenLac, lac_answers
from tests.helpers.wire.silent_transport import RecordingTransport

BYTES_MAX = 1_000_000
LEDGERS = 2 * ANSWERS_AT_ONCE + 10


class Sink:
    unacknowledged_bytes = 0

    def __init__(self, events: list[object], ledger_id: int) -> None:
        self._events = events
        self._ledger_id = ledger_id

    def on_adds_acked(self, first: int, last: int) -> None:
        self._events.append((self._ledger_id, first, last))

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None:
        self._events.append((self._ledger_id, entry_ids))

    def on_add_refused(self, entry_id: int, status: Status) -> None:
        self._events.append((self._ledger_id, entry_id, status))

    def on_lac_written(self, lac: int, outcome: Status | Exception) -> None:
        self._events.append((self._ledger_id, lac, outcome))

    def on_connection_lost(self, error: Exception) -> None:
        self._events.append((self._ledger_id, type(error)))


def added(ledger_id: int, entry_id: int = 7) -> bytes:
    return v2.encode_response(AddResponse(status=Status.EOK, ledger_id=ledger_id, entry_id=entry_id))


def connected(events: list[object]) -> V2Connection:
    connection = V2Connection(BookieId("b"), BYTES_MAX, BYTES_MAX)
    connection.connection_made(RecordingTransport())  # type: ignore[arg-type]  # as much of one as it needs
    for ledger_id in range(LEDGERS + 1):
        connection.attach(ledger_id, Sink(events, ledger_id))
    return connection


async def turns_until(events: list[object], count: int) -> list[int]:
    """How many events there are after each turn of the loop, up to `count`."""
    found = [len(events)]
    while found[-1] < count:
        await asyncio.sleep(0)
        found.append(len(events))
        assert len(found) < 100
    return found


async def test_answers_to_adds_of_many_ledgers_come_a_portion_a_turn_and_in_order() -> None:
    """The last frame is cut; what comes later follows what was kept."""
    events: list[object] = []
    connection = connected(events)
    block = b"".join(map(added, range(LEDGERS)))
    connection.data_received(block[:-5])
    assert len(events) == ANSWERS_AT_ONCE
    assert max(await turns_until(events, LEDGERS - 1)) == LEDGERS - 1
    connection.data_received(block[-5:] + added(LEDGERS, 9))
    await turns_until(events, LEDGERS + 1)
    assert events == [*((ledger_id, 7, 7) for ledger_id in range(LEDGERS)), (LEDGERS, 9, 9)]


async def test_what_arrives_between_two_portions_is_handled_after_them() -> None:
    events: list[object] = []
    connection = connected(events)
    reading = connection.read(3, 0, 60.0)
    connection.data_received(b"".join(map(added, range(LEDGERS))))
    answer = ReadResponse(status=Status.EOK, ledger_id=3, entry_id=0, entry=b"entry")
    connection.data_received(v2.encode_response(answer) + added(LEDGERS))
    assert len(events) == 2 * ANSWERS_AT_ONCE and not reading.done()
    await turns_until(events, LEDGERS + 1)
    assert events == [(ledger_id, 7, 7) for ledger_id in range(LEDGERS + 1)]
    status, entry = await reading
    assert (status, bytes(entry)) == (Status.EOK, b"entry")


async def test_a_run_of_one_ledger_is_handled_whole() -> None:
    events: list[object] = []
    connection = connected(events)
    connection.data_received(b"".join(added(3, entry_id) for entry_id in range(LEDGERS)))
    assert events == [(3, 0, LEDGERS - 1)]


async def test_answers_of_a_few_ledgers_are_handled_at_once_however_many_they_are() -> None:
    """Cut into portions, they would be batched less."""
    events: list[object] = []
    connection = connected(events)
    connection.data_received(b"".join(added(number % 2, number) for number in range(LEDGERS)))
    assert events == [(0, list(range(0, LEDGERS, 2))), (1, list(range(1, LEDGERS, 2)))]


async def test_what_is_kept_stays_bounded_however_much_a_bookie_sends_a_turn() -> None:
    """Answers that were sent again and again, to more ledgers than one turn handles."""
    events: list[object] = []
    connection = connected(events)
    received = b"".join(map(added, range(LEDGERS))) * 20
    turns = 50
    for _ in range(turns):
        connection.data_received(received)
        await asyncio.sleep(0)
    acked = sum(len(ids[0]) if len(ids) == 1 else 1 for _, *ids in cast(list[tuple[Any, ...]], events))
    assert turns * len(received) - acked * len(added(0)) < 10 * len(received)


async def test_a_connection_that_ends_takes_what_was_kept_with_it() -> None:
    """These answers count as lost, as those that were on the wire: their writers look elsewhere."""
    events: list[object] = []
    connection = connected(events)
    connection.data_received(b"".join(map(added, range(LEDGERS))))
    connection.connection_lost(None)
    await asyncio.sleep(0)
    acked, lost = events[:ANSWERS_AT_ONCE], events[ANSWERS_AT_ONCE:]
    assert acked == [(ledger_id, 7, 7) for ledger_id in range(ANSWERS_AT_ONCE)]
    assert lost == [(ledger_id, BookieUnavailableError) for ledger_id in range(LEDGERS + 1)]


async def test_a_broken_frame_in_a_kept_portion_ends_the_connection() -> None:
    events: list[object] = []
    connection: EntryConnection = connected(events)
    connection.data_received(b"".join(map(added, range(LEDGERS))) + bytes(4))
    assert connection.lost is None
    await turns_until(events, LEDGERS + LEDGERS + 1)
    assert connection.lost is not None
    assert "broke the protocol" in str(connection.lost)


async def test_answers_to_explicit_lacs_come_a_portion_a_turn_and_in_order() -> None:
    events: list[object] = []
    connection = V3Connection(BookieId("b"), BYTES_MAX, BYTES_MAX)
    connection.connection_made(RecordingTransport())  # type: ignore[arg-type]  # as much of one as it needs
    for ledger_id in range(LEDGERS):
        lac_write = LedgerLacs(ledger_id, bytes(20), 20).write(ledger_id + 1, 5, bytes(20))
        connection.write_lac(lac_write, Sink(events, ledger_id), 60.0)
    written_lacs = [
        WrittenLac(varint(ledger_id + 1), varint(ledger_id), ledger_id, bytes(20), bytes(20))
        for ledger_id in range(LEDGERS)
    ]
    connection.data_received(lac_answers(written_lacs, 0))
    assert len(events) == ANSWERS_AT_ONCE
    await turns_until(events, LEDGERS)
    assert events == [(ledger_id, 5, Status.EOK) for ledger_id in range(LEDGERS)]


async def test_an_answer_to_a_lac_reaches_its_sink_wherever_it_is_in_the_stream() -> None:
    """Answers in another order, with another status, cut, and next to those of other requests."""
    events: list[object] = []
    connection = V3Connection(BookieId("b"), BYTES_MAX, BYTES_MAX)
    connection.connection_made(RecordingTransport())  # type: ignore[arg-type]  # as much of one as it needs
    connection.attach(7, Sink(events, 7))
    for ledger_id in range(5):
        lac_write = LedgerLacs(ledger_id, bytes(20), 20).write(ledger_id + 1, 5, bytes(20))
        connection.write_lac(lac_write, Sink(events, ledger_id), 60.0)

    def answer(ledger_id: int, status: Status = Status.EOK) -> bytes:
        txn, ledger = varint(ledger_id + 1), varint(ledger_id)
        return lac_answers([WrittenLac(txn, ledger, ledger_id, bytes(20), bytes(20))], to_v3(status))

    body = V3AddResponse(status=Status.EOK, ledger_id=7, entry_id=0)
    response = V3Response(txn_id=9, operation=Operation.ADD_ENTRY, status=Status.EOK, body=body)
    block = b"".join(
        [answer(0), v3.encode_response(response), answer(2), answer(1, Status.EFENCED), answer(3), answer(4)]
    )
    connection.data_received(block[:-3])
    connection.data_received(block[-3:])
    assert events == [
        (0, 5, Status.EOK),
        (2, 5, Status.EOK),
        (1, 5, Status.EFENCED),
        (3, 5, Status.EOK),
        (7, 0, 0),
        (4, 5, Status.EOK),
    ]
    connection.data_received(answer(4))
    assert len(events) == 6, "it was answered before"
    assert connection.lost is None
