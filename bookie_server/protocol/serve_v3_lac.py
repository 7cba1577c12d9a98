"""WRITE_LAC and READ_LAC: the LAC a writer or reader deposits without adding an entry.

An explicit LAC is journaled like an entry and answered when durable.

Protocol: docs/bookkeeper.md#explicit-lac.
"""

from __future__ import annotations

from functools import partial

from bookie_server.net.peer import Peer
from bookie_server.protocol.requests import LAST_ENTRY, read_lac_status
from bookie_server.protocol.v3_answer import answer, refuse
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.stored_entry import StoredEntry
from ledger.wire.constants import MASTER_KEY_BYTES
from ledger.wire.frame import frame
from ledger.wire.messages import (
    ReadLacRequest,
    ReadLacResponse,
    V3Request,
    WriteLacRequest,
    WriteLacResponse,
)
from ledger.wire.status import Status, to_v3
from ledger.wire.write_lac import WrittenLac, lac_answer


def write_lac(peer: Peer, request: V3Request, message: WriteLacRequest) -> None:
    """The LAC that counts is the one inside the packet; the request's own field is not used."""
    if len(message.master_key) != MASTER_KEY_BYTES:
        refuse(peer, request, Status.EBADREQ)
        return
    done = partial(_lac_written, peer, request, message)
    peer.service.write_lac(message.ledger_id, message.master_key, message.packet, done)


def _lac_written(peer: Peer, request: V3Request, message: WriteLacRequest, status: Status) -> None:
    answer(peer, request, status, WriteLacResponse(status=status, ledger_id=message.ledger_id))


def write_lac_quickly(peer: Peer, written: WrittenLac) -> None:
    """The same for a request in the form that nearly all of them have; it came and is answered by hand."""
    done = partial(_answer_quickly, peer, written)
    peer.service.write_lac(written.ledger_id, written.key, written.packet, done)


def _answer_quickly(peer: Peer, written: WrittenLac, status: Status) -> None:
    peer.send(frame(lac_answer(written.txn_id, written.ledger, to_v3(status))))


def read_lac(peer: Peer, request: V3Request, message: ReadLacRequest) -> None:
    ledger = peer.service.readable(message.ledger_id, LAST_ENTRY)
    match ledger:
        case StoredLedger():
            urgent = request.high_priority
            last = peer.service.read_cached(ledger, LAST_ENTRY) if peer.may_answer(urgent) else None
            if last is None:
                peer.read_later(partial(_read_lac, peer, request, ledger), urgent=urgent)
            else:
                _answer_lac(peer, request, ledger, last)
        case Status.ENOLEDGER:
            # No answer of this operation says "no such ledger": nothing to tell is ENOENTRY.
            refuse(peer, request, Status.ENOENTRY)
        case _:
            refuse(peer, request, ledger)


async def _read_lac(peer: Peer, request: V3Request, ledger: StoredLedger) -> None:
    last = await peer.service.read(ledger, LAST_ENTRY)
    if last.status not in (Status.EOK, Status.ENOENTRY):
        # Apache says ENOENTRY even when its entry log is gone; "unknown" must not look like a "no".
        refuse(peer, request, last.status)
        return
    _answer_lac(peer, request, ledger, last.entry if last.status is Status.EOK else None)


def _answer_lac(peer: Peer, request: V3Request, ledger: StoredLedger, last: StoredEntry | None) -> None:
    status = read_lac_status(ledger.explicit_lac, last is not None)
    body = ReadLacResponse(
        status=status,
        ledger_id=ledger.ledger_id,
        lac_packet=ledger.explicit_lac,
        last_entry=None if last is None else bytes(last),
    )
    answer(peer, request, status, body)
