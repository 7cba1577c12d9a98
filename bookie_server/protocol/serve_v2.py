"""Requests of the binary protocol: decode, ask the service, answer in the same version.

A ProtocolError that leaves here closes the connection. What is answered and what closes:
docs/bookkeeper.md#v2-frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bookie_server.net.peer import Peer
from bookie_server.protocol.acks import encode_add_responses
from bookie_server.protocol.add_runs import RunHead
from bookie_server.protocol.fencing import fence
from bookie_server.protocol.requests import LAST_ENTRY
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.stored_entry import EntryRun
from ledger.model import FRAME_BYTES_MAX
from ledger.wire import constants as c
from ledger.wire import v2
from ledger.wire.entry import STORED_BYTES_MIN
from ledger.wire.messages import (
    AddRequest,
    AddResponse,
    AuthMessage,
    BatchReadRequest,
    BatchReadResponse,
    ReadRequest,
    ReadResponse,
)
from ledger.wire.status import Status

NO_IDS: frozenset[int] = frozenset()


def serve(peer: Peer, body: memoryview) -> None:
    """One frame that is not part of a run of adds."""
    request = v2.decode_request(body)
    match request:
        case AddRequest():
            _add(peer, request)
        case BatchReadRequest():
            _read(peer, request)
        case ReadRequest():
            _read(peer, request)
        case AuthMessage():
            answer = AuthMessage(version=request.version, plugin_name=c.AUTH_DISABLED_PLUGIN, payload=b"")
            peer.send(v2.encode_response(answer))


# ---- adds


def add_run(peer: Peer, head: bytes, run: EntryRun, byte_count: int) -> None:
    """A run of adds of one ledger."""
    fields = RunHead(head)
    peer.adds_accepted(byte_count)
    peer.service.add(
        fields.ledger_id,
        fields.key,
        run,
        recovery=bool(fields.flags & c.RECOVERY_ADD),
        priority=bool(fields.flags & c.HIGH_PRIORITY),
        done=partial(_run_added, peer, fields.ledger_id, run.ids, byte_count),
    )


def _run_added(
    peer: Peer,
    ledger_id: int,
    entry_ids: Sequence[int],
    byte_count: int,
    status: Status,
    refused: frozenset[int],
) -> None:
    peer.adds_answered(byte_count)
    if not refused:
        peer.send(encode_add_responses(c.ADD_HEADER, status, ledger_id, entry_ids))
        return
    for entry_id in entry_ids:
        its_status = Status.EBADREQ if entry_id in refused else status
        peer.send(encode_add_responses(c.ADD_HEADER, its_status, ledger_id, [entry_id]))


def _add(peer: Peer, request: AddRequest) -> None:
    """An add that cannot be in a run: another version, a bad id, or too short."""
    status = Status.EOK
    if request.version > c.VERSION:
        status = Status.EBADVERSION
    elif len(request.entry) < STORED_BYTES_MIN or request.ledger_id < 0 or request.entry_id < 0:
        status = Status.EBADREQ
    done = partial(_added, peer, request)
    if status is not Status.EOK:
        done(status, NO_IDS)
        return
    peer.service.add(
        request.ledger_id,
        request.master_key,
        EntryRun([request.entry_id], [bytes(request.entry)]),
        recovery=request.recovery,
        priority=request.high_priority,
        done=done,
    )


def _added(peer: Peer, request: AddRequest, status: Status, refused: frozenset[int]) -> None:
    answer = AddResponse(
        version=request.version,
        status=Status.EBADREQ if refused else status,
        ledger_id=request.ledger_id,
        entry_id=request.entry_id,
    )
    peer.send(v2.encode_response(answer))


# ---- reads


def _read(peer: Peer, request: ReadRequest) -> None:
    if request.version > c.VERSION:
        _refuse(peer, request, Status.EBADVERSION)
    elif request.entry_id < LAST_ENTRY:
        _refuse(peer, request, Status.EBADREQ)
    elif not request.fencing:
        _read_from(peer, request, peer.service.readable(request.ledger_id, request.entry_id))
    elif request.master_key is None:
        _refuse(peer, request, Status.EUA)
    else:
        fence(peer.service, request.ledger_id, request.master_key, partial(_read_from, peer, request))


def _read_from(peer: Peer, request: ReadRequest, ledger: StoredLedger | Status) -> None:
    """The read itself, when the ledger is known and, if asked for, fenced."""
    if isinstance(ledger, Status):
        _refuse(peer, request, ledger)
        return
    urgent = request.fencing or request.high_priority
    if isinstance(request, BatchReadRequest):
        peer.read_later(partial(_read_batch, peer, request, ledger), urgent=urgent)
        return
    entry = peer.service.read_cached(ledger, request.entry_id) if peer.may_answer(urgent) else None
    if entry is None:
        peer.read_later(partial(_read_stored, peer, request, ledger), urgent=urgent)
    else:
        peer.send(_start_of_read_answer(request, len(entry)), entry)


async def _read_stored(peer: Peer, request: ReadRequest, ledger: StoredLedger) -> None:
    found = await peer.service.read(ledger, request.entry_id)
    if found.status is Status.EOK:
        peer.send(_start_of_read_answer(request, len(found.entry)), found.entry)
    else:
        _refuse(peer, request, found.status)


def _start_of_read_answer(request: ReadRequest, entry_bytes: int) -> bytes:
    header = request.version << 24 | c.READ << 16 if request.version else c.READ
    body_bytes = c.READ_RESPONSE_START.size - 4 + entry_bytes
    return c.READ_RESPONSE_START.pack(body_bytes, header, Status.EOK, request.ledger_id, request.entry_id)


async def _read_batch(peer: Peer, request: BatchReadRequest, ledger: StoredLedger) -> None:
    budget = min(request.max_bytes, FRAME_BYTES_MAX) - c.BATCH_READ_RESPONSE_START.size
    status, entries = await peer.service.read_batch(ledger, request.entry_id, request.max_count, budget)
    answer = BatchReadResponse(
        version=request.version,
        status=status,
        ledger_id=request.ledger_id,
        entry_id=request.entry_id,
        request_id=request.request_id,
        entries=tuple(entries),
    )
    peer.send(v2.encode_response(answer))


def _refuse(peer: Peer, request: ReadRequest, status: Status) -> None:
    """The answer to a read that brings no entry."""
    if isinstance(request, BatchReadRequest):
        peer.send(
            v2.encode_response(
                BatchReadResponse(
                    version=request.version,
                    status=status,
                    ledger_id=request.ledger_id,
                    entry_id=request.entry_id,
                    request_id=request.request_id,
                )
            )
        )
        return
    peer.send(
        v2.encode_response(
            ReadResponse(
                version=request.version,
                status=status,
                ledger_id=request.ledger_id,
                entry_id=request.entry_id,
            )
        )
    )
