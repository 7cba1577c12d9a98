"""A client's connections to a bookie that answers anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

from ledger.errors import BookieUnavailableError
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.v2_connection import V2Connection
from ledger.transport.v3_connection import V3Connection
from ledger.wire import v3
from ledger.wire.messages import (
    ListEntriesRequest,
    Operation,
    ReadLacRequest,
    V3ReadRequest,
    V3RequestBody,
)
from ledger.wire.status import Status
from ledger.wire.write_lac import LedgerLacs
from tests.helpers.fuzz.cutting import Cutter, pieces
from tests.helpers.fuzz.target import Run, Target
from tests.helpers.wire.codecs import all_frames
from tests.helpers.wire.silent_transport import BOOKIE, SilentTransport

FRAME_BYTES_MAX = 2048
TIMEOUT_S = 1e6
LEDGERS = (7, 71000, 71100)
Events = tuple[list[tuple[object, ...]], bool]


class Sink:
    """Notes every answer to an add."""

    unacknowledged_bytes = 0

    def __init__(self, ledger_id: int, events: list[tuple[object, ...]]) -> None:
        self._ledger_id = ledger_id
        self._events = events

    def on_adds_acked(self, first: int, last: int) -> None:
        assert last - first < FRAME_BYTES_MAX
        self._events += [("added", self._ledger_id, each) for each in range(first, last + 1)]

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None:
        self._events += [("added", self._ledger_id, each) for each in entry_ids]

    def on_add_refused(self, entry_id: int, status: Status) -> None:
        self._events.append(("refused", self._ledger_id, entry_id, status))

    def on_connection_lost(self, error: Exception) -> None:
        assert isinstance(error, BookieUnavailableError)


def _v2(events: list[tuple[object, ...]]) -> V2Connection:
    connection = V2Connection(BOOKIE, 1 << 20, FRAME_BYTES_MAX)
    _begin(connection, events)
    for ledger_id in LEDGERS:
        for entry_id in (-1, 3, 3):
            _note(connection.read(ledger_id, entry_id, TIMEOUT_S), ("read", ledger_id, entry_id), events)
    for request_id in range(2):
        _note(connection.batch_read(request_id, b"", TIMEOUT_S), ("batch", request_id), events)
    return connection


def _v3(events: list[tuple[object, ...]]) -> V3Connection:
    connection = V3Connection(BOOKIE, 1 << 20, FRAME_BYTES_MAX)
    _begin(connection, events)
    for txn_id, operation in _asked():
        connection._last_txn_id = txn_id - 1
        future = connection.request(operation, _BODIES[operation], TIMEOUT_S)
        _note(future, (operation.name, txn_id), events)
    connection._last_txn_id = 0
    connection.write_lac(LedgerLacs(7, bytes(20), 6).write(1, 1, b"packet"), _NotedLac(1, events), TIMEOUT_S)
    return connection


_BODIES: dict[Operation, V3RequestBody] = {
    Operation.READ_ENTRY: V3ReadRequest(ledger_id=7, entry_id=0),
    Operation.READ_LAC: ReadLacRequest(ledger_id=7),
    Operation.LIST_ENTRIES: ListEntriesRequest(ledger_id=7),
}


@cache
def _asked() -> list[tuple[int, Operation]]:
    """What some of the recorded answers answer."""
    found: dict[tuple[int, Operation], None] = {}
    for golden in all_frames():
        if golden.is_v3 and not golden.is_request:
            answer = v3.decode_response(golden.body)
            if answer.operation in _BODIES:
                found[answer.txn_id, answer.operation] = None
    return list(found)[::3][:12]


class _NotedLac:
    def __init__(self, number: int, events: list[tuple[object, ...]]) -> None:
        self._number = number
        self._events = events

    def on_lac_written(self, lac: int, outcome: Status | Exception) -> None:
        if isinstance(outcome, Status):
            self._events.append(("lac written", self._number, outcome))


def _begin(connection: EntryConnection, events: list[tuple[object, ...]]) -> None:
    connection.connection_made(SilentTransport())  # type: ignore[arg-type]  # as much of a transport as it uses
    for ledger_id in LEDGERS:
        connection.attach(ledger_id, Sink(ledger_id, events))


def _note(future: asyncio.Future[object], what: tuple[object, ...], events: list[tuple[object, ...]]) -> None:
    def done(found: asyncio.Future[object]) -> None:
        if found.exception() is None:
            events.append((*what, _comparable(found.result())))

    future.add_done_callback(done)


async def _feed(make: Callable[[list[tuple[object, ...]]], EntryConnection], parts: list[bytes]) -> Events:
    events: list[tuple[object, ...]] = []
    connection = make(events)
    for part in parts:
        if connection.lost is None:
            connection.data_received(part)
    refused = connection.lost is not None
    assert connection.lost is None or isinstance(connection.lost, BookieUnavailableError)
    await asyncio.sleep(0)
    noted = list(events)
    connection.give_up("the input has ended")
    await asyncio.sleep(0)
    return sorted(noted, key=repr), refused


def _comparable(value: object) -> object:
    """A read is answered with a view of what was received."""
    return (
        tuple(bytes(part) if isinstance(part, memoryview) else part for part in value)
        if isinstance(value, tuple)
        else value
    )


def _session(
    make: Callable[[list[tuple[object, ...]]], EntryConnection],
) -> Callable[[], AbstractContextManager[Run]]:
    @contextmanager
    def session() -> Iterator[Run]:
        _asked()  # what is read once is no memory of the first input
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            problems: list[object] = []
            loop.set_exception_handler(lambda _, context: problems.append(context))

            async def both(data: bytes) -> None:
                cutter = Cutter(data)
                cuts = cutter.take(cutter.below(16))
                stream = cutter.rest()
                whole, refused = await _feed(make, [stream])
                in_pieces, refused_too = await _feed(make, list(pieces(stream, cuts)))
                assert refused == refused_too
                assert refused or in_pieces == whole
                assert not problems, problems

            yield lambda data: loop.run_until_complete(both(data))

    return session


def _answers(*, version_3: bool) -> Iterator[bytes]:
    found = [each.frame for each in all_frames() if not each.is_request and each.is_v3 is version_3]
    found = [each for each in found if len(each) < 500]
    for at in range(0, len(found), 3):
        yield b"\x03\x05\x1b\x02" + b"".join(found[at : at + 3])


TARGETS = [
    Target(
        name="client-v2",
        session=_session(_v2),
        corpus=lambda: _answers(version_3=False),
        memory_base=512 * 1024,
        cost=4,
    ),
    Target(
        name="client-v3",
        session=_session(_v3),
        corpus=lambda: _answers(version_3=True),
        memory_base=1 << 20,
        cost=4,
    ),
]
