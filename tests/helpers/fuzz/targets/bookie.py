"""A bookie's connections, fed with anything: by themselves, and on a storage."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bookie_server.config import Limits
from bookie_server.net.client_connection import ClientConnection
from bookie_server.net.connections import Connections
from bookie_server.net.receive_buffer import SMALL_BYTES
from bookie_server.protocol.long_poll import LacWatchers
from bookie_server.protocol.requests import AddRun
from bookie_server.protocol.service import (
    NONE_REFUSED,
    BookieService,
    DiskRoom,
    OnAdded,
    OnLacs,
    OnStatus,
)
from bookie_server.storage.ledger_storage import LedgerStorage
from ledger.environment import SystemEnvironment
from ledger.errors import LogStoreError
from ledger.wire.status import Status
from ledger.wire.write_lac import WrittenLac
from tests.helpers.bookie.entries import KEY, add, batch_read, entry, fence, read, read_answer
from tests.helpers.bookie.storage import open_storage
from tests.helpers.fuzz.cutting import Cutter, pieces
from tests.helpers.fuzz.target import Run, Target
from tests.helpers.wire.codecs import all_frames

LIMITS = Limits(connections_per_address_max=10)
KNOWN = 424242
"""A ledger that the storage has from the beginning, with one entry."""
RUNS_PER_STORAGE = 2000


class PeerTransport(asyncio.Transport):
    """Keeps what is written, and takes it immediately."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        super().__init__({"peername": (address, 1)})
        self.sent: list[bytes] = []
        self.closed = False
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:  # type: ignore[override]
        self.sent.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def feed(connection: ClientConnection, transport: PeerTransport, data: bytes) -> bytes:
    """As an event loop does it: as much as there is space for, as long as it is open and not held. Returns the rest."""
    view = memoryview(data)
    while view and not transport.closed and transport.reading:
        space = connection.get_buffer(-1)
        count = min(len(space), len(view))
        assert count, "a connection that is read has space"
        space[:count] = view[:count]
        connection.buffer_updated(count)
        view = view[count:]
        assert connection.partial_bytes <= len(data) + SMALL_BYTES
    return bytes(view)


# ---- without a storage: what is sent follows from what was received alone


class _Room:
    has_room = True


class NoLedgers:
    """The service of a bookie that has no ledgers and takes every add: its answers do not depend on time."""

    storage = _Room()

    def __init__(self) -> None:
        self.watchers = LacWatchers(10, 10.0)
        self.read_requests = 0
        self.added: list[tuple[int, bytes, int, bytes, bool, bool]] = []

    def ledger(self, ledger_id: int) -> None:
        raise LogStoreError("there are no ledgers here")

    def add(self, runs: Sequence[AddRun], done: OnAdded) -> None:
        for run in runs:
            for entry_id, stored in zip(run.ids, run.entries, strict=True):
                self.added.append(
                    (run.ledger_id, bytes(run.key), entry_id, bytes(stored), run.recovery, run.priority)
                )
        done(runs, Status.EOK, NONE_REFUSED)

    def write_lacs(self, lacs: Sequence[WrittenLac], done: OnLacs) -> None:
        self.added += [(lac.ledger_id, bytes(lac.key), -1, bytes(lac.packet), False, False) for lac in lacs]
        done(lacs, Status.EOK)

    def force(self, done: OnStatus) -> None:
        done(Status.EOK)

    def readable(self, ledger_id: int, entry_id: int) -> Status:
        return Status.ENOENTRY

    def disk_room(self) -> DiskRoom:
        return DiskRoom(2**40, 2**39)


@contextmanager
def frames_session() -> Iterator[Run]:
    """However the bytes come, the same is added, the same is answered, and the same peers are refused."""
    with asyncio.Runner() as runner:
        loop, service = runner.get_loop(), NoLedgers()

        async def make_host() -> Connections:
            return Connections(LIMITS, service)  # type: ignore[arg-type]  # as much of one as is asked here

        host = loop.run_until_complete(make_host())

        async def both(data: bytes) -> None:
            cutter = Cutter(data)
            cuts = cutter.take(cutter.below(16))
            stream = cutter.rest()
            whole, closed = await _served(host, service, [stream])
            in_pieces, closed_too = await _served(host, service, list(pieces(stream, cuts)))
            assert closed == closed_too
            # A peer that is refused may miss answers that were ready; what it added was added all the same.
            assert whole[0] == in_pieces[0] if closed else whole == in_pieces

        yield lambda data: loop.run_until_complete(both(data))
        host.abort()


