"""Connections of one bookie: its storage has no room, its disk hangs, a peer sends more than its share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bookie_server.config import Limits
from bookie_server.net.client_connection import SERVED_MAX, ClientConnection
from bookie_server.net.connections import Connections
from bookie_server.protocol.long_poll import LacWatchers
from bookie_server.protocol.service import BookieService
from bookie_server.storage.entry_logs.format import Block
from ledger.environment import SystemEnvironment
from ledger.wire import v3
from ledger.wire.constants import READ_RESPONSE_START
from ledger.wire.frame import FrameSplitter
from ledger.wire.messages import Operation, ReadFlag, V3ReadRequest, V3Request
from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, fence, read, read_answer
from tests.helpers.bookie.storage import open_storage
from tests.helpers.fuzz.targets.bookie import PeerTransport, feed, settled

_QUEUE_BYTES = 256 * 1024
_LEDGER = 4


@asynccontextmanager
async def _hanging_journal(
    directory: Path, queue_bytes: int = _QUEUE_BYTES, limits: Limits | None = None
) -> AsyncIterator[tuple[Connections, threading.Event]]:
    """The connections, and what lets the journal go on."""
    storage = await open_storage(directory, journal_queue_bytes_max=queue_bytes, single_write_bytes_min=0)
    host = Connections(limits or Limits(), BookieService(storage, LacWatchers(100, 1.0), SystemEnvironment()))
    gate = threading.Event()
    storage._journal_worker.submit(gate.wait, lambda *_: None)
    try:
        yield host, gate
    finally:
        gate.set()
        host.abort()
        await storage.close()


async def _until_read(transport: PeerTransport) -> None:
    """Until its connection is read; then nothing else has run since."""
    async with asyncio.timeout(20):
        while not transport.reading:  # noqa: ASYNC110 - it reports no event
            await asyncio.sleep(0)


def _adds(first: int) -> bytes:
    return b"".join(add(_LEDGER, first + each, bytes(4000)) for each in range(50))


def test_peers_that_come_again_and_again_add_nothing_while_there_is_no_room(tmp_path: Path) -> None:
    async def main() -> None:
        async with _hanging_journal(tmp_path) as (host, _):
            storage = host.service.storage
            for first in range(0, 5000, 50):
                connection, transport = host.make(), PeerTransport()
                connection.connection_made(transport)
                feed(connection, transport, _adds(first))
                connection.connection_lost(None)
            assert not storage.has_room
            assert storage.counts().journal_queued_bytes < 2 * _QUEUE_BYTES

    asyncio.run(main())


def test_fences_that_wait_for_the_journal_take_room(tmp_path: Path) -> None:
    """Each has a few bytes, and occupies many more."""

    async def main() -> None:
        async with _hanging_journal(tmp_path) as (host, _):
            for first in range(0, 5000, 100):
                connection, transport = host.make(), PeerTransport()
                connection.connection_made(transport)
                feed(connection, transport, b"".join(fence(first + each) for each in range(100)))
                connection.connection_lost(None)
            assert not host.service.storage.has_room
            assert host.service.ledger(1) is not None
            assert host.service.ledger(2000) is None

    asyncio.run(main())


@pytest.mark.parametrize(("ledger_count", "goes_on"), [(1, True), (100, False)])
def test_adds_of_many_ledgers_take_more_than_their_bytes(
    tmp_path: Path, ledger_count: int, goes_on: bool
) -> None:
    async def main() -> None:
        limits = Limits(connection_add_bytes_max=64 * 1024)
        async with _hanging_journal(tmp_path, 1024 * 1024, limits) as (host, gate):
            connection, transport = host.make(), PeerTransport()
            connection.connection_made(transport)
            feed(connection, transport, b"".join(add(each % ledger_count, each, b"") for each in range(100)))
            assert transport.reading == goes_on
            gate.set()
            await settled(connection)
            assert transport.reading

    asyncio.run(main())


@pytest.mark.parametrize("reads_all_the_same", [False, True])
def test_a_peer_that_comes_while_there_is_no_room_is_served_later(
    tmp_path: Path, reads_all_the_same: bool
) -> None:
    """As uvloop does, which begins to read after `connection_made`."""

    async def main() -> None:
        async with _hanging_journal(tmp_path) as (host, gate):
            first, transport = host.make(), PeerTransport()
            first.connection_made(transport)
            feed(first, transport, _adds(0) + _adds(50))
            assert not host.service.storage.has_room
            other, its_transport = host.make(), PeerTransport()
            other.connection_made(its_transport)
            its_transport.reading = reads_all_the_same
            request = add(_LEDGER + 1, 0)
            feed(other, its_transport, request)
            assert not its_transport.reading
            assert host.service.ledger(_LEDGER + 1) is None
            gate.set()
            await _until_read(its_transport)
            if not reads_all_the_same:
                feed(other, its_transport, request)
            await settled(other)
            assert len(its_transport.sent) == 1

    asyncio.run(main())


def test_a_peer_that_filled_the_room_is_read_after_the_others(tmp_path: Path) -> None:
    """A turn of the loop later: else the busiest one is read first each time, and fills it again."""

    async def main() -> None:
        async with _hanging_journal(tmp_path) as (host, gate):
            busy, its_transport = host.make(), PeerTransport()
            busy.connection_made(its_transport)
            other, transport = host.make(), PeerTransport()
            other.connection_made(transport)
            feed(busy, its_transport, _adds(0) + _adds(50))
            assert (its_transport.reading, transport.reading) == (False, False)
            gate.set()
            await _until_read(transport)
            assert not its_transport.reading
            feed(other, transport, add(_LEDGER + 1, 0))
            await settled(other)
            assert len(transport.sent) == 1
            await _until_read(its_transport)

    asyncio.run(main())


def test_peers_that_fill_the_room_take_turns(tmp_path: Path) -> None:
    async def main() -> None:
        async with _hanging_journal(tmp_path) as (host, gate):
            one, its_transport = host.make(), PeerTransport()
            one.connection_made(its_transport)
            other, transport = host.make(), PeerTransport()
            other.connection_made(transport)
            third, third_transport = host.make(), PeerTransport()
            third.connection_made(third_transport)
            feed(one, its_transport, _adds(0) + _adds(50))
            gate.set()
            await _until_read(transport)
            gate.clear()
            host.service.storage._journal_worker.submit(gate.wait, lambda *_: None)
            feed(other, transport, _adds(100) + _adds(150))
            await asyncio.sleep(0)
            reading = [each.reading for each in (its_transport, transport, third_transport)]
            assert reading == [False, False, False], "there is no room again"
            gate.set()
            await _until_read(its_transport)
            assert not transport.reading, "and now it is the turn of the first one"
            await _until_read(transport)

    asyncio.run(main())


def test_peers_that_come_again_and_again_read_no_more_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk was asked for it does, also for connections that are closed by then."""

    async def main() -> None:
        storage = await open_storage(tmp_path, read_cache_bytes_max=0)
        limits = Limits()
        host = Connections(limits, BookieService(storage, LacWatchers(100, 1.0), SystemEnvironment()))
        writer, transport = host.make(), PeerTransport()
        writer.connection_made(transport)
        feed(writer, transport, add(_LEDGER, 0))
        await settled(writer)
        await storage.checkpoint()
        lane = storage._reader._lanes[_LEDGER % len(storage._reader._lanes)]
        gate, reads, load = threading.Event(), list[int](), lane.load

        def counted(ledger_id: int, entry_id: int, ahead_bytes: int) -> list[Block]:
            reads.append(entry_id)
            return load(ledger_id, entry_id, ahead_bytes)

        monkeypatch.setattr(lane, "load", counted)
        lane.worker.submit(gate.wait, lambda *_: None)
        for _ in range(200):
            reader, transport = host.make(), PeerTransport()
            reader.connection_made(transport)
            feed(reader, transport, read(_LEDGER, 0))
            await asyncio.sleep(0)
            reader.connection_lost(None)
        last, transport = host.make(), PeerTransport()
        last.connection_made(transport)
        feed(last, transport, read(_LEDGER, 0))
        gate.set()
        async with asyncio.timeout(20):
            await settled(last)
        assert len(transport.sent) > 0
        assert len(reads) <= limits.reads_max + 1
        host.abort()
        await storage.close()

    asyncio.run(main())


