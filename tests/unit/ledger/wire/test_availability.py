"""The list of entries that a bookie holds, as a blob."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from ledger.wire import v3
from ledger.wire.availability import encode_availability, encode_in_periods
from ledger.wire.messages import ListEntriesResponse
from tests.helpers.wire.golden_frames import wire_frames


def test_each_run_is_a_group_of_its_own() -> None:
    """Entries 0,1,3,4,6,7 are three groups of one run each, as Apache writes them: nothing is merged into a period."""
    groups = [(0, 0, 2, 0), (3, 3, 2, 0), (6, 6, 2, 0)]
    expected = struct.pack(">ii56x", 0, 3) + b"".join(struct.pack(">qqii", *group) for group in groups)
    assert encode_availability([(0, 1), (3, 4), (6, 7)]) == expected


def test_an_empty_list_is_its_header() -> None:
    assert encode_availability([]) == bytes(64)


def test_golden_lists_come_out_byte_for_byte() -> None:
    seen = 0
    for golden in wire_frames("v3"):
        if golden.is_request or not golden.name.startswith("list_"):
            continue
        body = v3.decode_response(golden.body).body
        if isinstance(body, ListEntriesResponse) and body.availability is not None:
            groups = struct.iter_unpack(">qqii", bytes(body.availability)[64:])
            runs = [(first, first + run_length - 1) for first, _, run_length, _ in groups]
            assert encode_availability(runs) == body.availability
            seen += 1
    assert seen > 0


def _ids_of(blob: bytes) -> list[int]:
    version, count = struct.unpack_from(">ii56x", blob)
    assert (version, len(blob)) == (0, 64 + 24 * count)
    found = []
    for first, last, run_length, period in struct.iter_unpack(">qqii", blob[64:]):
        assert (period == 0) == (first == last)
        for start in range(first, last + 1, period or 1):
            found += range(start, start + run_length)
    return found


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5)), max_size=6))
def test_groups_with_a_period_list_the_same_entries(parts: list[tuple[int, int, int]]) -> None:
    """Runs that do not touch, some of them equal and with equal gaps."""
    ids, runs, following = list[int](), list[tuple[int, int]](), 0
    for run_length, gap, count in parts:
        for _ in range(count):
            ids += range(following, following + run_length)
            runs.append((following, following + run_length - 1))
            following += run_length + gap
    assert _ids_of(encode_in_periods(runs)) == _ids_of(encode_availability(runs)) == ids


def test_a_period_has_32_bits() -> None:
    runs = [(0, 0), (2**31, 2**31), (2**32, 2**32)]
    assert _ids_of(encode_in_periods(runs)) == [0, 2**31, 2**32]
