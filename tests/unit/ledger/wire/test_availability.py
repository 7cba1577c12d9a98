"""The list of entries that a bookie holds, as a blob."""

import struct

from ledger.wire import v3
from ledger.wire.availability import encode_availability
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
