"""Answers of the protobuf protocol: the envelope that echoes its request, and refusals of every operation."""

from __future__ import annotations

from bookie_server.net.peer import Peer
from ledger.wire import v3
from ledger.wire.messages import (
    BookieInfoResponse,
    ForceLedgerRequest,
    ForceLedgerResponse,
    ListEntriesRequest,
    ListEntriesResponse,
    Operation,
    ReadLacRequest,
    ReadLacResponse,
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


def answer(peer: Peer, request: V3Request, status: Status, body: V3ResponseBody | None) -> None:
    """Send one answer; version 3, operation and id are the request's, the priority is not repeated."""
    envelope = V3Response(txn_id=request.txn_id, operation=request.operation, status=status, body=body)
    peer.send(v3.encode_response(envelope))


def refuse(peer: Peer, request: V3Request, status: Status) -> None:
    """The answer of a request that brings nothing but its status."""
    answer(peer, request, status, _bare(request, status))


def _bare(request: V3Request, status: Status) -> V3ResponseBody | None:
    match request.body:
        case V3ReadRequest(ledger_id=ledger_id, entry_id=entry_id):
            return V3ReadResponse(status=status, ledger_id=ledger_id, entry_id=entry_id)
        case V3AddRequest(ledger_id=ledger_id, entry_id=entry_id):
            return V3AddResponse(status=status, ledger_id=ledger_id, entry_id=entry_id)
        case WriteLacRequest(ledger_id=ledger_id):
            return WriteLacResponse(status=status, ledger_id=ledger_id)
        case ReadLacRequest(ledger_id=ledger_id):
            return ReadLacResponse(status=status, ledger_id=ledger_id)
        case ForceLedgerRequest(ledger_id=ledger_id):
            return ForceLedgerResponse(status=status, ledger_id=ledger_id)
        case ListEntriesRequest(ledger_id=ledger_id):
            return ListEntriesResponse(status=status, ledger_id=ledger_id)
        case _:
            wants_info = request.operation is Operation.GET_BOOKIE_INFO
            return BookieInfoResponse(status=status) if wants_info else None
