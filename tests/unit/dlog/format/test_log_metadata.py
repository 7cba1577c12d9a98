"""The bytes of records and name nodes: golden values, damage, limits."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.errors import RecordFormatError, RecordTooLargeError
from dlog.format.log_metadata import (
    decode_name,
    decode_record,
    encode_name,
    encode_record,
)
from dlog.format.metadata_value import VALUE_BYTES_MAX
from dlog.model import (
    GRACE_US,
    LogMetadata,
    LogState,
    MessageId,
    NameNode,
    NameState,
    PendingDelete,
    SinkMark,
)
from ledger.model import LedgerId
from tests.helpers.log.records import FULL, PAGED, PAGES, listed, record

RECORDS = ("log_record_v1.hex", "log_record_v2.hex", "log_record_v3.hex")
GOLDEN = Path(__file__).parents[1] / "golden"
NAME = NameNode(log_uuid="8a6f0f2e-1111-4222-8333-944444444444", state=NameState.ACTIVE)


def framed(value: object, *, kind: bytes = b"R", version: int = 3) -> bytes:
    """A frame with a right CRC around any msgpack value."""
    body = b"DLG" + kind + bytes([version]) + msgpack.packb(value)
    return body + zlib.crc32(body).to_bytes(4, "big")


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / name).read_text())


def test_the_bytes_of_a_record_never_change() -> None:
    assert encode_record(PAGED).hex() == golden("log_record_v3.hex").hex()
    assert decode_record(golden("log_record_v3.hex")) == PAGED


def test_a_record_of_version_2_is_read_and_written_as_it_was() -> None:
    older = replace(FULL, format_version=2)
    assert encode_record(older).hex() == golden("log_record_v2.hex").hex()
    assert decode_record(golden("log_record_v2.hex")) == older


def test_a_record_of_version_1_is_read_and_written_as_it_was() -> None:
    """It has no grace of its own, seven days; and anything below its trim id may have been trimmed away."""
    older = replace(FULL, format_version=1, grace_us=GRACE_US, trimmed_end=FULL.trim_before)
    assert encode_record(older).hex() == golden("log_record_v1.hex").hex()
    assert decode_record(golden("log_record_v1.hex")) == older


def test_the_bytes_of_a_name_node_never_change() -> None:
    assert encode_name(NAME).hex() == golden("log_name_v1.hex").hex()
    assert decode_name(golden("log_name_v1.hex")) == NAME


def test_a_new_log_and_a_deleted_one_survive_the_round_trip() -> None:
    for value in (
        record(epoch=0, owner=None),
        replace(PAGED, state=LogState.DELETING, ledgers=(), first_id=70_001),
        replace(FULL, state=LogState.SEALED),
    ):
        assert decode_record(encode_record(value)) == value
    unused = NameNode(log_uuid="", state=NameState.DELETED)
    assert decode_name(encode_name(unused)) == unused


@pytest.mark.parametrize("decode", [decode_record, decode_name])
@pytest.mark.parametrize("name", [*RECORDS, "log_name_v1.hex"])
def test_every_truncation_is_a_format_error(name: str, decode: object) -> None:
    data = golden(name)
    for length in range(len(data)):
        with pytest.raises(RecordFormatError):
            decode(data[:length])  # type: ignore[operator]  # either decoder
    with pytest.raises(RecordFormatError):
        decode(data + b"\0")  # type: ignore[operator]  # either decoder


@pytest.mark.parametrize("name", RECORDS)
def test_every_flipped_bit_is_a_format_error(name: str) -> None:
    data = golden(name)
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordFormatError):
            decode_record(bytes(damaged))


@pytest.mark.parametrize("name", RECORDS)
def test_a_flipped_bit_under_a_right_crc_is_an_error_or_another_legal_record(name: str) -> None:
    """What an attacker with a CRC can do: nothing but a record that encodes to the same bytes again."""
    body = golden(name)[:-4]
    for bit in range(len(body) * 8):
        changed = bytearray(body)
        changed[bit // 8] ^= 1 << bit % 8
        data = bytes(changed) + zlib.crc32(changed).to_bytes(4, "big")
        try:
            found = decode_record(data)
        except RecordFormatError:
            continue
        assert encode_record(found) == data


@given(st.binary(max_size=300))
def test_noise_is_a_format_error(noise: bytes) -> None:
    bodies = [b"DLGR" + bytes([version]) + noise for version in (1, 2, 3)]
    for data in (noise, *bodies, *(body + zlib.crc32(body).to_bytes(4, "big") for body in bodies)):
        with pytest.raises(RecordFormatError):
            decode_record(data)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=20,
)


@given(st.lists(VALUES, min_size=16, max_size=16))
def test_any_msgpack_value_is_a_format_error_or_a_record(fields: list[object]) -> None:
    data = framed(fields)
    try:
        found = decode_record(data)
    except RecordFormatError:
        return
    assert encode_record(found) == data


def test_an_unknown_version_is_named_with_the_known_one() -> None:
    data = bytearray(golden("log_record_v1.hex"))
    data[4] = 9
    whole = data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "big")
    with pytest.raises(RecordFormatError, match=r"version 9, this release reads versions up to 3") as raised:
        decode_record(bytes(whole))
    assert raised.value.newer_version == 9


def test_another_programs_value_is_refused() -> None:
    with pytest.raises(RecordFormatError, match="another program"):
        decode_record(b"BookieMetadataFormatVersion\t3\n")
    with pytest.raises(RecordFormatError, match="another program"):
        decode_record(encode_name(NAME))


def test_a_value_above_the_size_limit_is_never_written() -> None:
    many = tuple(listed(ledger_id, 5) for ledger_id in range(40_000))
    with pytest.raises(RecordTooLargeError, match=f"limit is {VALUE_BYTES_MAX}"):
        encode_record(replace(record(*many)))


@pytest.mark.parametrize(
    "broken",
    [
        replace(FULL, ledgers=(listed(9, 1), listed(3))),
        replace(FULL, ledgers=(listed(9, 1), listed(9))),
        replace(PAGED, ledgers=(listed(130), listed(309))),
        replace(PAGED, pages=PAGES[::-1]),
        replace(PAGED, pages=(replace(PAGES[0], level=0), replace(PAGES[1], level=1))),
        replace(PAGED, first_id=204),
        replace(PAGED, deleted_below=131),
        replace(PAGED, pages=(replace(PAGES[0], level=11), PAGES[1])),
        replace(PAGED, pages=(replace(PAGES[0], first_id=101), PAGES[1])),
        replace(FULL, last_ledger_id=299),
        replace(FULL, owner=None),
        replace(FULL, epoch=0),
        replace(FULL, epoch=-1),
        replace(FULL, nonce=2**63),
        replace(FULL, nonce=2**70),
        replace(FULL, log_uuid="u" * 301),
        replace(FULL, trim_before=MessageId(1, 2, 2**31)),
        replace(FULL, trimmed_end=MessageId(3, 5, 3)),
        replace(FULL, last_ledger_id=-2, ledgers=()),
        replace(FULL, pending_delete=(PendingDelete(ledger_id=LedgerId(-1), not_before_us=0),)),
        replace(FULL, sinks=tuple(SinkMark(writer_id=str(i), batch=1, time_us=1) for i in range(65))),
    ],
)
def test_a_record_that_breaks_a_rule_is_never_written(broken: LogMetadata) -> None:
    with pytest.raises(RecordFormatError):
        encode_record(broken)


@pytest.mark.parametrize("version", [1, 2])
def test_a_version_without_pages_does_not_have_any(version: int) -> None:
    fields = msgpack.unpackb(golden(f"log_record_v{version}.hex")[5:-4])
    assert fields[11] == []
    fields[11] = ["page-1"]
    with pytest.raises(RecordFormatError, match="which only version 3 has"):
        decode_record(framed(fields, version=version))


def test_a_longer_encoding_of_the_same_values_is_refused() -> None:
    """One value, one encoding: otherwise two programs disagree about what a compare-and-set compares."""
    packed = msgpack.packb(["", "deleted"])
    longer = b"\xdc\x00\x02" + packed[1:]
    body = b"DLGN\x01" + longer
    with pytest.raises(RecordFormatError, match="canonical"):
        decode_name(body + zlib.crc32(body).to_bytes(4, "big"))


@pytest.mark.parametrize("wrong", [True, 1.0, {}])
def test_a_ledger_that_only_equals_a_known_one_is_refused(wrong: object) -> None:
    """Ledgers decoded before are found by their fields, where True and 1.0 are the same as 1."""
    log = record(listed(1))
    assert decode_record(encode_record(log)) == log
    fields = msgpack.unpackb(encode_record(log)[5:-4])
    assert fields[4][0][0] == 1
    fields[4][0][0] = wrong
    with pytest.raises(RecordFormatError):
        decode_record(framed(fields))
