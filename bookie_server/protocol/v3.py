"""Version 3, the protobuf protocol: requests decoded, responses encoded. Pure.

A response repeats operation and id of its request, but not the priority. Both of its statuses are set, and it has an
inner message (older Java clients read it unconditionally), except where Apache's bookie leaves it out
(docs/bookkeeper.md#matching-v3-responses).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bookie_server.protocol import v3_adds, v3_lacs
from bookie_server.protocol.requests import (
    AddRun,
    Adds,
    Answered,
    BookieInfo,
    Echo,
    Force,
    Frame,
    Gathered,
    ListEntries,
    LongPoll,
    Read,
    ReadLac,
    Request,
    WriteLacs,
)
from bookie_server.storage.ranges import Range
from bookie_server.storage.stored_entry import StoredEntry
from ledger.errors import ProtocolError
from ledger.model import FRAME_BYTES_MAX
from ledger.wire import v3
from ledger.wire.availability import encode_availability, encode_in_periods
from ledger.wire.constants import AUTH_DISABLED_PLUGIN, LAST_ENTRY, MASTER_KEY_BYTES
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
    ListEntriesResponse,
    Operation,
    ReadFlag,
    ReadLacRequest,
    ReadLacResponse,
    StartTlsRequest,
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
from ledger.wire.varint import varint
from ledger.wire.write_lac import WrittenLac

_LIST_BYTES_MAX = FRAME_BYTES_MAX - 500
"""Of a list of entries: clients refuse a larger frame, and end the connection."""


def gather(block: bytes, position: int, frame_bytes_max: int) -> Gathered:
    """The adds or explicit LACs from `position` on, and where the first other frame starts."""
    adds = v3_adds.gather(block, position, frame_bytes_max)
    return v3_lacs.gather(block, position, frame_bytes_max) if adds[0] is None else adds


def decode(block: bytes, start: int, stop: int) -> Request | None:
    """The request in the frame body block[start:stop], None if it is not of version 3."""
    body = memoryview(block)[start:stop]
    if not v3.looks_like_v3(body):
        return None
    try:
        request = v3.decode_request(body)
    except ProtocolError:
        return None
    return _request(request)


def _request(request: V3Request) -> Request:
    encoder = Responses(request)
    if request.version != V3_VERSION:
        return encoder.refused(Status.EBADVERSION)
    match request.body:
        case V3AddRequest() as add:
            return _add(request, add, encoder)
        case V3ReadRequest() as read:
            return _read(request, read, encoder)
        case WriteLacRequest() as lac if len(lac.master_key) != MASTER_KEY_BYTES:
            return encoder.refused(Status.EBADREQ)
        case WriteLacRequest() as lac:
            txn_id, ledger = varint(request.txn_id), varint(lac.ledger_id)
            written = WrittenLac(txn_id, ledger, lac.ledger_id, lac.master_key, lac.packet)
            return WriteLacs([written], v3_lacs.RESPONSES)
        case ReadLacRequest(ledger_id=ledger_id):
            return ReadLac(ledger_id=ledger_id, urgent=request.high_priority, encoder=encoder)
        case ForceLedgerRequest():
            return Force(encoder=encoder)
        case ListEntriesRequest(ledger_id=ledger_id):
            return ListEntries(ledger_id=ledger_id, urgent=request.high_priority, encoder=encoder)
        case AuthMessage():
            disabled = AuthMessage(plugin_name=AUTH_DISABLED_PLUGIN, payload=b"")
            return Answered(encoder.response(Status.EOK, disabled))
        case BookieInfoRequest() | None if request.operation is Operation.GET_BOOKIE_INFO:
            wanted = request.body.requested or 0 if request.body is not None else 0
            total, free = wanted & BookieInfoWanted.TOTAL_BYTES, wanted & BookieInfoWanted.FREE_BYTES
            return BookieInfo(total=bool(total), free=bool(free), encoder=encoder)
        case StartTlsRequest() | BookieInfoRequest() | None:
            # There is no TLS here, and some operations have no message in the protocol.
            return Answered(encoder.response(Status.EBADREQ, None))


def _add(request: V3Request, add: V3AddRequest, encoder: Responses) -> Adds | Answered:
    """The ids inside the entry count. An add with deferred sync is synced like any other."""
    if len(add.entry) < STORED_BYTES_MIN or len(add.master_key) != MASTER_KEY_BYTES:
        return encoder.refused(Status.EBADREQ)
    ledger_id, entry_id, _ = ENTRY_IDS.unpack_from(add.entry)
    if entry_id < 0:
        return encoder.refused(Status.EBADREQ)
    echo = Echo(varint(request.txn_id), varint(add.ledger_id), varint(add.entry_id))
    run = AddRun(
        ledger_id, add.master_key, add.recovery, request.high_priority, [entry_id], [add.entry], [echo]
    )
    return Adds([run], len(add.entry), v3_adds.RESPONSES)


def _read(request: V3Request, read: V3ReadRequest, encoder: Responses) -> Read | LongPoll | Answered:
    urgent = read.fencing or request.high_priority
    if read.entry_id < LAST_ENTRY:
        return encoder.refused(Status.EBADREQ)
    if read.fencing and (read.master_key is None or len(read.master_key) != MASTER_KEY_BYTES):
        return encoder.refused(Status.EUA)
    if read.fencing or read.previous_lac is None:
        return Read(
            ledger_id=read.ledger_id,
            entry_id=read.entry_id,
            fence_key=read.master_key if read.fencing else None,
            urgent=urgent,
            encoder=encoder,
        )
    return LongPoll(
        ledger_id=read.ledger_id,
        entry_id=read.entry_id,
        previous_lac=read.previous_lac,
        timeout_s=(read.timeout_ms or 0) / 1000,
        piggyback=read.flag is ReadFlag.PIGGYBACK,
        urgent=urgent,
        encoder=encoder,
    )


class Responses(NamedTuple):
    """Encodes the response to one request."""

    request: V3Request

    def response(self, status: Status, body: V3ResponseBody | None) -> bytes:
        return v3.encode_response(
            V3Response(txn_id=self.request.txn_id, operation=self.request.operation, status=status, body=body)
        )

    def refused(self, status: Status) -> Answered:
        return Answered(self.refusal(status))

    def refusal(self, status: Status) -> bytes:
        return self.response(status, _bare_body(self.request, status))

    def forced(self, status: Status) -> bytes:
        return self.refusal(status)

    def entry(self, entry: StoredEntry, lac: int | None) -> Frame:
        return (self._read_response(self._read.entry_id, entry, lac, None),)

    def next_entry(self, entry_id: int, entry: StoredEntry, lac: int, updated_ms: int | None) -> bytes:
        return self._read_response(entry_id, entry, lac, updated_ms)

    def lac(self, lac: int, updated_ms: int | None) -> bytes:
        return self._read_response(LAST_ENTRY, None, lac, updated_ms)

    @property
    def _read(self) -> V3ReadRequest:
        assert isinstance(self.request.body, V3ReadRequest), "only reads are answered with entries"
        return self.request.body

    def _read_response(
        self, entry_id: int, entry: StoredEntry | None, lac: int | None, updated_ms: int | None
    ) -> bytes:
        body = V3ReadResponse(
            status=Status.EOK,
            ledger_id=self._read.ledger_id,
            entry_id=entry_id,
            entry=None if entry is None else bytes(entry),
            max_lac=lac,
            lac_update_ms=updated_ms,
        )
        return self.response(Status.EOK, body)

    def explicit_lac(self, status: Status, packet: bytes | None, last_entry: StoredEntry | None) -> bytes:
        body = ReadLacResponse(
            status=status,
            ledger_id=self._ledger_id,
            lac_packet=packet,
            last_entry=None if last_entry is None else bytes(last_entry),
        )
        return self.response(status, body)

    def available(self, ranges: Sequence[Range]) -> bytes:
        blob = encode_availability(ranges)
        if len(blob) > _LIST_BYTES_MAX:
            blob = encode_in_periods(ranges)
        if len(blob) > _LIST_BYTES_MAX:
            return self.refusal(Status.EIO)
        body = ListEntriesResponse(status=Status.EOK, ledger_id=self._ledger_id, availability=blob)
        return self.response(Status.EOK, body)

    @property
    def _ledger_id(self) -> int:
        body = self.request.body
        assert isinstance(body, ReadLacRequest | ListEntriesRequest), "the request names a ledger"
        return body.ledger_id

    def info(self, total_bytes: int | None, free_bytes: int | None) -> bytes:
        body = BookieInfoResponse(status=Status.EOK, total_bytes=total_bytes, free_bytes=free_bytes)
        return self.response(Status.EOK, body)


def _bare_body(request: V3Request, status: Status) -> V3ResponseBody | None:
    """The inner message of a response that has nothing but its status."""
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