def test_a_peer_with_many_requests_is_served_in_turns(tmp_path: Path) -> None:
    """Others are served between them. Its answers come in order, and so does what ends within a frame."""

    async def main() -> None:
        storage = await open_storage(tmp_path)
        host = Connections(Limits(), BookieService(storage, LacWatchers(100, 1.0), SystemEnvironment()))
        busy, transport = host.make(), PeerTransport()
        busy.connection_made(transport)
        other, its_transport = host.make(), PeerTransport()
        other.connection_made(its_transport)
        requests = b"".join(read(_LEDGER, each) for each in range(3 * SERVED_MAX + 1))

        assert feed(busy, transport, requests[:-5]) == b""
        assert 0 < len(_answered(transport)) <= SERVED_MAX
        assert not transport.reading
        feed(other, its_transport, read(_LEDGER, 0))
        assert _answered(its_transport) == [0]
        await settled(busy)
        assert _answered(transport) == list(range(3 * SERVED_MAX))
        assert transport.reading
        feed(busy, transport, requests[-5:])
        assert _answered(transport) == list(range(3 * SERVED_MAX + 1))
        host.abort()
        await storage.close()

    asyncio.run(main())


def test_what_a_peer_that_is_refused_sent_after_that_is_dropped(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path)
        host = Connections(Limits(), BookieService(storage, LacWatchers(100, 1.0), SystemEnvironment()))
        peer, transport = host.make(), PeerTransport()
        peer.connection_made(transport)
        many = read(_LEDGER, 0) * SERVED_MAX
        feed(peer, transport, many + b"\0\0\0\0" + add(_LEDGER, 0))
        await settled(peer)
        assert transport.closed
        assert host.service.ledger(_LEDGER) is None
        peer.connection_lost(None)
        host.abort()
        await storage.close()

    asyncio.run(main())


