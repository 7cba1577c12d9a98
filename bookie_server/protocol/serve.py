"""Serve a request: one function for each kind, whatever version it came in.

Each asks the service and sends what the request's encoder makes of the outcome. What is in memory is answered
immediately; reads from disk wait in the connection's queue. A fencing read is answered when the fence is durable
(fencing.py). A long poll is answered when the LAC is higher than the reader's, when the ledger is fenced, or when its
time is up.

Protocol: docs/bookkeeper.md#bookie-answers, #v3-messages, #explicit-lac, #long-poll.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from bookie_server.net.peer import Peer
from bookie_server.protocol.fencing import fence
from bookie_server.protocol.long_poll import Waiter, Wake
from bookie_server.protocol.refusals import read_lac_status
from bookie_server.protocol.requests import (
    AddRun,
    Adds,
    Answered,
    BatchRead,
    BookieInfo,
    Force,
    ForceEncoder,
    LacEncoder,
    ListEntries,
    LongPoll,
    Read,
    ReadLac,
    Request,
    WriteLacs,
)
from bookie_server.protocol.service import status_of
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.stored_entry import StoredEntry
from ledger.buggify import buggify
from ledger.errors import LogStoreError
from ledger.wire.constants import LAST_ENTRY
from ledger.wire.status import Status
from ledger.wire.write_lac import WrittenLac

WAITING_BYTES = 1024
"""What the adds of one ledger that arrived together, or any other request, take of the connection's budget while they
wait for the journal, in addition to the adds' bytes: about what their objects occupy."""


def serve(peer: Peer, request: Request) -> None:
    """Serve one request: what arrived together, or one decoded frame."""
    match request:
        case Adds():
            peer.service.add(request.runs, _UnansweredAdds(peer, request).added)
        case WriteLacs():
            peer.adds_accepted(WAITING_BYTES * len(request.lacs))
            peer.service.write_lacs(request.lacs, partial(_written, peer, request.encoder))
        case Read() | BatchRead():
            _read(peer, request)
        case LongPoll():
            _long_poll(peer, request)
        case ReadLac():
            _read_lac(peer, request)
        case Force():
            peer.adds_accepted(WAITING_BYTES)
            peer.service.force(partial(_forced, peer, request.encoder))
        case ListEntries():
            _list_entries(peer, request)
        case BookieInfo():
            _bookie_info(peer, request)
        case Answered():
            peer.send(request.response)
        case _:
            assert_never(request)


# ---- adds and LACs


class _UnansweredAdds:
    """Adds that arrived together and take of the connection's budget until the last of their runs is answered."""

    __slots__ = ("_adds", "_byte_count", "_peer", "_runs")

    def __init__(self, peer: Peer, adds: Adds) -> None:
        self._peer = peer
        self._adds = adds
        self._runs = len(adds.runs)
        self._byte_count = adds.byte_count + WAITING_BYTES * self._runs
        peer.adds_accepted(self._byte_count)

    def added(self, runs: Sequence[AddRun], status: Status, conflicts: frozenset[int]) -> None:
        self._runs -= len(runs)
        if not self._runs:
            self._peer.adds_answered(self._byte_count)
        self._peer.send(self._adds.encoder.added(runs, status, conflicts))


def _written(peer: Peer, encoder: LacEncoder, lacs: Sequence[WrittenLac], status: Status) -> None:
    peer.adds_answered(WAITING_BYTES * len(lacs))
    peer.send(encoder.written(lacs, status))


def _forced(peer: Peer, encoder: ForceEncoder, status: Status) -> None:
    peer.adds_answered(WAITING_BYTES)
    peer.send(encoder.forced(status))


# ---- reads


def _read(peer: Peer, request: Read | BatchRead) -> None:
    peer.service.read_requests += 1
    if request.fence_key is None:
        _read_ledger(peer, request, peer.service.readable(request.ledger_id, request.entry_id))
    else:
        peer.adds_accepted(WAITING_BYTES)
        fence(peer.service, request.ledger_id, request.fence_key, partial(_read_fenced, peer, request))


