"""Bytes of entries that stay in the journal."""

from __future__ import annotations

import struct

import pytest

from bookie_server.errors import JournalRecordError, StorageError
from bookie_server.journal.block import block_body, decode_body, entries_of, in_blocks, read_block
from bookie_server.journal.record import VERSION, FileHeader, Record, RecordType, decode_record, encode_record
from tests.helpers.bookie.storage import make_entry

HEADER = FileHeader(3, 0x1122334455667788, VERSION)
IDS = [4, 5, 9]
AT = 8192
GROUP_START = 4096


def record_of(ids: list[int], *, at: int = AT) -> bytes:
    body = block_body(7, ids, [make_entry(7, each) for each in ids])
    return b"".join(encode_record(HEADER, RecordType.BLOCK, 12, GROUP_START, body, at))


def decoded(data: bytes, *, at: int = AT) -> Record | None:
    return decode_record(HEADER, memoryview(data), 0, at)


def test_the_bytes_of_a_block_are_those_of_the_format() -> None:
    body = block_body(7, IDS, [make_entry(7, each) for each in IDS])
    entries = [bytes(make_entry(7, each)) for each in IDS]
    facts = struct.pack(">qqqII3I", 7, 4, 9, 3, sum(map(len, entries)), *map(len, entries))
    assert body == facts + b"".join(entries)


def test_entries_come_back_with_their_ids_and_lacs() -> None:
    record = decoded(record_of(IDS))
    assert record is not None
    assert (record.file_id, record.offset, record.group_start) == (3, AT, GROUP_START)
    found = list(entries_of(record))
    assert [each[:3] for each in found] == [(7, each, each - 1) for each in IDS]
    assert [bytes(each[3]) for each in found] == [bytes(make_entry(7, each)) for each in IDS]


def test_every_flipped_bit_is_noticed() -> None:
    data = record_of(IDS)
    for at in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[at] ^= 1 << bit
            assert decoded(bytes(wrong)) is None
            with pytest.raises(StorageError):
                read_block(HEADER, memoryview(bytes(wrong)), AT, 7, "j")


@pytest.mark.parametrize(
    ("ledger_id", "at", "header"),
    [
        (8, AT, HEADER),
        (7, AT + 512, HEADER),
        (7, AT, FileHeader(3, 0x1122334455667789, VERSION)),
    ],
    ids=["another ledger", "another place", "another life of the file"],
)
def test_a_block_is_only_read_as_what_it_is(ledger_id: int, at: int, header: FileHeader) -> None:
    data = memoryview(record_of(IDS))
    assert list(read_block(HEADER, data, AT, 7, "j").ids) == IDS
    with pytest.raises(StorageError, match="damaged at offset"):
        read_block(header, data, at, ledger_id, "j")


def test_more_or_less_than_the_record_is_not_read() -> None:
    data = record_of(IDS)
    for wrong in (data[:-1], data + b"\0", data[:20], b""):
        with pytest.raises(StorageError):
            read_block(HEADER, memoryview(wrong), AT, 7, "j")


def test_another_record_is_no_block() -> None:
    data = b"".join(encode_record(HEADER, RecordType.FENCE, 12, GROUP_START, bytes(8), AT))
    with pytest.raises(StorageError):
        read_block(HEADER, memoryview(data), AT, 0, "j")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        bytes(31),
        struct.pack(">qqqII", 7, 0, 0, 0, 0),
        struct.pack(">qqqIII", 7, 0, 0, 1, 10, 10) + bytes(10),
        struct.pack(">qqqIII", 7, 0, 0, 1, 24, 24) + struct.pack(">qqq", 7, 1, -1),
        struct.pack(">qqqIII", 7, 0, 0, 1, 24, 24) + struct.pack(">qqq", 8, 0, -1),
        struct.pack(">qqqIII", 7, 0, 0, 1, 24, 23) + struct.pack(">qqq", 7, 0, -1),
        struct.pack(">qqqII2I", 7, 0, 5, 2, 48, 24, 24) + struct.pack(">6q", 7, 5, -1, 7, 0, -1),
    ],
    ids=[
        "empty",
        "short",
        "no entry",
        "too short an entry",
        "another id",
        "another ledger",
        "lengths",
        "order",
    ],
)
def test_a_body_that_no_writer_made_is_refused_although_its_checksum_is_right(body: bytes) -> None:
    with pytest.raises(JournalRecordError, match="which are not its entries"):
        decode_body(memoryview(body))


def test_runs_are_cut_into_blocks_of_whole_entries() -> None:
    run = (range(5), [bytes(10)] * 5)
    assert [ids for ids, _ in in_blocks([run], 25)] == [[0, 1], [2, 3], [4]]
