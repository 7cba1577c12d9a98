"""Bookies that do what a test tells them, on real sockets, and a metadata store that fails when told.

The client under test is the whole production client. A scripted bookie keeps entries, fences and explicit LACs
like a real one; a test makes it mute, refusing, gone, or forgetful at the moment that matters.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig
from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore, Registration
from ledger.model import BookieId, BookieInfo, LedgerId, LedgerMetadata, Versioned
from ledger.wire import v2, v3
from ledger.wire.frame import FrameSplitter, frame
from ledger.wire.messages import (
    AddRequest,
    AddResponse,
    BatchReadRequest,
    BatchReadResponse,
    ForceLedgerRequest,
    ForceLedgerResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    V3AddRequest,
    V3AddResponse,
    V3ReadRequest,
    V3ReadResponse,
    V3Request,
    V3Response,
    V3ResponseBody,
    WriteLacRequest,
    WriteLacResponse,
)
from ledger.wire.status import Status
from ledger.writing.write_handle import WriteHandle

_names = itertools.count()

GUARD_S = 30.0
"""How long a test waits for what must come by itself, on a machine that does much else."""
NEVER_S = 600.0
"""A setting whose time must not come: a test that needed it to pass runs into its guard."""


class _Peer(asyncio.Protocol):
    def __init__(self, bookie: ScriptedBookie) -> None:
        self._bookie = bookie
        self._frames = FrameSplitter(8 * 1024 * 1024)
        self.transport: asyncio.Transport | None = None
        self._free_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # TCP servers make asyncio.Transport
        self._bookie.peers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._bookie.peers.discard(self)

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            self._bookie.take(self, bytes(body))
        self._throttle(len(data))

    def _throttle(self, size: int) -> None:
        assert self.transport is not None
        loop, transport = asyncio.get_running_loop(), self.transport
        self._free_at = max(self._free_at, loop.time()) + size / self._bookie.bytes_per_s
        if self._free_at - loop.time() > 0.01:
            transport.pause_reading()
            loop.call_at(self._free_at, lambda: transport.is_closing() or transport.resume_reading())

    def write(self, frame: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame)


class ScriptedBookie:
    def __init__(self) -> None:
        self.bookie_id = BookieId("")
        self.entries: dict[tuple[int, int], bytes] = {}
        self.fenced: set[int] = set()
        self.packets: dict[int, bytes] = {}
        self.frames: list[bytes] = []
        """What came, whole frames."""
        self.log: list[str] = []
        """What came, in words: "add 3", "fence -1", "write_lac", …"""
        self.peers: set[_Peer] = set()
        self.refuse_adds: Status | None = None
        self.refuse_reads: Status | None = None
        self.refuse_forces: Status | None = None
        self.refuse_lacs: Status | None = None
        self.last_entry_damaged = False
        """Reads of the last entry are errors, as on an Apache bookie whose entry log is damaged: READ_LAC answers EIO
        beside an explicit LAC, and ENOENTRY if there is none."""
        self.lac_unreadable = False
        """READ_LAC answers EIO and nothing else, as a bookie does whose disk has just failed to read."""
        self.claims = -1
        """The LAC that answers to long polls tell, true or not. They are given at once."""
        self.delay_s = 0.0
        self.bytes_per_s = math.inf
        """What it takes from each connection."""
        self.mute: Callable[[str], bool] = lambda what: False
        """Requests for which this holds are kept unanswered until `speak`."""
        self.late: Callable[[str], bool] = lambda what: False
        """Requests for which this holds are carried out at once and answered at `speak`, after all others."""
        self._unheard: list[tuple[_Peer, bytes]] = []
        self._unsaid: list[tuple[_Peer, bytes]] = []
        self._server: asyncio.Server | None = None
        self._registration: Registration | None = None
        self._port = 0

    # ---- life

    async def start(self, store: MetadataStore) -> None:
        await self.listen()
        self.bookie_id = BookieId(f"127.0.0.1:{self._port}")
        await self.register(store)

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Peer(self), "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def register(self, store: MetadataStore) -> None:
        self._registration = await store.register_bookie(
            BookieInfo(bookie_id=self.bookie_id, host="127.0.0.1", port=self._port)
        )

    async def become_read_only(self) -> None:
        assert self._registration is not None
        await self._registration.set_read_only(True)

    async def unregister(self) -> None:
        if self._registration is not None:
            await self._registration.close()
            self._registration = None

    def go_away(self) -> None:
        """Connections break and new ones are refused; what is stored stays."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for peer in list(self.peers):
            if peer.transport is not None:
                peer.transport.abort()

    def be_silent(self) -> None:
        """As SIGSTOP: connections are accepted, nothing is answered."""
        self.mute = lambda what: True

    def speak(self) -> None:
        """Answer everything that was kept, and what comes from now on."""
        self.mute = self.late = lambda what: False
        unheard, self._unheard = self._unheard, []
        for peer, body in unheard:
            self.frames.remove(frame(body))
            self.take(peer, body)
        self.answer_late()

    def answer_late(self) -> None:
        """Answer what was carried out and not answered; what is mute stays so."""
        unsaid, self._unsaid = self._unsaid, []
        for peer, answer in unsaid:
            peer.write(answer)

    # ---- requests

    def take(self, peer: _Peer, body: bytes) -> None:
        request: Any = v3.decode_request(body) if v3.looks_like_v3(body) else v2.decode_request(body)
        what = self._words(request)
        self.frames.append(frame(body))
        if self.mute(what):
            self._unheard.append((peer, body))
            return
        self.log.append(what)
        if isinstance(request, V3Request):
            answer = v3.encode_response(self._answer_v3(request))
        else:
            answer = v2.encode_response(self._answer_v2(request))
        if self.late(what):
            self._unsaid.append((peer, answer))
        elif self.delay_s:
            asyncio.get_running_loop().call_later(self.delay_s, peer.write, answer)
        else:
            peer.write(answer)

    def _words(self, request: Any) -> str:
        match request:
            case AddRequest():
                return f"add {request.entry_id}"
            case BatchReadRequest():
                return f"batch {request.entry_id}"
            case ReadRequest():
                return f"{'fence' if request.flags & 1 else 'read'} {request.entry_id}"
            case V3Request():
                return request.operation.name.lower()
        raise AssertionError(request)

    def _answer_v2(self, request: Any) -> Any:
        match request:
            case AddRequest():
                return AddResponse(
                    status=self._add(request), ledger_id=request.ledger_id, entry_id=request.entry_id
                )
            case BatchReadRequest():
                return self._batch(request)
            case ReadRequest():
                if request.flags & 1:
                    self.fenced.add(request.ledger_id)
                entry = self._entry(request.ledger_id, request.entry_id)
                return ReadResponse(
                    status=self._status(request.ledger_id, entry, request.entry_id),
                    ledger_id=request.ledger_id,
                    entry_id=request.entry_id,
                    entry=entry,
                )
        raise AssertionError(request)

    def _add(self, request: AddRequest) -> Status:
        if self.refuse_adds is not None:
            return self.refuse_adds
        if request.ledger_id in self.fenced and not request.flags & 2:
            return Status.EFENCED
        self.entries[request.ledger_id, request.entry_id] = bytes(request.entry)
        return Status.EOK

    def _batch(self, request: BatchReadRequest) -> BatchReadResponse:
        found: list[bytes] = []
        while (entry := self._entry(request.ledger_id, request.entry_id + len(found))) is not None and len(
            found
        ) < request.max_count:
            found.append(entry)
        return BatchReadResponse(
            status=Status.EOK if found else self._status(request.ledger_id, None),
            ledger_id=request.ledger_id,
            entry_id=request.entry_id,
            request_id=request.request_id,
            entries=tuple(found),
        )

    def _entry(self, ledger_id: int, entry_id: int) -> bytes | None:
        if entry_id < 0:
            if self.last_entry_damaged:
                return None
            entry_id = max((e for ledger, e in self.entries if ledger == ledger_id), default=-1)
        return self.entries.get((ledger_id, entry_id))

    def _status(self, ledger_id: int, entry: bytes | None, wanted: int = 0) -> Status:
        if self.refuse_reads is not None:
            return self.refuse_reads
        if self.last_entry_damaged and wanted < 0:
            return Status.EIO
        if entry is not None:
            return Status.EOK
        return Status.ENOENTRY if self._knows(ledger_id) else Status.ENOLEDGER

    def _knows(self, ledger_id: int) -> bool:
        return (
            ledger_id in self.fenced
            or ledger_id in self.packets
            or any(ledger == ledger_id for ledger, _ in self.entries)
        )

    def _answer_v3(self, request: V3Request) -> V3Response:
        body: V3ResponseBody
        match request.body:
            case WriteLacRequest(ledger_id=ledger_id):
                if self.refuse_lacs is None:
                    self.packets[ledger_id] = request.body.packet
                body = WriteLacResponse(status=self.refuse_lacs or Status.EOK, ledger_id=ledger_id)
            case ForceLedgerRequest(ledger_id=ledger_id):
                body = ForceLedgerResponse(status=self.refuse_forces or Status.EOK, ledger_id=ledger_id)
            case ReadLacRequest(ledger_id=ledger_id):
                last, packet = self._entry(ledger_id, -1), self.packets.get(ledger_id)
                missing = Status.ENOENTRY if packet is None else Status.EIO
                body = ReadLacResponse(
                    status=self.refuse_reads or (missing if last is None else Status.EOK),
                    ledger_id=ledger_id,
                    lac_packet=packet,
                    last_entry=last,
                )
                if self.lac_unreadable:
                    body = ReadLacResponse(status=Status.EIO, ledger_id=ledger_id)
            case V3ReadRequest(previous_lac=None):
                body = self._read_v3(request.body)
            case V3ReadRequest():
                body = self._poll(request.body)
            case V3AddRequest():
                body = self._add_v3(request.body)
            case _:
                raise AssertionError(request)
        return V3Response(txn_id=request.txn_id, operation=request.operation, status=body.status, body=body)

    def _add_v3(self, add: V3AddRequest) -> V3AddResponse:
        flags = 2 if add.recovery else 0
        status = self._add(AddRequest(master_key=add.master_key, entry=add.entry, flags=flags))
        return V3AddResponse(status=status, ledger_id=add.ledger_id, entry_id=add.entry_id)

    def _read_v3(self, read: V3ReadRequest) -> V3ReadResponse:
        if read.fencing:
            self.fenced.add(read.ledger_id)
        entry = self._entry(read.ledger_id, read.entry_id)
        return V3ReadResponse(
            status=self._status(read.ledger_id, entry, read.entry_id),
            ledger_id=read.ledger_id,
            entry_id=read.entry_id,
            entry=entry,
        )

    def _poll(self, poll: V3ReadRequest) -> V3ReadResponse:
        wanted = -1 if poll.previous_lac is None else poll.previous_lac + 1
        if self.claims < wanted:
            return V3ReadResponse(
                status=Status.ENOENTRY, ledger_id=poll.ledger_id, entry_id=-1, max_lac=self.claims
            )
        entry = self._entry(poll.ledger_id, wanted)
        return V3ReadResponse(
            status=Status.EOK,
            ledger_id=poll.ledger_id,
            entry_id=-1 if entry is None else wanted,
            entry=entry,
            max_lac=self.claims,
        )


