"""Requests of the protobuf protocol: ask the service, answer with the request's operation and id.

Both statuses of an answer are filled, and the inner message is always there (older Java clients read it
unconditionally), except where Apache's bookie leaves it out (docs/bookkeeper.md#matching-v3-responses).
"""

from __future__ import annotations

from functools import partial

from bookie_server.net.peer import Peer
from bookie_server.protocol import serve_v3_lac, serve_v3_read
from bookie_server.protocol.add_runs_v3 import RunV3, encode_add_responses_v3
from bookie_server.protocol.v3_answer import answer, refuse
from bookie_server.storage.stored_entry import EntryRun
from ledger.wire.constants import AUTH_DISABLED_PLUGIN, MASTER_KEY_BYTES
from ledger.wire.entry import ENTRY_IDS, STORED_BYTES_MIN
from ledger.wire.messages import (
    V3_VERSION,
    AuthMessage,
    BookieInfoRequest,
    BookieInfoResponse,
    BookieInfoWanted,
    ForceLedgerRequest,
    ForceLedgerResponse,
    ListEntriesRequest,
    Operation,
    ReadLacRequest,
    StartTlsRequest,
    V3AddRequest,
    V3AddResponse,
    V3ReadRequest,
    V3Request,
    WriteLacRequest,
)
from ledger.wire.status import Status, to_v3


def serve(peer: Peer, request: V3Request) -> None:
    """One decoded frame."""
    if request.version != V3_VERSION:
        refuse(peer, request, Status.EBADVERSION)
        return
    match request.body:
        case V3AddRequest() as add:
            _add(peer, request, add)
        case V3ReadRequest() as read:
            serve_v3_read.serve(peer, request, read)
        case WriteLacRequest() as write_lac:
            serve_v3_lac.write_lac(peer, request, write_lac)
        case ReadLacRequest() as read_lac:
            serve_v3_lac.read_lac(peer, request, read_lac)
        case ForceLedgerRequest() as force:
            peer.service.force(partial(_forced, peer, request, force))
        case ListEntriesRequest() as list_entries:
            serve_v3_read.list_entries(peer, request, list_entries)
        case AuthMessage():
            disabled = AuthMessage(plugin_name=AUTH_DISABLED_PLUGIN, payload=b"")
            answer(peer, request, Status.EOK, disabled)
        case BookieInfoRequest() | None if request.operation is Operation.GET_BOOKIE_INFO:
            _bookie_info(peer, request)
        case StartTlsRequest() | BookieInfoRequest() | None:
            # No TLS here, and operations that have no message in the protocol.
            answer(peer, request, Status.EBADREQ, None)


def _add(peer: Peer, request: V3Request, add: V3AddRequest) -> None:
    """The ids that count are those inside the entry; a deferred sync is granted the stronger promise."""
    entry = add.entry
    if len(entry) < STORED_BYTES_MIN or len(add.master_key) != MASTER_KEY_BYTES:
        refuse(peer, request, Status.EBADREQ)
        return
    ledger_id, entry_id, _ = ENTRY_IDS.unpack_from(entry)
    if entry_id < 0:
        refuse(peer, request, Status.EBADREQ)
        return
    peer.adds_accepted(len(entry))
    peer.service.add(
        ledger_id,
        add.master_key,
        EntryRun([entry_id], [entry]),
        recovery=add.recovery,
        priority=request.high_priority,
        done=partial(_added, peer, request, add, len(entry)),
    )


def add_run(peer: Peer, run: RunV3, byte_count: int) -> None:
    """A run of plain adds of one ledger."""
    peer.adds_accepted(byte_count)
    peer.service.add(
        run.ledger_id,
        run.key,
        run.adds,
        recovery=False,
        priority=False,
        done=partial(_run_added, peer, run, byte_count),
    )


def _run_added(peer: Peer, run: RunV3, byte_count: int, status: Status, refused: frozenset[int]) -> None:
    peer.adds_answered(byte_count)
    if not refused:
        peer.send(encode_add_responses_v3(to_v3(status), run.echoes))
        return
    for entry_id, echo in zip(run.adds.ids, run.echoes, strict=True):
        its_status = Status.EBADREQ if entry_id in refused else status
        peer.send(encode_add_responses_v3(to_v3(its_status), [echo]))


def _added(
    peer: Peer,
    request: V3Request,
    add: V3AddRequest,
    byte_count: int,
    status: Status,
    refused: frozenset[int],
) -> None:
    peer.adds_answered(byte_count)
    its_status = Status.EBADREQ if refused else status
    body = V3AddResponse(status=its_status, ledger_id=add.ledger_id, entry_id=add.entry_id)
    answer(peer, request, its_status, body)


def _forced(peer: Peer, request: V3Request, force: ForceLedgerRequest, status: Status) -> None:
    answer(peer, request, status, ForceLedgerResponse(status=status, ledger_id=force.ledger_id))


def _bookie_info(peer: Peer, request: V3Request) -> None:
    wanted = request.body.requested or 0 if isinstance(request.body, BookieInfoRequest) else 0
    room = peer.service.disk_room()
    body = BookieInfoResponse(
        status=Status.EOK,
        total_bytes=room.total_bytes if wanted & BookieInfoWanted.TOTAL_BYTES else None,
        free_bytes=room.free_bytes if wanted & BookieInfoWanted.FREE_BYTES else None,
    )
    answer(peer, request, Status.EOK, body)
