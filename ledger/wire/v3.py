"""The protobuf protocol: bytes ↔ messages.py. Pure; docs/bookkeeper.md#v3-messages.

Invariant: a body either raises ProtocolError or becomes a message. Unknown fields, any field order and unknown
`flag` values are accepted and dropped; an unknown enum value anywhere else counts as the field's absence, so
the frame is refused. What Java encoded comes out byte for byte: `flag` of reads and adds precedes their other
fields. Encoders return whole frames, decoders take a frame's body.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from ledger.errors import ProtocolError
from ledger.wire import bookkeeper_pb2 as pb
from ledger.wire import messages as m
from ledger.wire.auth import auth_fields
from ledger.wire.entry import Buffer
from ledger.wire.frame import frame
from ledger.wire.messages import Operation, V3Request, V3Response
from ledger.wire.status import from_v3, to_v3
from ledger.wire.varint import varint

_FIRST_TAG = 0x0A
_FLAG_TAG = b"\xa0\x06"
_STATUS_TAG = b"\x10"


def looks_like_v3(body: Buffer) -> bool:
    """Whether a frame body may be v3 at all. A v2 body starts with its version, 0 to 2, which is no tag."""
    return len(body) > 0 and body[0] >= _FIRST_TAG


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message: its name with us, its name in the .proto, and how values cross over."""

    attribute: str
    name: str
    decode: Callable[[Any], Any] | None = None
    encode: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """One message: our class, the generated class, its field in the envelope."""

    ours: type[Any]
    theirs: type[Message]
    envelope_name: str
    envelope_number: int
    fields: tuple[_Field, ...]
    may_be_absent: bool = False


def _present(_: Any) -> bool:
    return True


def _one_if_set(value: bool) -> int | None:
    return 1 if value else None


_LEDGER = _Field("ledger_id", "ledgerId")
_ENTRY = _Field("entry_id", "entryId")
_STATUS = _Field("status", "status", from_v3, to_v3)
_KEY = _Field("master_key", "masterKey")
_AUTH = (_Field("plugin_name", "authPluginName"), _Field("payload", "payload"))

_READ_FIELDS = (
    _LEDGER,
    _ENTRY,
    _KEY,
    _Field("previous_lac", "previousLAC"),
    _Field("timeout_ms", "timeOut"),
    _Field("flag", "flag", m.ReadFlag),
)
_ADD_FIELDS = (
    _LEDGER,
    _ENTRY,
    _KEY,
    _Field("entry", "body"),
    _Field("write_flags", "writeFlags"),
    _Field("recovery", "flag", _present, _one_if_set),
)
_WRITE_LAC_FIELDS = (_LEDGER, _Field("lac", "lac"), _KEY, _Field("packet", "body"))
_READ_RESPONSE_FIELDS = (
    _STATUS,
    _LEDGER,
    _ENTRY,
    _Field("entry", "body"),
    _Field("max_lac", "maxLAC"),
    _Field("lac_update_ms", "lacUpdateTimestamp"),
)
_READ_LAC_RESPONSE_FIELDS = (
    _STATUS,
    _LEDGER,
    _Field("lac_packet", "lacBody"),
    _Field("last_entry", "lastEntryBody"),
)
_INFO_RESPONSE_FIELDS = (
    _STATUS,
    _Field("total_bytes", "totalDiskCapacity"),
    _Field("free_bytes", "freeDiskSpace"),
)
_LIST_RESPONSE_FIELDS = (_STATUS, _LEDGER, _Field("availability", "availabilityOfEntriesOfLedger"))

_REQUESTS: Final[dict[Operation, _Shape]] = {
    Operation.READ_ENTRY: _Shape(m.V3ReadRequest, pb.ReadRequest, "readRequest", 100, _READ_FIELDS),
    Operation.ADD_ENTRY: _Shape(m.V3AddRequest, pb.AddRequest, "addRequest", 101, _ADD_FIELDS),
    Operation.AUTH: _Shape(m.AuthMessage, pb.AuthMessage, "authRequest", 102, _AUTH),
    Operation.WRITE_LAC: _Shape(
        m.WriteLacRequest, pb.WriteLacRequest, "writeLacRequest", 103, _WRITE_LAC_FIELDS
    ),
    Operation.READ_LAC: _Shape(m.ReadLacRequest, pb.ReadLacRequest, "readLacRequest", 104, (_LEDGER,)),
    Operation.GET_BOOKIE_INFO: _Shape(
        m.BookieInfoRequest,
        pb.GetBookieInfoRequest,
        "getBookieInfoRequest",
        105,
        (_Field("requested", "requested"),),
        may_be_absent=True,
    ),
    Operation.START_TLS: _Shape(
        m.StartTlsRequest, pb.StartTLSRequest, "startTLSRequest", 106, (), may_be_absent=True
    ),
    Operation.FORCE_LEDGER: _Shape(
        m.ForceLedgerRequest, pb.ForceLedgerRequest, "forceLedgerRequest", 107, (_LEDGER,)
    ),
    Operation.LIST_ENTRIES: _Shape(
        m.ListEntriesRequest,
        pb.GetListOfEntriesOfLedgerRequest,
        "getListOfEntriesOfLedgerRequest",
        108,
        (_LEDGER,),
    ),
}

