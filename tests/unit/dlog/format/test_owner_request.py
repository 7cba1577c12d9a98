"""The bytes of a request to a log's owner."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.errors import RecordFormatError
from dlog.format.owner_request import decode_request, encode_request
from dlog.model import Owner, OwnerRequest, RequestKind, RequestState

GOLDEN = Path(__file__).parents[1] / "golden" / "log_request_v1.hex"
REQUESTER = Owner(
    instance="b-2", name="billing", host="host-2", process_id=4711, started_us=1_700_000_000_000_000
)
REQUEST = OwnerRequest(
    kind=RequestKind.ROTATE,
    epoch=7,
    nonce=2**62 + 1,
    requester=REQUESTER,
    state=RequestState.FAILED,
    reason="no bookies",
)


def framed(fields: object, version: bytes = b"\x01") -> bytes:
    body = b"DLGQ" + version + msgpack.packb(fields)
    return body + zlib.crc32(body).to_bytes(4, "big")


def test_the_bytes_of_a_request_never_change() -> None:
    golden = bytes.fromhex(GOLDEN.read_text())
    assert encode_request(REQUEST).hex() == golden.hex()
    assert decode_request(golden) == REQUEST


def test_every_truncation_and_every_flipped_bit_is_a_format_error() -> None:
    data = bytes.fromhex(GOLDEN.read_text())
    for length in range(len(data)):
        with pytest.raises(RecordFormatError):
            decode_request(data[:length])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordFormatError):
            decode_request(bytes(damaged))


@given(st.binary(max_size=100))
def test_noise_is_a_format_error(noise: bytes) -> None:
    body = b"DLGQ\x01" + noise
    for data in (noise, body + zlib.crc32(body).to_bytes(4, "big")):
        with pytest.raises(RecordFormatError):
            decode_request(data)


OWNER = ["b-2", "billing", "host-2", 4711, 1]


@pytest.mark.parametrize(
    "fields",
    [
        ["leave", 1, 1, OWNER, "open", ""],
        ["rotate", -1, 1, OWNER, "open", ""],
        ["rotate", 1, -1, OWNER, "open", ""],
        ["rotate", 1, 1, OWNER[:4], "open", ""],
        ["rotate", 1, 1, None, "open", ""],
        ["rotate", 1, 1, OWNER, "lost", ""],
        ["rotate", 1, 1, OWNER, "open", "x" * 301],
        ["rotate", 1, 1, OWNER, "open"],
    ],
)
def test_a_field_out_of_range_is_a_format_error(fields: list[object]) -> None:
    assert decode_request(framed(["rotate", 1, 1, OWNER, "open", ""])).epoch == 1
    with pytest.raises(RecordFormatError):
        decode_request(framed(fields))


def test_an_unknown_version_is_named_with_the_known_one() -> None:
    with pytest.raises(RecordFormatError, match="version 2, this release reads versions up to 1"):
        decode_request(framed([], b"\x02"))
