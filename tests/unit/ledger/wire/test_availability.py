"""The list of entries that a bookie holds, as a blob."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import ProtocolError
from ledger.wire import v3
from ledger.wire.availability import Group, decode_availability, encode_availability, runs_of
from ledger.wire.messages import ListEntriesResponse
from tests.golden import wire_frames


def test_runs_are_what_apache_writes() -> None:
    """Entries 0,1,3,4,6,7 are three groups of one run each; nothing is merged into a period."""
    assert runs_of([0, 1, 3, 4, 6, 7]) == [Group(0, 0, 2, 0), Group(3, 3, 2, 0), Group(6, 6, 2, 0)]
    assert runs_of([]) == []
    assert len(encode_availability([])) == 64


def test_golden_lists_come_out_byte_for_byte() -> None:
    seen = 0
    for golden in wire_frames("v3"):
        if golden.is_request or not golden.name.startswith("list_"):
            continue
        body = v3.decode_response(golden.body).body
        if isinstance(body, ListEntriesResponse) and body.availability is not None:
            groups = decode_availability(body.availability)
            entry_ids = [i for i in range(200) if any(group.contains(i) for group in groups)]
            assert encode_availability(runs_of(entry_ids)) == body.availability
            seen += 1
    assert seen > 0


@given(st.sets(st.integers(0, 60)))
def test_any_set_of_entries_survives(entry_ids: set[int]) -> None:
    groups = decode_availability(encode_availability(runs_of(sorted(entry_ids))))
    assert {i for i in range(70) if any(group.contains(i) for group in groups)} == entry_ids


def test_a_group_with_a_period_is_understood() -> None:
    (group,) = decode_availability(encode_availability([Group(10, 30, 2, 10)]))
    assert [i for i in range(50) if group.contains(i)] == [10, 11, 20, 21, 30, 31]


@pytest.mark.parametrize(
    "group",
    [
        Group(-1, -1, 1, 0),
        Group(0, 5, 1, 0),
        Group(0, 0, 0, 0),
        Group(0, 0, -1, 0),
        Group(0, 7, 2, 5),
        Group(0, 4, 3, 2),
        Group(5, 0, 1, 5),
        Group(0, 5, 1, -5),
    ],
)
def test_an_impossible_group_is_refused(group: Group) -> None:
    with pytest.raises(ProtocolError, match="impossible"):
        decode_availability(encode_availability([group]))


@pytest.mark.parametrize(
    "blob",
    [b"", bytes(63), bytes(65), struct.pack(">ii56x", 1, 0), struct.pack(">ii56x", 0, 2**31 - 1)],
    ids=["empty", "short header", "trailing byte", "version 1", "2^31 groups"],
)
def test_a_damaged_blob_is_refused(blob: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_availability(blob)


def test_a_negative_number_of_groups_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_availability(struct.pack(">ii56x", 0, -1) + bytes(24))