_RESPONSES: Final[dict[Operation, _Shape]] = {
    Operation.READ_ENTRY: _Shape(
        m.V3ReadResponse, pb.ReadResponse, "readResponse", 100, _READ_RESPONSE_FIELDS
    ),
    Operation.ADD_ENTRY: _Shape(
        m.V3AddResponse, pb.AddResponse, "addResponse", 101, (_STATUS, _LEDGER, _ENTRY)
    ),
    Operation.AUTH: _Shape(m.AuthMessage, pb.AuthMessage, "authResponse", 102, _AUTH),
    Operation.WRITE_LAC: _Shape(
        m.WriteLacResponse, pb.WriteLacResponse, "writeLacResponse", 103, (_STATUS, _LEDGER)
    ),
    Operation.READ_LAC: _Shape(
        m.ReadLacResponse, pb.ReadLacResponse, "readLacResponse", 104, _READ_LAC_RESPONSE_FIELDS
    ),
    Operation.GET_BOOKIE_INFO: _Shape(
        m.BookieInfoResponse, pb.GetBookieInfoResponse, "getBookieInfoResponse", 105, _INFO_RESPONSE_FIELDS
    ),
    Operation.START_TLS: _Shape(m.StartTlsResponse, pb.StartTLSResponse, "startTLSResponse", 106, ()),
    Operation.FORCE_LEDGER: _Shape(
        m.ForceLedgerResponse, pb.ForceLedgerResponse, "forceLedgerResponse", 107, (_STATUS, _LEDGER)
    ),
    Operation.LIST_ENTRIES: _Shape(
        m.ListEntriesResponse,
        pb.GetListOfEntriesOfLedgerResponse,
        "getListOfEntriesOfLedgerResponse",
        108,
        _LIST_RESPONSE_FIELDS,
    ),
}


# ---- requests


def encode_request(message: V3Request) -> bytes:
    """The whole frame of a request."""
    parts = [_header_of(message)]
    if message.body is not None:
        parts.append(_encode_body(_REQUESTS[message.operation], message.body))
    return frame(b"".join(parts))


def decode_request(body: Buffer) -> V3Request:
    """The request in a frame's body; ProtocolError if it is none."""
    request = pb.Request()
    _parse(request, body)
    header = request.header
    operation = Operation(header.operation)
    return V3Request(
        txn_id=header.txnId,
        operation=operation,
        body=_decode_request_body(request, operation),
        priority=header.priority if header.HasField("priority") else None,
        version=header.version,
    )


def _decode_request_body(request: pb.Request, operation: Operation) -> Any:
    shape = _REQUESTS.get(operation)
    if shape is None:
        return None
    found = _decode_body(request, shape)
    if found is None and not shape.may_be_absent:
        raise ProtocolError(
            f"a {operation.name} request lacks its {shape.envelope_name}; drop the connection"
        )
    return found


# ---- responses


def encode_response(message: V3Response) -> bytes:
    """The whole frame of a response."""
    start = _header_of(message) + _STATUS_TAG + varint(to_v3(message.status))
    if message.body is None:
        return frame(start)
    return frame(start + _encode_body(_RESPONSES[message.operation], message.body))


def decode_response(body: Buffer) -> V3Response:
    """The response in a frame's body; ProtocolError if it is none."""
    response = pb.Response()
    _parse(response, body)
    header = response.header
    operation = Operation(header.operation)
    shape = _RESPONSES.get(operation)
    return V3Response(
        txn_id=header.txnId,
        operation=operation,
        status=from_v3(response.status),
        body=None if shape is None else _decode_body(response, shape),
        priority=header.priority if header.HasField("priority") else None,
        version=header.version,
    )


# ---- one message


def _header_of(message: V3Request | V3Response) -> bytes:
    """The packet header as the first field of the envelope, written by hand: it is on the way of everything."""
    header = b"\x08%c\x10%c\x18%b" % (message.version, message.operation, varint(message.txn_id))
    if message.priority is not None:
        header += b"\x20" + varint(message.priority)
    return b"\x0a%c%b" % (len(header), header)


def _encode_body(shape: _Shape, body: Any) -> bytes:
    assert type(body) is shape.ours, f"{shape.envelope_name} takes a {shape.ours.__name__}, not {body!r}"
    values: dict[str, Any] = {}
    for field in shape.fields:
        value = getattr(body, field.attribute)
        if value is not None and field.encode is not None:
            value = field.encode(value)
        if value is not None:
            values[field.name] = value
    flag = values.pop("flag", None)
    inner: bytes = shape.theirs(**values).SerializeToString()
    if flag is not None:
        inner = _FLAG_TAG + bytes((flag,)) + inner
    return varint(shape.envelope_number << 3 | 2) + varint(len(inner)) + inner


def _decode_body(envelope: pb.Request | pb.Response, shape: _Shape) -> Any:
    if not envelope.HasField(shape.envelope_name):
        return None
    message = getattr(envelope, shape.envelope_name)
    if shape.ours is m.AuthMessage:
        plugin_name, payload = auth_fields(message)
        return m.AuthMessage(plugin_name=plugin_name, payload=payload)
    values: dict[str, Any] = {}
    for field in shape.fields:
        if message.HasField(field.name):
            value = getattr(message, field.name)
            values[field.attribute] = value if field.decode is None else field.decode(value)
    return shape.ours(**values)


def _parse(message: Any, body: Buffer) -> None:
    try:
        message.ParseFromString(bytes(body))
    except (DecodeError, UnicodeDecodeError) as error:
        kind = message.DESCRIPTOR.name
        raise ProtocolError(f"{len(body)} bytes are no v3 {kind}; drop the connection") from error
    if not message.IsInitialized():
        missing = ", ".join(message.FindInitializationErrors())
        raise ProtocolError(f"a v3 {message.DESCRIPTOR.name} lacks {missing}; drop the connection")
