"""The binary protocol against frames of Apache BookKeeper 4.18.0, and one test per wrong field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import ProtocolError
from ledger.wire import constants as c
from ledger.wire import v2
from ledger.wire.messages import (
    AddRequest,
    AddResponse,
    AuthMessage,
    BatchReadRequest,
    BatchReadResponse,
    ReadRequest,
    ReadResponse,
    V2Request,
    V2Response,
)
from ledger.wire.status import Status
from tests.helpers.wire.codecs import decode, encode, well_formed
from tests.helpers.wire.golden_frames import GoldenFrame, wire_frames

KEY = bytes(range(20))
ENTRY = bytes(range(40))

WELL_FORMED = [golden for golden in wire_frames("v2") if well_formed(golden)]
MALFORMED = [golden for golden in wire_frames("v2") if not well_formed(golden)]
OPCODES = {"ADDENTRY": c.ADD, "READENTRY": c.READ, "AUTH": c.AUTH, "BATCH_READ_ENTRY": c.BATCH_READ}
KINDS: dict[tuple[str, bool], type[Any]] = {
    ("ADDENTRY", True): AddRequest,
    ("READENTRY", True): ReadRequest,
    ("BATCH_READ_ENTRY", True): BatchReadRequest,
    ("AUTH", True): AuthMessage,
    ("ADDENTRY", False): AddResponse,
    ("READENTRY", False): ReadResponse,
    ("BATCH_READ_ENTRY", False): BatchReadResponse,
    ("AUTH", False): AuthMessage,
}


@pytest.mark.parametrize("golden", WELL_FORMED, ids=str)
def test_golden_frame_comes_out_byte_for_byte(golden: GoldenFrame) -> None:
    assert encode(golden, decode(golden, golden.body)) == golden.frame


@pytest.mark.parametrize("golden", WELL_FORMED, ids=str)
def test_golden_frame_means_what_was_recorded(golden: GoldenFrame) -> None:
    message, meaning = decode(golden, golden.body), golden.meaning
    assert type(message) is KINDS[meaning["opcode"], golden.is_request]
    assert (message.version, message.flags) == (meaning["version"], meaning["flags"])
    for field, recorded in (("ledgerId", "ledger_id"), ("entryId", "entry_id"), ("requestId", "request_id")):
        if field in meaning:
            assert getattr(message, recorded) == meaning[field]
    if "errorCode" in meaning:
        assert message.status.name == meaning["errorCode"]
    if "auth" in meaning:
        assert message.plugin_name == meaning["auth"]["authPluginName"]
        assert message.payload.hex() == meaning["auth"]["payload"]
    if "maxCount" in meaning:
        assert (message.max_count, message.max_bytes) == (meaning["maxCount"], meaning["maxSize"])


@pytest.mark.parametrize("golden", MALFORMED, ids=str)
def test_frame_on_which_a_bookie_closes_is_a_protocol_error(golden: GoldenFrame) -> None:
    with pytest.raises(ProtocolError):
        decode(golden, golden.body)


def test_there_are_golden_frames_of_every_kind_and_status() -> None:
    """Guards against a vectors file that lost its content: all the tests above would pass on an empty one."""
    messages = [decode(golden, golden.body) for golden in WELL_FORMED]
    assert {type(message) for message in messages} == set(KINDS.values())
    assert {message.status for message in messages if hasattr(message, "status")} == set(Status)
    assert {message.version for message in messages} >= {0, 1, 2, 3, 9}


def test_version_0_keeps_the_bits_that_mean_nothing() -> None:
    """Only the low byte of an ancient header counts: 0x00020001 is an add."""
    body = bytes.fromhex("00020001") + KEY + ENTRY
    message = v2.decode_request(body)
    assert isinstance(message, AddRequest)
    assert (message.version, message.flags, message.recovery) == (0, 0, False)
    assert v2.encode_request(message)[4:] == body


def test_version_1_never_carries_a_key() -> None:
    """Its fencing read has bytes where the key would be; they are kept as trailing bytes, not as a key."""
    body = bytes.fromhex("01020001") + bytes(16) + KEY
    message = v2.decode_request(body)
    assert isinstance(message, ReadRequest)
    assert message.fencing
    assert (message.master_key, message.trailing) == (None, KEY)


def test_add_request_of_decoded_bytes_shares_the_received_buffer() -> None:
    """The entry of a hot-path request is a slice, not a copy."""
    message = v2.decode_request(v2.encode_request(AddRequest(master_key=KEY, entry=ENTRY))[4:])
    assert isinstance(message, AddRequest)
    assert isinstance(message.entry, memoryview)


@pytest.mark.parametrize("opcode", [0, 4, 5, 6, 8, 255])
def test_unknown_opcode_is_refused_with_its_number(opcode: int) -> None:
    with pytest.raises(ProtocolError, match=f"opcode {opcode} "):
        v2.decode_request(bytes((2, opcode, 0, 0)) + bytes(64))
    with pytest.raises(ProtocolError, match=f"opcode {opcode} "):
        v2.decode_response(bytes((2, opcode, 0, 0)) + bytes(64))


@pytest.mark.parametrize("code", [3, 99, 108, 402, 0xFFFFFFFF])
@pytest.mark.parametrize("opcode", [c.ADD, c.READ, c.BATCH_READ])
def test_unknown_status_is_refused_with_its_number(opcode: int, code: int) -> None:
    body = bytes((2, opcode, 0, 0)) + code.to_bytes(4, "big") + bytes(24 if opcode == c.BATCH_READ else 16)
    with pytest.raises(ProtocolError, match=f"status {code} "):
        v2.decode_response(body)


def test_response_with_flags_is_refused() -> None:
    body = bytes.fromhex("02010001") + bytes(20)
    with pytest.raises(ProtocolError, match="0x0001"):
        v2.decode_response(body)


def test_error_response_with_an_entry_is_refused() -> None:
    frame = v2.encode_response(ReadResponse(status=Status.ENOENTRY, ledger_id=1, entry_id=2))
    with pytest.raises(ProtocolError, match="ENOENTRY"):
        v2.decode_response(frame[4:] + b"x")


@pytest.mark.parametrize("surplus", [b"x", bytes(4)])
def test_add_response_of_another_length_is_refused(surplus: bytes) -> None:
    frame = v2.encode_response(AddResponse(status=Status.EOK, ledger_id=1, entry_id=2))
    with pytest.raises(ProtocolError, match="24"):
        v2.decode_response(frame[4:] + surplus)


@pytest.mark.parametrize("size", [-1, -(2**31), 41, 2**31 - 1])
def test_batch_entry_size_is_checked_against_what_is_left(size: int) -> None:
    response = BatchReadResponse(status=Status.EOK, ledger_id=1, entry_id=0, request_id=7, entries=(ENTRY,))
    body = bytearray(v2.encode_response(response)[4:])
    body[32:36] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match=f"claims {size} bytes"):
        v2.decode_response(bytes(body))


def test_batch_without_entries_is_refused() -> None:
    """EOK with nothing in it would let a reader ask the same question for ever."""
    error = BatchReadResponse(status=Status.EIO, ledger_id=1, entry_id=0, request_id=7)
    body = bytearray(v2.encode_response(error)[4:])
    body[4:8] = bytes(4)
    with pytest.raises(ProtocolError, match="EOK holds 0 entries"):
        v2.decode_response(bytes(body))


# ---- any message there and back

longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
keys = st.binary(min_size=20, max_size=20)
entries = st.binary(min_size=16, max_size=80)
versions = st.integers(1, 255)
flags = st.integers(0, 0xFFFF)
names = st.text(max_size=20)

plain_flags = flags.map(lambda value: value & ~c.FENCE)
requests = st.one_of(
    st.builds(AddRequest, master_key=keys, entry=entries, flags=flags, version=versions),
    st.builds(
        ReadRequest,
        ledger_id=longs,
        entry_id=longs,
        flags=plain_flags,
        version=versions,
        trailing=st.binary(max_size=5),
    ),
    st.builds(
        ReadRequest,
        ledger_id=longs,
        entry_id=longs,
        flags=plain_flags.map(lambda value: value | c.FENCE),
        master_key=keys,
        version=st.integers(2, 255),
        trailing=st.binary(max_size=5),
    ),
    st.builds(
        BatchReadRequest,
        ledger_id=longs,
        entry_id=longs,
        request_id=longs,
        max_count=ints,
        max_bytes=longs,
        flags=plain_flags,
    ),
    st.builds(AuthMessage, plugin_name=names, payload=st.binary(max_size=20), flags=flags),
)

failures = st.sampled_from([status for status in Status if status is not Status.EOK])
responses = st.one_of(
    st.builds(AddResponse, status=st.sampled_from(Status), ledger_id=longs, entry_id=longs, version=versions),
    st.builds(ReadResponse, status=st.just(Status.EOK), ledger_id=longs, entry_id=longs, entry=entries),
    st.builds(ReadResponse, status=failures, ledger_id=longs, entry_id=longs),
    st.builds(
        BatchReadResponse,
        status=st.just(Status.EOK),
        ledger_id=longs,
        entry_id=longs,
        request_id=longs,
        entries=st.lists(entries, min_size=1, max_size=4).map(tuple),
    ),
    st.builds(BatchReadResponse, status=failures, ledger_id=longs, entry_id=longs, request_id=longs),
    st.builds(AuthMessage, plugin_name=names, payload=st.binary(max_size=20)),
)


@given(requests)
def test_any_request_survives_the_way_there(message: V2Request) -> None:
    assert v2.decode_request(v2.encode_request(message)[4:]) == message


@given(responses)
def test_any_response_survives_the_way_there(message: V2Response) -> None:
    assert v2.decode_response(v2.encode_response(message)[4:]) == message


@given(st.binary(max_size=120))
def test_garbage_is_a_protocol_error_or_exactly_those_bytes(body: bytes) -> None:
    for decode_body, encode_message in (
        (v2.decode_request, v2.encode_request),
        (v2.decode_response, v2.encode_response),
    ):
        try:
            message: Any = decode_body(body)
        except ProtocolError:
            continue
        if not isinstance(message, AuthMessage):
            assert encode_message(message)[4:] == body
