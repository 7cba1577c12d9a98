"""The bytes of a log's retention, and which rules can be set."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.errors import RecordFormatError
from dlog.format.retention import decode_retention, encode_retention
from dlog.model import Retention
from ledger.errors import ConfigurationError

GOLDEN = Path(__file__).parents[1] / "golden" / "log_retention_v1.hex"
RETENTION = Retention(max_age_s=604_800.5, max_bytes=10**10, max_messages=None, keep_unread=True)


def test_the_bytes_of_a_retention_never_change() -> None:
    golden = bytes.fromhex(GOLDEN.read_text())
    assert encode_retention(RETENTION).hex() == golden.hex()
    assert decode_retention(golden) == RETENTION


def test_every_truncation_and_every_flipped_bit_is_a_format_error() -> None:
    data = bytes.fromhex(GOLDEN.read_text())
    for length in range(len(data)):
        with pytest.raises(RecordFormatError):
            decode_retention(data[:length])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordFormatError):
            decode_retention(bytes(damaged))


@given(st.binary(max_size=100))
def test_noise_is_a_format_error(noise: bytes) -> None:
    body = b"DLGT\x01" + noise
    for data in (noise, body + zlib.crc32(body).to_bytes(4, "big")):
        with pytest.raises(RecordFormatError):
            decode_retention(data)


@pytest.mark.parametrize(
    "fields",
    [
        [0, None, None, False],
        [None, 0, None, False],
        [None, None, -1, False],
        [2**62, None, None, False],
        [1],
    ],
)
def test_a_rule_out_of_range_is_a_format_error(fields: list[object]) -> None:
    body = b"DLGT\x01" + msgpack.packb(fields)
    with pytest.raises(RecordFormatError):
        decode_retention(body + zlib.crc32(body).to_bytes(4, "big"))


def test_an_unknown_version_is_named_with_the_known_one() -> None:
    body = b"DLGT\x02" + msgpack.packb([None, None, None, False])
    with pytest.raises(RecordFormatError, match="version 2, this release reads versions up to 1"):
        decode_retention(body + zlib.crc32(body).to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"max_age_s": 0}, "max_age_s must be positive, got 0"),
        ({"max_bytes": -1}, "max_bytes must be positive, got -1"),
        ({"max_messages": 0}, "max_messages must be positive.*or delete the log"),
        ({"max_age_s": 1e12}, "at most .* 1,000 years"),
        ({"max_age_s": float("nan")}, "max_age_s"),
        ({"max_bytes": 1.5}, "max_bytes of Retention"),
        ({"keep_unread": 1}, "keep_unread of Retention"),
    ],
)
def test_rules_that_mean_nothing_are_refused(rules: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Retention(**rules)


def test_without_a_rule_everything_is_kept() -> None:
    assert Retention().keeps_everything
    assert not Retention(max_messages=1).keeps_everything
    assert not Retention(keep_unread=True).keeps_everything
