"""Texts stored with a log: golden bytes, damage, limits."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.errors import RecordFormatError
from dlog.format.properties import (
    PROPERTIES_BYTES_MAX,
    PROPERTIES_MAX,
    checked_properties,
    decode_log_properties,
    encode_log_properties,
)
from ledger.errors import ConfigurationError

GOLDEN = Path(__file__).parents[1] / "golden" / "log_properties_v1.hex"
PROPERTIES = (("schema", "flights, version 3"), ("team", "größer"))


def test_the_bytes_of_properties_never_change() -> None:
    golden = bytes.fromhex(GOLDEN.read_text())
    assert encode_log_properties(PROPERTIES).hex() == golden.hex()
    assert decode_log_properties(golden) == PROPERTIES


def test_every_truncation_and_every_flipped_bit_is_a_format_error() -> None:
    data = bytes.fromhex(GOLDEN.read_text())
    for length in range(len(data)):
        with pytest.raises(RecordFormatError):
            decode_log_properties(data[:length])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordFormatError):
            decode_log_properties(bytes(damaged))


@given(st.binary(max_size=100).filter(lambda noise: noise != msgpack.packb([])))  # no properties
def test_noise_is_a_format_error(noise: bytes) -> None:
    body = b"DLGU\x01" + noise
    for data in (noise, body + zlib.crc32(body).to_bytes(4, "big")):
        with pytest.raises(RecordFormatError):
            decode_log_properties(data)


@pytest.mark.parametrize("fields", [[["b", ""], ["a", ""]], [["a", ""], ["a", ""]], [["a"]], [[1, "a"]], {}])
def test_others_are_a_format_error(fields: object) -> None:
    body = b"DLGU\x01" + msgpack.packb(fields)
    with pytest.raises(RecordFormatError):
        decode_log_properties(body + zlib.crc32(body).to_bytes(4, "big"))


def test_what_fits_can_be_stored() -> None:
    each = PROPERTIES_BYTES_MAX // PROPERTIES_MAX - 2
    most = checked_properties({f"{number:02}": "x" * each for number in reversed(range(PROPERTIES_MAX))})
    assert decode_log_properties(encode_log_properties(most)) == most
    assert len(encode_log_properties(most)) < 64 * 1024


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (
            {str(number): "" for number in range(PROPERTIES_MAX + 1)},
            "at most 64 properties can be stored, got 65",
        ),
        ({"name": "x" * PROPERTIES_BYTES_MAX}, "have 32772 bytes together, the limit is 32768"),
        ({"x" * (PROPERTIES_BYTES_MAX + 1): ""}, "have 32769 bytes"),
        ({"name": "ü" * (PROPERTIES_BYTES_MAX // 2)}, "have 32772 bytes"),
        ({"": "value"}, "name of a property is empty"),
        ({"name": "\ud800"}, "lone surrogate"),
        ({"name": b"bytes"}, "property 'name'"),
        ({1: "number"}, "name of a property"),
        ([("name", "value")], "properties"),
    ],
)
def test_properties_that_cannot_be_stored_are_refused(properties: object, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        checked_properties(properties)  # type: ignore[arg-type]
