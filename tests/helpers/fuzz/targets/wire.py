"""Frames of both protocols, digests, and the short cuts past the codecs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ledger.errors import DigestMismatchError, ProtocolError
from ledger.model import DigestType
from ledger.transport.ack_block import RECORD, ack_run
from ledger.transport.frame_reader import FrameReader
from ledger.wire import v2, v3
from ledger.wire.add_v3 import added
from ledger.wire.constants import ADD_RESPONSE
from ledger.wire.digest import Digester, make_digester
from ledger.wire.entry import ENTRY_HEADER_BYTES, decode_header
from ledger.wire.frame import FrameSplitter
from ledger.wire.messages import AuthMessage, Operation, V3AddResponse, WriteLacRequest
from ledger.wire.status import Status
from ledger.wire.write_lac import lac_answers, written_lac
from tests.helpers.fuzz import slow_v2
from tests.helpers.fuzz.cutting import Cutter, pieces
from tests.helpers.fuzz.target import Target, plain
from tests.helpers.wire.codecs import all_frames
from tests.helpers.wire.golden_frames import load

FRAME_BYTES_MAX = 1024


# ---- version 2


def v2_request(body: bytes) -> None:
    _v2(body, v2.decode_request, v2.encode_request, slow_v2.request)


def v2_response(body: bytes) -> None:
    _v2(body, v2.decode_response, v2.encode_response, slow_v2.response)


def _v2(body: bytes, decode: Any, encode: Any, slow: Any) -> None:
    """Both decoders agree, and what was decoded encodes to the bytes it came from."""
    try:
        message = decode(body)
    except ProtocolError:
        assert slow(body) is None
        return
    if isinstance(message, AuthMessage):
        assert slow(body) is None  # protobuf in it: not a layout of version 2
        assert decode(encode(message)[4:]) == message
        return
    fields = slow(body)
    assert fields is not None and fields.pop("kind") == type(message).__name__
    assert {name: getattr(message, name) for name in fields} == fields
    assert encode(message)[4:] == body


# ---- version 3


def v3_request(body: bytes) -> None:
    try:
        message = v3.decode_request(body)
    except ProtocolError:
        assert (lac := written_lac(body, 0, len(body))) is None, lac
        return
    encoded = v3.encode_request(message)[4:]
    assert v3.decode_request(encoded) == message
    lac = written_lac(body, 0, len(body))
    if lac is not None:
        request = message.body
        assert isinstance(request, WriteLacRequest)
        assert (request.ledger_id, request.master_key, request.packet) == (lac.ledger_id, lac.key, lac.packet)
        answer = v3.decode_response(lac_answers([lac], 0)[4:])
        assert answer.operation is Operation.WRITE_LAC and answer.txn_id == message.txn_id
        assert answer.outcome is Status.EOK and answer.body.ledger_id == lac.ledger_id  # type: ignore[union-attr]


def v3_response(body: bytes) -> None:
    try:
        message = v3.decode_response(body)
    except ProtocolError:
        assert (ids := added(memoryview(body))) is None, ids
        return
    encoded = v3.encode_response(message)[4:]
    assert v3.decode_response(encoded) == message
    ids = added(memoryview(body))
    if ids is not None:
        response = message.body
        assert isinstance(response, V3AddResponse) and message.outcome is Status.EOK
        assert (response.ledger_id, response.entry_id) == ids


# ---- streams of frames


def frames(data: bytes) -> None:
    """However a stream is cut, both splitters find the same bodies in it, and refuse the same stream."""
    cutter = Cutter(data)
    cuts = cutter.take(cutter.below(16))
    stream = cutter.rest()
    whole = _split([stream])
    assert _split(list(pieces(stream, cuts))) == whole
    bodies, refused = whole
    if not any(body == b"" for body in bodies):  # the other one, for entries, refuses a frame without a body
        assert _read([stream]) == whole
        assert _read(list(pieces(stream, cuts))) == whole
    assert refused or sum(map(len, bodies)) <= len(stream)


def _split(parts: list[bytes]) -> tuple[list[bytes], bool]:
    splitter, found = FrameSplitter(FRAME_BYTES_MAX), []
    try:
        for part in parts:
            found += map(bytes, splitter.feed(part))
            assert splitter.partial_bytes < FRAME_BYTES_MAX
    except ProtocolError:
        return [], True  # in pieces, the bodies before the bad length come out first
    return found, False


def _read(parts: list[bytes]) -> tuple[list[bytes], bool]:
    reader, found = FrameReader(FRAME_BYTES_MAX), []
    try:
        for part in parts:
            data, at = reader.feed(part), 0
            while end := reader.frame_end(data, at):
                found.append(data[at + 4 : end])
                at = end
    except ProtocolError:
        return [], True
    return found, False


def ack_blocks(data: bytes) -> None:
    """A run is what a step for each record finds: one ledger, EOK, ids that rise by one."""
    run = ack_run(data, 0, len(data))
    records = [ADD_RESPONSE.unpack_from(data, at) for at in range(0, len(data) - RECORD + 1, RECORD)]
    good = bool(records) and all(
        record[:3] == (24, 0x02010000, 0)
        and record[3] == records[0][3]
        and record[4] == records[0][4] + number
        for number, record in enumerate(records)
    )
    # A negative id is taken for a large one, which no ledger has.
    if run is None:
        assert not good or records[0][4] < 0 <= records[-1][4]
    else:
        ends = [record & 2**64 - 1 for record in (records[0][3], records[0][4], records[-1][4])]
        assert good and run == (*ends, len(records) * RECORD)


# ---- digests

_DIGESTERS: list[Digester] = [make_digester(kind, b"pw") for kind in DigestType]


def digests(data: bytes) -> None:
    """Every way to open an entry gives the same answer, and none takes a damaged one for whole."""
    cutter = Cutter(data)
    digester = _DIGESTERS[cutter.below(len(_DIGESTERS))]
    damage_at, damage = cutter.number(2), cutter.number()
    foreign, payload = cutter.below(2), cutter.rest()
    entry = payload if foreign else digester.header_and_digest(7, 3, 2, len(payload), (payload,)) + payload
    if damage and not foreign:
        at = damage_at % len(entry)
        entry = entry[:at] + bytes([entry[at] ^ damage]) + entry[at + 1 :]
    opened = _opened(digester, entry)
    if foreign or not damage:
        assert foreign or opened == (2, len(payload), payload)
    elif digester.size:
        assert opened is None
    try:
        decode_header(entry)
    except ProtocolError:
        assert len(entry) < ENTRY_HEADER_BYTES
    _lac_packet(digester, entry)


def _opened(digester: Digester, entry: bytes) -> tuple[int, int, bytes] | None:
    try:
        header = digester.verify(entry, 7, 3)
    except DigestMismatchError:
        header = None
    try:
        opened = digester.open_entry(b"before" + entry + b"after", 6, 6 + len(entry), 7, 3)
    except DigestMismatchError:
        opened = None
    if header is None:
        assert opened is None
        return None
    assert opened == (header.lac, header.length, entry[digester.overhead_bytes :])
    try:
        assert digester.verify(memoryview(entry), 7, None) == header
        assert header.lac < header.entry_id
    except DigestMismatchError:
        assert header.lac >= header.entry_id
    return opened


def _lac_packet(digester: Digester, data: bytes) -> None:
    try:
        lac = digester.verify_lac_packet(7, data)
    except DigestMismatchError:
        return
    assert data.startswith(digester.lac_packet(7, lac))


# ---- inputs to start from


def _bodies(*, requests: bool, version_3: bool) -> Iterator[bytes]:
    for golden in all_frames():
        if golden.is_request is requests and golden.is_v3 is version_3:
            yield golden.body


def _streams() -> Iterator[bytes]:
    found = [golden.frame for golden in all_frames()]
    for at in range(0, len(found), 3):
        yield b"\x03\x05\x1b\x02" + b"".join(found[at : at + 3])


def _acks() -> Iterator[bytes]:
    for first, count in ((0, 1), (3, 4), (250, 12), (65530, 9)):
        yield b"".join(ADD_RESPONSE.pack(24, 0x02010000, 0, 9, first + each) for each in range(count))


def _entries() -> Iterator[bytes]:
    for number, vector in enumerate(load("digests.json")["entries"]):
        yield bytes([number % 4, 0, number, 0, 0]) + bytes.fromhex(vector["payload_hex"])[:1000]
        yield bytes([number % 4, 0, number, 9, 0]) + b"payload"
    for vector in load("digests.json")["lac_packets"]:
        yield bytes([0, 0, 0, 0, 1]) + bytes.fromhex(vector["packet_hex"])


TARGETS = [
    Target(
        name="v2-requests",
        session=plain(v2_request),
        corpus=lambda: _bodies(requests=True, version_3=False),
    ),
    Target(
        name="v2-responses",
        session=plain(v2_response),
        corpus=lambda: _bodies(requests=False, version_3=False),
    ),
    Target(
        name="v3-requests",
        session=plain(v3_request),
        corpus=lambda: _bodies(requests=True, version_3=True),
    ),
    Target(
        name="v3-responses",
        session=plain(v3_response),
        corpus=lambda: _bodies(requests=False, version_3=True),
    ),
    Target(name="frames", session=plain(frames), corpus=_streams),
    Target(name="ack-blocks", session=plain(ack_blocks), corpus=_acks),
    Target(name="digests", session=plain(digests), corpus=_entries),
]