def _read_fenced(peer: Peer, request: Read | BatchRead, ledger: StoredLedger | Status) -> None:
    peer.adds_answered(WAITING_BYTES)
    _read_ledger(peer, request, ledger)


def _read_ledger(peer: Peer, request: Read | BatchRead, ledger: StoredLedger | Status) -> None:
    """The read itself, once the ledger is known and, if the request fences, fenced."""
    if isinstance(ledger, Status):
        peer.send(request.encoder.refusal(ledger))
        return
    if isinstance(request, BatchRead):
        peer.read_later(partial(_read_batch, peer, request, ledger), urgent=request.urgent)
        return
    entry = peer.service.read_cached(ledger, request.entry_id) if peer.may_answer(request.urgent) else None
    if entry is None:
        peer.read_later(partial(_read_stored, peer, request, ledger), urgent=request.urgent)
    else:
        _send_entry(peer, request, ledger, entry)


async def _read_stored(peer: Peer, request: Read, ledger: StoredLedger) -> None:
    found = await peer.service.read(ledger, request.entry_id)
    if found.status is Status.EOK:
        _send_entry(peer, request, ledger, found.entry)
    else:
        peer.send(request.encoder.refusal(found.status))


def _send_entry(peer: Peer, request: Read, ledger: StoredLedger, entry: StoredEntry) -> None:
    lac = ledger.lac if request.fence_key is None else None
    peer.send(*request.encoder.entry(entry, lac))


async def _read_batch(peer: Peer, request: BatchRead, ledger: StoredLedger) -> None:
    count_max = 1 if buggify("bookie.short-batch") else request.count_max
    status, entries = await peer.service.read_batch(ledger, request.entry_id, count_max, request.bytes_max)
    encoder = request.encoder
    peer.send(encoder.entries(entries) if status is Status.EOK else encoder.refusal(status))


# ---- long poll


def _long_poll(peer: Peer, request: LongPoll) -> None:
    ledger = peer.service.readable(request.ledger_id, request.entry_id)
    # A ledger that is unknown here may get its first entry: refused immediately, every reader at the tail of an empty
    # ledger would ask again several times a second.
    if isinstance(ledger, Status) and (ledger is not Status.ENOLEDGER or request.timeout_s <= 0):
        peer.send(request.encoder.refusal(ledger))
    elif request.piggyback and request.entry_id != LAST_ENTRY:
        peer.send(request.encoder.refusal(Status.EBADREQ))
    elif isinstance(ledger, StoredLedger) and (request.timeout_s <= 0 or ledger.lac > request.previous_lac):
        _end_poll(peer, request, ledger, None)
    elif peer.service.watchers.full or not peer.may_wait:
        peer.send(request.encoder.refusal(Status.ETOOMANYREQUESTS))
    else:
        _wait(peer, request)


def _wait(peer: Peer, request: LongPoll) -> None:
    def woken(why: Wake) -> None:
        peer.unwatch(waiter)
        ledger = peer.service.readable(request.ledger_id, request.entry_id)
        if isinstance(ledger, Status):
            peer.send(request.encoder.refusal(ledger))
        else:
            _end_poll(peer, request, ledger, peer.service.wall_ms() if why is Wake.ADVANCED else None)

    watchers = peer.service.watchers
    waiter: Waiter = watchers.wait(request.ledger_id, request.previous_lac, request.timeout_s, woken)
    peer.watch(waiter)


def _end_poll(peer: Peer, request: LongPoll, ledger: StoredLedger, updated_ms: int | None) -> None:
    """Respond with what is known now: the wait is over, or there was none."""
    encoder = request.encoder
    if not request.piggyback:
        plain = Read(
            ledger_id=request.ledger_id,
            entry_id=request.entry_id,
            fence_key=None,
            urgent=request.urgent,
            encoder=encoder,
        )
        _read_ledger(peer, plain, ledger)
    elif ledger.lac > request.previous_lac:
        _send_next(peer, request, ledger, updated_ms)
    elif ledger.limbo:
        peer.send(encoder.refusal(Status.EUNKNOWNLEDGERSTATE))
    elif ledger.last_entry < 0 and ledger.lac < 0:
        peer.send(encoder.refusal(Status.ENOENTRY))
    else:
        peer.send(encoder.lac(ledger.lac, None))


