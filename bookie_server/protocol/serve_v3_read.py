"""READ_ENTRY in its three modes (fence, long poll, plain) and the list of entries.

Plain answers carry the piggybacked LAC, fencing ones do not (docs/bookkeeper.md#v3-messages). A long poll
answers at once when the LAC is ahead already, else when it moves, when the ledger is fenced, or in time.
"""

from __future__ import annotations

from functools import partial

from bookie_server.net.peer import Peer
from bookie_server.protocol.fencing import fence
from bookie_server.protocol.long_poll import Waiter, Wake
from bookie_server.protocol.requests import LAST_ENTRY
from bookie_server.protocol.service import status_of
from bookie_server.protocol.v3_answer import answer, refuse
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.stored_entry import StoredEntry
from ledger.errors import LogStoreError
from ledger.wire.availability import encode_availability
from ledger.wire.constants import MASTER_KEY_BYTES
from ledger.wire.messages import (
    ListEntriesRequest,
    ListEntriesResponse,
    ReadFlag,
    V3ReadRequest,
    V3ReadResponse,
    V3Request,
)
from ledger.wire.status import Status


def serve(peer: Peer, request: V3Request, read: V3ReadRequest) -> None:
    if read.entry_id < LAST_ENTRY:
        refuse(peer, request, Status.EBADREQ)
    elif read.fencing:
        _fence(peer, request, read)
    elif read.previous_lac is not None:
        _long_poll(peer, request, read, read.previous_lac)
    else:
        _read(peer, request, read, peer.service.readable(read.ledger_id, read.entry_id))


# ---- fence


def _fence(peer: Peer, request: V3Request, read: V3ReadRequest) -> None:
    if read.master_key is None or len(read.master_key) != MASTER_KEY_BYTES:
        refuse(peer, request, Status.EUA)
    else:
        fence(peer.service, read.ledger_id, read.master_key, partial(_read, peer, request, read))


# ---- plain


def _read(peer: Peer, request: V3Request, read: V3ReadRequest, ledger: StoredLedger | Status) -> None:
    """The read itself, when the ledger is known and, if asked for, fenced."""
    if isinstance(ledger, Status):
        refuse(peer, request, ledger)
        return
    urgent = read.fencing or request.high_priority
    entry = peer.service.read_cached(ledger, read.entry_id) if peer.may_answer(urgent) else None
    if entry is None:
        peer.read_later(partial(_read_stored, peer, request, read, ledger), urgent=urgent)
    else:
        _answer_entry(peer, request, read, ledger, entry)


async def _read_stored(peer: Peer, request: V3Request, read: V3ReadRequest, ledger: StoredLedger) -> None:
    found = await peer.service.read(ledger, read.entry_id)
    if found.status is Status.EOK:
        _answer_entry(peer, request, read, ledger, found.entry)
    else:
        refuse(peer, request, found.status)


def _answer_entry(
    peer: Peer, request: V3Request, read: V3ReadRequest, ledger: StoredLedger, entry: StoredEntry
) -> None:
    body = V3ReadResponse(
        status=Status.EOK,
        ledger_id=read.ledger_id,
        entry_id=read.entry_id,
        entry=bytes(entry),
        max_lac=None if read.fencing else ledger.lac,
    )
    answer(peer, request, Status.EOK, body)


# ---- long poll


def _long_poll(peer: Peer, request: V3Request, read: V3ReadRequest, previous_lac: int) -> None:
    ledger = peer.service.readable(read.ledger_id, read.entry_id)
    if isinstance(ledger, Status):
        refuse(peer, request, ledger)
        return
    if read.flag is ReadFlag.PIGGYBACK and read.entry_id != LAST_ENTRY:
        refuse(peer, request, Status.EBADREQ)
        return
    timeout_ms = read.timeout_ms or 0
    if timeout_ms <= 0 or ledger.lac > previous_lac:
        _answer_poll(peer, request, read, ledger, None)
    elif peer.service.watchers.full or not peer.may_wait:
        refuse(peer, request, Status.ETOOMANYREQUESTS)
    else:
        _wait(peer, request, read, ledger, previous_lac, timeout_ms / 1000)