class FaultyStore:
    """A store whose ledger writes and reads a test can make fail. All else goes to the real one."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.before_write: Callable[[], Awaitable[None]] | None = None
        self.after_write: Callable[[], Awaitable[None]] | None = None
        self.before_read: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        if self.before_write is not None:
            await self.before_write()
        version = await self._store.write_ledger(ledger_id, metadata, version)
        if self.after_write is not None:
            await self.after_write()
        return version

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        if self.before_read is not None:
            await self.before_read()
        return await self._store.read_ledger(ledger_id)


async def answer_lost() -> None:
    raise MetadataOutcomeUnknownError("the answer was lost")


async def store_away() -> None:
    raise MetadataUnavailableError("the store is away")


async def never() -> None:
    await asyncio.Event().wait()


class Cluster:
    def __init__(self, store: FaultyStore, bookies: list[ScriptedBookie], client: LedgerClient) -> None:
        self.store = store
        self.bookies = bookies
        self.client = client

    def of(self, bookie_id: BookieId) -> ScriptedBookie:
        return next(bookie for bookie in self.bookies if bookie.bookie_id == bookie_id)

    def ensemble(self, handle: WriteHandle) -> list[ScriptedBookie]:
        return [self.of(bookie_id) for bookie_id in handle.metadata.last_fragment.ensemble]

    def spares(self, handle: WriteHandle) -> list[ScriptedBookie]:
        return [bookie for bookie in self.bookies if bookie not in self.ensemble(handle)]

    async def recorded_copies(self, ledger_id: LedgerId, entry_id: int) -> int:
        """On how many members of its recorded ensemble the entry is."""
        metadata = (await self.store._store.read_ledger(ledger_id)).value
        members = metadata.fragment_of(entry_id).ensemble
        return sum((ledger_id, entry_id) in self.of(member).entries for member in members)


@asynccontextmanager
async def scripted_cluster(count: int = 3, **settings: float) -> AsyncIterator[Cluster]:
    store = await open_store(f"memory:scripted-{next(_names)}")
    await store.init_cluster()
    bookies = [ScriptedBookie() for _ in range(count)]
    for bookie in bookies:
        await bookie.start(store)
    faulty = FaultyStore(store)
    config = LedgerClientConfig(**settings)  # type: ignore[arg-type]  # all settings that tests use are numbers
    client = LedgerClient(faulty, config=config)  # type: ignore[arg-type]  # the rest is passed through
    await client.start()
    try:
        yield Cluster(faulty, bookies, client)
    finally:
        await client.close()
        for bookie in bookies:
            bookie.go_away()
            await bookie.unregister()
        await store.close()


async def until(condition: Callable[[], bool], timeout_s: float = GUARD_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.002)