def _send_next(peer: Peer, request: LongPoll, ledger: StoredLedger, updated_ms: int | None) -> None:
    """The entry after the reader's LAC, or only the LAC if this bookie is not in that entry's write set."""
    entry_id = request.previous_lac + 1
    entry = peer.service.read_cached(ledger, entry_id) if peer.may_answer(False) else None
    if entry is None:
        peer.read_later(partial(_read_next, peer, request, ledger, updated_ms), urgent=False)
    else:
        peer.send(request.encoder.next_entry(entry_id, entry, ledger.lac, updated_ms))


async def _read_next(peer: Peer, request: LongPoll, ledger: StoredLedger, updated_ms: int | None) -> None:
    entry_id = request.previous_lac + 1
    found = await peer.service.read(ledger, entry_id)
    if found.status is Status.EOK:
        peer.send(request.encoder.next_entry(entry_id, found.entry, ledger.lac, updated_ms))
    elif found.status is Status.ENOENTRY:
        peer.send(request.encoder.lac(ledger.lac, updated_ms))
    else:
        peer.send(request.encoder.refusal(found.status))


# ---- LAC


def _read_lac(peer: Peer, request: ReadLac) -> None:
    ledger = peer.service.readable(request.ledger_id, LAST_ENTRY)
    if ledger is Status.ENOLEDGER:
        # No response to this operation means "no such ledger"; ENOENTRY says that there is nothing.
        peer.send(request.encoder.refusal(Status.ENOENTRY))
    elif isinstance(ledger, Status):
        peer.send(request.encoder.refusal(ledger))
    else:
        last = peer.service.read_cached(ledger, LAST_ENTRY) if peer.may_answer(request.urgent) else None
        if last is None:
            peer.read_later(partial(_read_last, peer, request, ledger), urgent=request.urgent)
        else:
            _send_lac(peer, request, ledger, last)


async def _read_last(peer: Peer, request: ReadLac, ledger: StoredLedger) -> None:
    last = await peer.service.read(ledger, LAST_ENTRY)
    if last.status not in (Status.EOK, Status.ENOENTRY):
        # Apache's bookie responds ENOENTRY even when its entry log is lost; "unknown" must not look like a "no".
        peer.send(request.encoder.refusal(last.status))
    else:
        _send_lac(peer, request, ledger, last.entry if last.status is Status.EOK else None)


def _send_lac(peer: Peer, request: ReadLac, ledger: StoredLedger, last: StoredEntry | None) -> None:
    status = read_lac_status(ledger.explicit_lac, last is not None)
    peer.send(request.encoder.explicit_lac(status, ledger.explicit_lac, last))


# ---- list of entries


def _list_entries(peer: Peer, request: ListEntries) -> None:
    ledger = peer.service.readable(request.ledger_id, LAST_ENTRY)
    if isinstance(ledger, Status):
        peer.send(request.encoder.refusal(ledger))
    else:
        peer.read_later(partial(_send_ranges, peer, request, ledger), urgent=request.urgent)


async def _send_ranges(peer: Peer, request: ListEntries, ledger: StoredLedger) -> None:
    try:
        ranges = await peer.service.storage.entry_ranges(ledger)
    except LogStoreError as error:
        peer.send(request.encoder.refusal(status_of(error)))
        return
    peer.send(request.encoder.available(ranges))


# ---- disk space


def _bookie_info(peer: Peer, request: BookieInfo) -> None:
    space = peer.service.disk_room()
    total = space.total_bytes if request.total else None
    peer.send(request.encoder.info(total, space.free_bytes if request.free else None))
