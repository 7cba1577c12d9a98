"""The binary protocol: bytes ↔ messages.py. Pure; docs/bookkeeper.md#v2-frames.

Invariant: a body either raises ProtocolError or becomes a message that encodes to exactly those bytes. (AUTH bodies
hold protobuf, where fields we do not know are accepted and dropped.) Encoders return whole frames, decoders
take a frame's body. Layouts: constants.py.
"""

from collections.abc import Callable
from itertools import chain
from struct import Struct
from typing import NamedTuple, TypeVar

from ledger.errors import ProtocolError
from ledger.wire import constants as c
from ledger.wire.auth import decode_auth, encode_auth
from ledger.wire.entry import Buffer
from ledger.wire.messages import (
    AddRequest,
    AddResponse,
    AuthMessage,
    BatchReadRequest,
    BatchReadResponse,
    Packet,
    ReadRequest,
    ReadResponse,
    V2Request,
    V2Response,
)
from ledger.wire.status import Status, from_v2

_HEADER = Struct(">I")
_KEY_END = _HEADER.size + c.MASTER_KEY_BYTES
_IDS_BYTES = 16
_READ = Struct(">qq")
_BATCH_READ = Struct(">qqqiq")
_RESPONSE = Struct(">Iqq")
_BATCH_RESPONSE = Struct(">Iqqq")


class _Header(NamedTuple):
    """The header int, taken apart as the fields of `Packet`."""

    version: int
    opcode: int
    flags: int
    ignored_bits: int


# ---- requests


def encode_request(message: V2Request) -> bytes:
    """The whole frame of a request."""
    match message:
        case AddRequest():
            start = c.ADD_REQUEST_START.pack(
                _KEY_END + len(message.entry), _header_of(message, c.ADD), _key(message.master_key)
            )
            return b"".join((start, message.entry))
        case BatchReadRequest():
            fields = _BATCH_READ.pack(
                message.ledger_id, message.entry_id, message.request_id, message.max_count, message.max_bytes
            )
            return _frame(message, c.BATCH_READ, fields, _key_part(message), message.trailing)
        case ReadRequest():
            fields = _READ.pack(message.ledger_id, message.entry_id)
            return _frame(message, c.READ, fields, _key_part(message), message.trailing)
        case AuthMessage():
            return _frame(message, c.AUTH, encode_auth(message.plugin_name, message.payload))


def decode_request(body: Buffer) -> V2Request:
    """The request in a frame's body; ProtocolError if it is none."""
    view = memoryview(body)
    header = _read_header(view)
    return _dispatch(_REQUEST_DECODERS, header)(header, view)


def _decode_add(header: _Header, view: memoryview) -> AddRequest:
    if len(view) < _KEY_END + _IDS_BYTES:
        raise _too_short("an add request", view, _KEY_END + _IDS_BYTES)
    return AddRequest(
        version=header.version,
        flags=header.flags,
        ignored_bits=header.ignored_bits,
        master_key=bytes(view[_HEADER.size : _KEY_END]),
        entry=view[_KEY_END:],
    )


def _decode_read(header: _Header, view: memoryview) -> ReadRequest:
    ledger_id, entry_id = _unpack(_READ, view, "a read request")
    key, trailing = _split_key(header, view, _HEADER.size + _READ.size)
    return ReadRequest(
        version=header.version,
        flags=header.flags,
        ignored_bits=header.ignored_bits,
        ledger_id=ledger_id,
        entry_id=entry_id,
        master_key=key,
        trailing=trailing,
    )


def _decode_batch_read(header: _Header, view: memoryview) -> BatchReadRequest:
    ledger_id, entry_id, request_id, max_count, max_bytes = _unpack(_BATCH_READ, view, "a batch read request")
    key, trailing = _split_key(header, view, _HEADER.size + _BATCH_READ.size)
    return BatchReadRequest(
        version=header.version,
        flags=header.flags,
        ignored_bits=header.ignored_bits,
        ledger_id=ledger_id,
        entry_id=entry_id,
        request_id=request_id,
        max_count=max_count,
        max_bytes=max_bytes,
        master_key=key,
        trailing=trailing,
    )