def _wait(
    peer: Peer,
    request: V3Request,
    read: V3ReadRequest,
    ledger: StoredLedger,
    previous_lac: int,
    timeout_s: float,
) -> None:
    def woken(why: Wake) -> None:
        peer.unwatch(waiter)
        advanced_ms = peer.service.wall_ms() if why is Wake.ADVANCED else None
        _answer_poll(peer, request, read, ledger, advanced_ms)

    waiter: Waiter = peer.service.watchers.wait(read.ledger_id, previous_lac, timeout_s, woken)
    peer.watch(waiter)


def _answer_poll(
    peer: Peer, request: V3Request, read: V3ReadRequest, ledger: StoredLedger, advanced_ms: int | None
) -> None:
    """What is known now; decided when the wait is over, or when there was none."""
    previous_lac = read.previous_lac
    assert previous_lac is not None, "a long poll has a previous LAC"
    if read.flag is not ReadFlag.PIGGYBACK:
        _read(peer, request, read, ledger)
    elif ledger.lac > previous_lac:
        _answer_next(peer, request, ledger, previous_lac + 1, advanced_ms)
    elif ledger.limbo:
        refuse(peer, request, Status.EUNKNOWNLEDGERSTATE)
    elif ledger.last_entry < 0 and ledger.lac < 0:
        refuse(peer, request, Status.ENOENTRY)
    else:
        _answer_lac(peer, request, ledger, None)


def _answer_next(
    peer: Peer, request: V3Request, ledger: StoredLedger, entry_id: int, advanced_ms: int | None
) -> None:
    """The entry after the reader's LAC, or only the LAC if this bookie is not in that entry's write set."""
    entry = peer.service.read_cached(ledger, entry_id) if peer.may_answer(False) else None
    if entry is None:
        peer.read_later(partial(_read_next, peer, request, ledger, entry_id, advanced_ms), urgent=False)
    else:
        _attach(peer, request, ledger, entry_id, advanced_ms, entry)


async def _read_next(
    peer: Peer, request: V3Request, ledger: StoredLedger, entry_id: int, advanced_ms: int | None
) -> None:
    found = await peer.service.read(ledger, entry_id)
    if found.status is Status.EOK:
        _attach(peer, request, ledger, entry_id, advanced_ms, found.entry)
    elif found.status is Status.ENOENTRY:
        _answer_lac(peer, request, ledger, advanced_ms)
    else:
        refuse(peer, request, found.status)


def _attach(
    peer: Peer,
    request: V3Request,
    ledger: StoredLedger,
    entry_id: int,
    advanced_ms: int | None,
    entry: StoredEntry,
) -> None:
    body = V3ReadResponse(
        status=Status.EOK,
        ledger_id=ledger.ledger_id,
        entry_id=entry_id,
        entry=bytes(entry),
        max_lac=ledger.lac,
        lac_update_ms=advanced_ms,
    )
    answer(peer, request, Status.EOK, body)


def _answer_lac(peer: Peer, request: V3Request, ledger: StoredLedger, advanced_ms: int | None) -> None:
    body = V3ReadResponse(
        status=Status.EOK,
        ledger_id=ledger.ledger_id,
        entry_id=LAST_ENTRY,
        max_lac=ledger.lac,
        lac_update_ms=advanced_ms,
    )
    answer(peer, request, Status.EOK, body)


# ---- list of entries


def list_entries(peer: Peer, request: V3Request, message: ListEntriesRequest) -> None:
    ledger = peer.service.readable(message.ledger_id, LAST_ENTRY)
    if isinstance(ledger, Status):
        refuse(peer, request, ledger)
    else:
        peer.read_later(partial(_list_entries, peer, request, ledger), urgent=request.high_priority)


async def _list_entries(peer: Peer, request: V3Request, ledger: StoredLedger) -> None:
    try:
        ranges = await peer.service.storage.entry_ranges(ledger)
    except LogStoreError as error:
        refuse(peer, request, status_of(error))
        return
    body = ListEntriesResponse(
        status=Status.EOK, ledger_id=ledger.ledger_id, availability=encode_availability(ranges)
    )
    answer(peer, request, Status.EOK, body)
