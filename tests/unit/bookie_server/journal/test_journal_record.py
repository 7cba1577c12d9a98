"""Bytes of journal files, without files."""

from collections.abc import Callable

import pytest

from bookie_server.errors import (
    IndexDamagedError,
    IndexVersionError,
    JournalDamagedError,
    JournalRecordError,
    JournalVersionError,
)
from bookie_server.journal.log_mark import LogMark, decode_log_mark, encode_log_mark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    FileHeader,
    RecordType,
    adds_body,
    decode_adds,
    decode_explicit_lac,
    decode_file_header,
    decode_key,
    decode_record,
    encode_file_header,
    encode_record,
    ledger_of,
)
from tests.helpers.bookie.headers import flips, with_version
from tests.helpers.bookie.storage import make_entry

HEADER = FileHeader(7, 0x1234_5678_9ABC_DEF0)


def test_a_record_comes_back_as_it_was_written() -> None:
    data = b"".join(encode_record(HEADER, RecordType.FENCE, 9, 0, b"ledger 5"))
    record = decode_record(HEADER, memoryview(data), 0)
    assert record is not None
    assert (record.type, record.sequence, bytes(record.body)) == (RecordType.FENCE, 9, b"ledger 5")


def test_no_flipped_bit_of_a_record_passes() -> None:
    data = b"".join(encode_record(HEADER, RecordType.FENCE, 9, 0, b"ledger 5"))
    assert all(decode_record(HEADER, memoryview(flipped), 0) is None for flipped in flips(data))


def test_a_record_of_another_file_does_not_pass() -> None:
    """A recycled block may hold an old record that was once valid."""
    data = b"".join(encode_record(FileHeader(7, 99), RecordType.FENCE, 9, 0, b"ledger 5"))
    assert decode_record(HEADER, memoryview(data), 0) is None


def test_a_truncated_record_does_not_pass() -> None:
    data = b"".join(encode_record(HEADER, RecordType.FENCE, 9, 0, b"ledger 5"))
    assert all(decode_record(HEADER, memoryview(data[:size]), 0) is None for size in range(len(data)))


def test_one_record_holds_a_whole_run_of_adds() -> None:
    entries = [make_entry(3, entry_id) for entry_id in (5, 6, 9)]
    body = adds_body([len(entry) for entry in entries], entries)
    assert [(found[0], found[1], found[2], bytes(found[3])) for found in decode_adds(memoryview(body))] == [
        (3, entry_id, entry_id - 1, bytes(entry)) for entry_id, entry in zip((5, 6, 9), entries, strict=True)
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0",
        (3).to_bytes(4, "big"),
        (2**32 - 1).to_bytes(4, "big") + bytes(100),
        adds_body([40], [make_entry(3, 1)[:39]]),
        adds_body([39], [make_entry(3, 1)[:40]]),
        adds_body([8, 24], [make_entry(3, 1)[:32]]),
    ],
    ids=[
        "empty",
        "half a count",
        "no lengths",
        "a huge count",
        "too short",
        "too long",
        "an entry of 8 bytes",
    ],
)
def test_a_body_that_is_not_its_entries_is_refused(body: bytes) -> None:
    with pytest.raises(JournalRecordError):
        list(decode_adds(memoryview(body)))


@pytest.mark.parametrize("decode", [ledger_of, decode_key, decode_explicit_lac])
def test_a_body_without_a_ledger_is_refused(decode: Callable[[memoryview], object]) -> None:
    with pytest.raises(JournalRecordError):
        decode(memoryview(bytes(7)))


def test_a_marker_is_never_zero() -> None:
    """Zero means preallocated space."""
    assert FileHeader(1, 0).marker != 0
    assert FileHeader(1, 0x1111_1111_1111_1111).marker != 0


def test_file_header_comes_back() -> None:
    data = encode_file_header(HEADER)
    assert len(data) == FILE_HEADER_BYTES
    assert decode_file_header(data, "j") == HEADER


def test_no_flipped_bit_of_a_file_header_passes() -> None:
    for flipped in flips(encode_file_header(HEADER)):
        with pytest.raises(JournalDamagedError):
            decode_file_header(flipped, "j")


def test_a_newer_journal_is_refused_with_both_versions() -> None:
    with pytest.raises(JournalVersionError, match=r"version 4711.* up to 2"):
        decode_file_header(with_version(encode_file_header(HEADER), 4711), "j")


def test_log_mark_comes_back_and_no_flipped_bit_passes() -> None:
    mark = LogMark(3, 1024, 77, 5)
    data = encode_log_mark(mark)
    assert decode_log_mark(data, "mark") == mark
    for flipped in flips(data):
        with pytest.raises(IndexDamagedError):
            decode_log_mark(flipped, "mark")


@pytest.mark.parametrize(
    "data", [b"", b"garbage", bytes(48), encode_log_mark(LogMark(3, 1024, 77, 5))[:-1] + b"?"]
)
def test_a_damaged_log_mark_is_refused_with_the_way_out(data: bytes) -> None:
    with pytest.raises(
        IndexDamagedError, match="restore it; if it is lost, start a new bookie under another id"
    ):
        decode_log_mark(data, "mark")


def test_a_newer_log_mark_is_refused_with_both_versions() -> None:
    with pytest.raises(IndexVersionError, match=r"version 4711.* up to 1"):
        decode_log_mark(with_version(encode_log_mark(LogMark(3, 1024, 77, 5)), 4711), "mark")