def _decode_auth(header: _Header, view: memoryview) -> AuthMessage:
    plugin_name, payload = decode_auth(view[_HEADER.size :])
    return AuthMessage(
        version=header.version,
        flags=header.flags,
        ignored_bits=header.ignored_bits,
        plugin_name=plugin_name,
        payload=payload,
    )


_REQUEST_DECODERS: dict[int, Callable[[_Header, memoryview], V2Request]] = {
    c.ADD: _decode_add,
    c.READ: _decode_read,
    c.BATCH_READ: _decode_batch_read,
    c.AUTH: _decode_auth,
}


def _carries_key(version: int, flags: int) -> bool:
    # Version 1 may set the flag, but its key is never read (and so never right).
    return bool(flags & c.FENCE) and version >= 2


def _split_key(header: _Header, view: memoryview, end: int) -> tuple[bytes | None, bytes]:
    """Master key and trailing bytes behind the fixed fields of a read."""
    if not _carries_key(header.version, header.flags):
        return None, bytes(view[end:])
    key_end = end + c.MASTER_KEY_BYTES
    if len(view) < key_end:
        raise _too_short("a fencing read request", view, key_end)
    return bytes(view[end:key_end]), bytes(view[key_end:])


def _key_part(message: ReadRequest) -> bytes:
    if not _carries_key(message.version, message.flags):
        assert message.master_key is None, "a master key needs the FENCE flag"
        return b""
    assert message.master_key is not None, "a fencing read needs the master key"
    return _key(message.master_key)


def _key(master_key: bytes) -> bytes:
    assert len(master_key) == c.MASTER_KEY_BYTES, f"a master key has 20 bytes, not {len(master_key)}"
    return master_key


# ---- responses


def encode_response(message: V2Response) -> bytes:
    """The whole frame of a response."""
    match message:
        case AddResponse():
            header = _header_of(message, c.ADD)
            return c.ADD_RESPONSE.pack(
                c.ADD_RESPONSE_BODY_BYTES, header, message.status, message.ledger_id, message.entry_id
            )
        case ReadResponse():
            assert (message.status is Status.EOK) == (message.entry is not None)
            entry = b"" if message.entry is None else message.entry
            fields = _RESPONSE.pack(message.status, message.ledger_id, message.entry_id)
            return _frame(message, c.READ, fields, entry)
        case BatchReadResponse():
            assert (message.status is Status.EOK) == bool(message.entries)
            fields = _BATCH_RESPONSE.pack(
                message.status, message.ledger_id, message.entry_id, message.request_id
            )
            return _frame(message, c.BATCH_READ, fields, *_sized(message.entries))
        case AuthMessage():
            return _frame(message, c.AUTH, encode_auth(message.plugin_name, message.payload))


def decode_response(body: Buffer) -> V2Response:
    """The response in a frame's body; ProtocolError if it is none."""
    view = memoryview(body)
    header = _read_header(view)
    if header.flags or header.ignored_bits:
        raise ProtocolError(
            f"a response carries the flags {header.flags or header.ignored_bits:#06x} and only 0 is defined; "
            "drop the connection"
        )
    return _dispatch(_RESPONSE_DECODERS, header)(header, view)


def _decode_add_response(header: _Header, view: memoryview) -> AddResponse:
    code, ledger_id, entry_id = _unpack(_RESPONSE, view, "an add response")
    if len(view) != c.ADD_RESPONSE_BODY_BYTES:
        raise _surplus("an add response", view, c.ADD_RESPONSE_BODY_BYTES)
    return AddResponse(version=header.version, status=from_v2(code), ledger_id=ledger_id, entry_id=entry_id)


def _decode_read_response(header: _Header, view: memoryview) -> ReadResponse:
    code, ledger_id, entry_id = _unpack(_RESPONSE, view, "a read response")
    status, entry = from_v2(code), view[_HEADER.size + _RESPONSE.size :]
    if status is not Status.EOK and entry:
        raise _surplus(f"a read response with {status.name}", view, _HEADER.size + _RESPONSE.size)
    return ReadResponse(
        version=header.version,
        status=status,
        ledger_id=ledger_id,
        entry_id=entry_id,
        entry=entry if status is Status.EOK else None,
    )