async def _served(host: Connections, service: NoLedgers, parts: list[bytes]) -> tuple[list[object], bool]:
    service.added = []
    connection, transport = host.make(), PeerTransport()
    connection.connection_made(transport)
    for part in parts:
        rest = feed(connection, transport, part)
        while not transport.reading and not transport.closed:
            await asyncio.sleep(0)
            rest = feed(connection, transport, rest)
    connection._flush()
    closed = transport.closed
    connection.connection_lost(None)
    assert len(host) == 0 and host.receive_budget.taken_bytes == 0
    # Adds that came together are gathered by ledger, so only the order within a ledger is the same.
    order = sorted(service.added, key=lambda added: added[:2])
    return [order, sorted(_frames(b"".join(transport.sent)))], closed


def _frames(sent: bytes) -> list[bytes]:
    found = []
    while sent:
        end = 4 + int.from_bytes(sent[:4], "big")
        assert 4 < end <= len(sent), "answers are whole frames"
        found.append(sent[:end])
        sent = sent[end:]
    return found


# ---- with a storage


class _Bookie:
    """A storage, a service and the connections, begun anew now and then because fuzzing fills it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs = 0
        self._number = 0
        self._storage: LedgerStorage | None = None
        self.host: Connections

    async def ready(self) -> Connections:
        if self._storage is None or self._runs >= RUNS_PER_STORAGE:
            await self.close()
            self._number += 1
            self._runs = 0
            self._storage = await open_storage(self._directory / str(self._number))
            service = BookieService(self._storage, LacWatchers(100, 0.01), SystemEnvironment())
            self.host = Connections(LIMITS, service)
            assert await self.ask(add(KNOWN, 0)) != b""
        self._runs += 1
        return self.host

    async def ask(self, request: bytes) -> bytes:
        """What a connection of its own answers to one request."""
        connection, transport = self.host.make(), PeerTransport()
        connection.connection_made(transport)
        feed(connection, transport, request)
        await settled(connection)
        connection.connection_lost(None)
        assert not transport.closed
        return b"".join(transport.sent)

    async def close(self) -> None:
        if self._storage is not None:
            self.host.abort()
            await self._storage.close()


async def settled(connection: ClientConnection) -> None:
    """Until nothing of it is being worked on. A fence that waits for the disk is nothing to the connection."""
    async with asyncio.timeout(20):
        while not connection.idle:  # noqa: ASYNC110 - it reports no event, and an input must not cost a pause
            await asyncio.sleep(0)


@contextmanager
def bookie_session() -> Iterator[Run]:
    """A peer may send anything: it is answered or closed, and the next connection is served."""
    with tempfile.TemporaryDirectory() as directory, asyncio.Runner() as runner:
        loop, bookie, problems = runner.get_loop(), _Bookie(Path(directory)), list[object]()
        loop.set_exception_handler(lambda _, context: problems.append(context))

        async def one(data: bytes) -> None:
            host = await bookie.ready()
            cutter = Cutter(data)
            cuts = cutter.take(cutter.below(16))
            connection, transport = host.make(), PeerTransport()
            connection.connection_made(transport)
            for part in pieces(cutter.rest(), cuts):
                feed(connection, transport, part)
            if not transport.closed:
                await settled(connection)
            connection.connection_lost(None)
            assert len(_frames(b"".join(transport.sent))) <= len(data)
            answer = read_answer(await bookie.ask(read(KNOWN, 0)))
            assert bytes(answer.entry or b"") == entry(KNOWN, 0)
            assert not problems, problems

        yield lambda data: loop.run_until_complete(one(data))
        loop.run_until_complete(bookie.close())


# ---- inputs to start from


def _requests() -> Iterator[bytes]:
    own = [add(1, 0), add(1, 1), fence(1), add(1, 2), read(1, 1), batch_read(1, 0), add(2, 0, key=bytes(20))]
    yield b"\0" + b"".join(own)
    yield b"\x05\1\x20\3\x50\x09" + b"".join(own)
    yield b"\x03\5\x1b\2" + add(3, 0) + add(4, 0) + add(3, 1) + add(4, 1, key=KEY, recovery=True)
    found = [each.frame for each in all_frames() if each.is_request and len(each.frame) < 500]
    for at in range(0, len(found), 3):
        yield b"\x03\x05\x1b\x02" + b"".join(found[at : at + 3])


TARGETS = [
    Target(
        name="bookie-frames",
        session=frames_session,
        corpus=_requests,
        memory_base=512 * 1024,
        cost=4,
    ),
    Target(
        name="bookie-connections",
        session=bookie_session,
        corpus=_requests,
        memory_base=8 << 20,  # a storage is opened within some inputs
        cost=8,
    ),
]
