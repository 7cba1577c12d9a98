"""Blocks of an entry log, without files."""

import pytest

from bookie_server.errors import BlockDamagedError, IndexVersionError, StorageError
from bookie_server.storage.entry_logs.format import (
    check_file_header,
    decode_block,
    encode_block,
    encode_file_header,
    require_known_version,
)
from tests.helpers.bookie.headers import flips, with_version
from tests.helpers.bookie.storage import make_entry

IDS = [4, 5, 9]


def block_of(ids: list[int]) -> bytes:
    return b"".join(encode_block(3, 640, 7, ids, [make_entry(7, entry_id) for entry_id in ids]))


@pytest.mark.parametrize("ids", [[4], [4, 5, 6], IDS])
def test_a_block_finds_its_entries_and_no_others(ids: list[int]) -> None:
    block = decode_block(memoryview(block_of(ids)), 3, 640, 7, "log")
    for entry_id in range(12):
        assert block.entry(entry_id) == (make_entry(7, entry_id) if entry_id in ids else None)


def test_no_flipped_bit_and_no_truncation_of_a_block_passes() -> None:
    data = block_of(IDS)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StorageError):
            decode_block(memoryview(bytes(flipped)), 3, 640, 7, "log")
    for size in range(len(data)):
        with pytest.raises(StorageError):
            decode_block(memoryview(data[:size]), 3, 640, 7, "log")


@pytest.mark.parametrize(("log_id", "offset", "ledger_id"), [(4, 640, 7), (3, 64, 7), (3, 640, 8)])
def test_a_block_from_another_place_or_ledger_does_not_pass(log_id: int, offset: int, ledger_id: int) -> None:
    """A misdirected read, two files swapped, an index record of another ledger."""
    with pytest.raises(StorageError, match="other bookies"):
        decode_block(memoryview(block_of(IDS)), log_id, offset, ledger_id, "log")


def test_a_file_header_belongs_to_its_log() -> None:
    data = encode_file_header(3)
    check_file_header(data, 3, "log")
    for wrong in (b"", data[:20], b"x" + data[1:], data[:11] + b"\x09" + data[12:], data[:-1] + b"x"):
        with pytest.raises(StorageError):
            check_file_header(wrong, 3, "log")
    with pytest.raises(StorageError):
        check_file_header(data, 4, "log")


def test_a_flipped_bit_of_a_file_header_is_damage_and_no_newer_version() -> None:
    header = encode_file_header(3)
    for flipped in flips(header):
        with pytest.raises(BlockDamagedError):
            check_file_header(flipped, 3, "log")
        require_known_version(flipped, "log")


def test_a_newer_entry_log_is_refused_and_not_damaged() -> None:
    newer = with_version(encode_file_header(3), 4711)
    with pytest.raises(StorageError, match=r"version 4711.* up to 1") as refused:
        check_file_header(newer, 3, "log")
    assert not isinstance(refused.value, BlockDamagedError)
    with pytest.raises(IndexVersionError):
        require_known_version(newer, "log")