def _decode_batch_response(header: _Header, view: memoryview) -> BatchReadResponse:
    code, ledger_id, entry_id, request_id = _unpack(_BATCH_RESPONSE, view, "a batch read response")
    status, start = from_v2(code), _HEADER.size + _BATCH_RESPONSE.size
    entries = split_sized(view, start)
    if (status is Status.EOK) != bool(entries):
        raise ProtocolError(
            f"a batch read response with {status.name} holds {len(entries)} entries; EOK has at least one "
            "and an error none, drop the connection"
        )
    return BatchReadResponse(
        version=header.version,
        status=status,
        ledger_id=ledger_id,
        entry_id=entry_id,
        request_id=request_id,
        entries=entries,
    )


_RESPONSE_DECODERS: dict[int, Callable[[_Header, memoryview], V2Response]] = {
    c.ADD: _decode_add_response,
    c.READ: _decode_read_response,
    c.BATCH_READ: _decode_batch_response,
    c.AUTH: _decode_auth,
}


def _sized(entries: tuple[Buffer, ...]) -> list[Buffer]:
    return list(chain.from_iterable(zip(map(c.ENTRY_SIZE.pack, map(len, entries)), entries, strict=True)))


def split_sized(view: memoryview, start: int) -> tuple[memoryview, ...]:
    """The entries of a batch. Each size is checked against what is left: none can reach beyond the frame."""
    entries: list[memoryview] = []
    end = len(view)
    while start < end:
        if end - start < c.ENTRY_SIZE.size:
            raise _too_short("a batch read response", view, start + c.ENTRY_SIZE.size)
        (size,) = c.ENTRY_SIZE.unpack_from(view, start)
        start += c.ENTRY_SIZE.size
        if not 0 <= size <= end - start:
            raise ProtocolError(
                f"an entry of a batch claims {size} bytes and {end - start} are left; drop the connection"
            )
        entries.append(view[start : start + size])
        start += size
    return tuple(entries)


# ---- the header int


def _header_of(message: Packet, opcode: int) -> int:
    if message.version == 0:
        return message.ignored_bits << 8 | opcode
    return message.version << 24 | opcode << 16 | message.flags


def _read_header(view: memoryview) -> _Header:
    if len(view) < _HEADER.size:
        raise _too_short("a packet", view, _HEADER.size)
    (value,) = _HEADER.unpack_from(view)
    version = value >> 24
    if version == 0:
        return _Header(0, value & 0xFF, 0, value >> 8)
    return _Header(version, value >> 16 & 0xFF, value & 0xFFFF, 0)


_Decoder = TypeVar("_Decoder")


def _dispatch(decoders: dict[int, _Decoder], header: _Header) -> _Decoder:
    decoder = decoders.get(header.opcode)
    if decoder is None:
        raise ProtocolError(f"opcode {header.opcode} is none of {sorted(decoders)}; drop the connection")
    return decoder


def _frame(message: Packet, opcode: int, *parts: Buffer) -> bytes:
    body_bytes = _HEADER.size + sum(map(len, parts))
    return b"".join((c.PACKET_START.pack(body_bytes, _header_of(message, opcode)), *parts))


def _unpack(layout: Struct, view: memoryview, what: str) -> tuple[int, ...]:
    """The fixed fields behind the header int."""
    if len(view) < _HEADER.size + layout.size:
        raise _too_short(what, view, _HEADER.size + layout.size)
    return layout.unpack_from(view, _HEADER.size)


def _too_short(what: str, view: memoryview, needed: int) -> ProtocolError:
    return ProtocolError(f"{what} of {len(view)} bytes needs {needed}; drop the connection")


def _surplus(what: str, view: memoryview, allowed: int) -> ProtocolError:
    return ProtocolError(f"{what} of {len(view)} bytes ends after {allowed}; drop the connection")
