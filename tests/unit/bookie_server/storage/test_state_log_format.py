"""Golden bytes of `ledger-states`, and what is believed of a file that is torn or damaged."""

import pytest

from bookie_server.storage.ledgers.state_log_format import (
    FILE_HEADER_BYTES,
    REMOVED,
    StateFile,
    decode_log_ends,
    decode_state_file,
    encode_file_header,
    encode_frame,
    log_end_record,
)

STATE = (b"S" + bytes(7) + b"\x05", b"state")


def file_of(*frames: tuple[int, list[tuple[bytes, bytes]]]) -> bytes:
    data = encode_file_header()
    for generation, records in frames:
        data += encode_frame(len(data), generation, records)
    return data


def test_golden_bytes() -> None:
    data = file_of((7, [STATE, log_end_record(3, 4096)]))
    assert data.hex(" ", -8) == (
        "444c4f4753544154 0000000158d40ce2 53544154cc566c64 0000000000000007 0000002b00090000 "
        "0005530000000000 0000057374617465 0009000000084500 0000000000000300 00000000001000"
    )


def test_the_last_record_with_a_key_counts() -> None:
    data = file_of(
        (0, [STATE, log_end_record(1, 100), log_end_record(2, 50)]),
        (1, []),
        (2, [(STATE[0], b"newer"), log_end_record(1, 200), log_end_record(2, REMOVED)]),
    )
    found = decode_state_file(data)
    assert (found.records, found.log_ends, found.generation) == ({STATE[0]: b"newer"}, {1: 200}, 2)
    assert decode_log_ends(data) == StateFile({}, found.log_ends, {2}, 2)


def test_a_part_of_a_generation_does_not_count_as_all_of_it() -> None:
    whole = file_of((0, [STATE]), (4, []))
    for end in range(len(whole)):
        found = decode_state_file(whole[:end])
        assert found.generation == -1
    assert decode_state_file(whole).generation == 4


def test_no_bit_can_flip_unnoticed() -> None:
    """What follows a damaged frame is not believed either."""
    whole = file_of((3, [STATE]), (4, []))
    for at in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[at] ^= 1
        assert decode_state_file(bytes(spoiled)).generation in (-1, 3)


@pytest.mark.parametrize("rest", [b"", b"ST", bytes(100)])
def test_what_follows_the_last_good_frame_is_torn(rest: bytes) -> None:
    whole = file_of((3, [STATE]))
    assert decode_state_file(whole + rest) == decode_state_file(whole)
    assert decode_state_file(b"DLOGSTAT") == decode_state_file(b"")
    assert len(encode_file_header()) == FILE_HEADER_BYTES