def test_one_host_has_no_more_than_half_of_all_long_polls(tmp_path: Path) -> None:
    """Others wait as before, and what it has is given back with its connection."""

    async def main() -> None:
        storage = await open_storage(tmp_path)
        watchers = LacWatchers(8, 60.0)
        host = Connections(Limits(long_polls_max=8), BookieService(storage, watchers, SystemEnvironment()))

        def polls(count: int, address: str) -> tuple[ClientConnection, PeerTransport]:
            connection, transport = host.make(), PeerTransport(address)
            connection.connection_made(transport)
            feed(connection, transport, _POLL * count)
            return connection, transport

        greedy, transport = polls(3, "127.0.0.1")
        _, more = polls(3, "127.0.0.1")
        assert (len(watchers), len(transport.sent), _statuses(more)) == (4, 0, [Status.ETOOMANYREQUESTS] * 2)
        _, other = polls(4, "127.0.0.2")
        assert (len(watchers), len(other.sent)) == (8, 0)
        greedy.connection_lost(None)
        _, again = polls(4, "127.0.0.1")
        assert (len(watchers), _statuses(again)) == (8, [Status.ETOOMANYREQUESTS])
        host.service.watchers.fenced(_LEDGER)
        await asyncio.sleep(0)
        assert (len(watchers), host.may_wait("127.0.0.1")) == (0, True)
        host.abort()
        await storage.close()

    asyncio.run(main())


_POLL = v3.encode_request(
    V3Request(
        txn_id=1,
        operation=Operation.READ_ENTRY,
        body=V3ReadRequest(
            ledger_id=_LEDGER, entry_id=-1, previous_lac=0, timeout_ms=60_000, flag=ReadFlag.PIGGYBACK
        ),
    )
)


def _statuses(transport: PeerTransport) -> list[Status]:
    return [v3.decode_response(body).outcome for body in FrameSplitter().feed(b"".join(transport.sent))]


def _answered(transport: PeerTransport) -> list[int]:
    """The entries of the answers to reads so far."""
    sent = b"".join(transport.sent)
    size = READ_RESPONSE_START.size
    return [read_answer(sent[start : start + size]).entry_id for start in range(0, len(sent), size)]
