"""The bytes of a cursor: golden values, damage, rules."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.errors import RecordFormatError
from dlog.format.cursor import decode_cursor, encode_cursor
from dlog.model import Cursor, MessageId, StoredCursor

GOLDEN = Path(__file__).parents[1] / "golden"
CURSOR = Cursor(
    name="billing",
    position=MessageId(17, 420, 3),
    properties=(("host", "a.example"), ("offset", "größer")),
    updated_us=1_357_344_000_000_000,
)
BY_NAME = {
    "log_cursor_v1.hex": StoredCursor(holder=2**63 - 1, cursor=CURSOR),
    "log_cursor_removed_v1.hex": StoredCursor(holder=5, cursor=None),
}


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / name).read_text())


@pytest.mark.parametrize(("name", "stored"), BY_NAME.items())
def test_the_bytes_of_a_cursor_never_change(name: str, stored: StoredCursor) -> None:
    assert encode_cursor(stored).hex() == golden(name).hex()
    assert decode_cursor("billing", golden(name)) == stored


@pytest.mark.parametrize("name", BY_NAME)
def test_every_truncation_and_every_flipped_bit_is_a_format_error(name: str) -> None:
    data = golden(name)
    for length in range(len(data)):
        with pytest.raises(RecordFormatError):
            decode_cursor("billing", data[:length])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordFormatError):
            decode_cursor("billing", bytes(damaged))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_flipped_bit_under_a_right_crc_is_an_error_or_another_legal_cursor(name: str) -> None:
    body = golden(name)[:-4]
    for bit in range(len(body) * 8):
        changed = bytearray(body)
        changed[bit // 8] ^= 1 << bit % 8
        data = bytes(changed) + zlib.crc32(changed).to_bytes(4, "big")
        try:
            found = decode_cursor("billing", data)
        except RecordFormatError:
            continue
        assert encode_cursor(found) == data


@given(st.binary(max_size=300))
def test_noise_is_a_format_error(noise: bytes) -> None:
    body = b"DLGC\x01" + noise
    for data in (noise, body + zlib.crc32(body).to_bytes(4, "big")):
        with pytest.raises(RecordFormatError):
            decode_cursor("billing", data)


@pytest.mark.parametrize("properties", [(("b", ""), ("a", "")), (("a", ""), ("a", ""))])
def test_properties_are_in_order_and_each_is_there_once(properties: tuple[tuple[str, str], ...]) -> None:
    stored = StoredCursor(holder=1, cursor=replace(CURSOR, properties=properties))
    with pytest.raises(RecordFormatError, match="each name once"):
        decode_cursor("billing", encode_cursor(stored))


@pytest.mark.parametrize(
    "position", [(-1, -1, 0), (1, -1, 0), (1, 0, -1), (1, 0, 2**31), (1, 2**63, 0), (2**63, 0, 0)], ids=str
)
def test_a_position_that_cannot_be_decoded_is_not_encoded(position: tuple[int, int, int]) -> None:
    with pytest.raises(RecordFormatError, match="of a cursor: expected an integer"):
        encode_cursor(StoredCursor(holder=1, cursor=replace(CURSOR, position=MessageId(*position))))


def test_an_unknown_version_is_named_with_the_known_one() -> None:
    body = b"DLGC\x02" + msgpack.packb([None, [], 0, 5])
    with pytest.raises(RecordFormatError, match="version 2, this release reads versions up to 1"):
        decode_cursor("billing", body + zlib.crc32(body).to_bytes(4, "big"))
