"""Java's v3 adds are gathered without the codec, and their answers equal the codec's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie_server.protocol.requests import AddRun, Adds, Echo
from bookie_server.protocol.v3_adds import RESPONSES, gather
from ledger.wire import v3
from ledger.wire.entry import ENTRY_HEADER
from ledger.wire.messages import (
    Operation,
    ReadLacRequest,
    V3AddRequest,
    V3AddResponse,
    V3Request,
    V3Response,
)
from ledger.wire.status import Status
from tests.helpers.wire.golden_frames import wire_frames

KEY = bytes(range(20))
LIMIT = 1024 * 1024


def entry(ledger_id: int, entry_id: int, payload: bytes = b"payload") -> bytes:
    return ENTRY_HEADER.pack(ledger_id, entry_id, entry_id - 1, 7) + b"DIGS" + payload


def request(ledger_id: int, entry_id: int, txn_id: int = 1, **changes: object) -> V3Request:
    fields = {
        "ledger_id": ledger_id,
        "entry_id": entry_id,
        "master_key": KEY,
        "entry": entry(ledger_id, entry_id),
    }
    body = V3AddRequest(**{**fields, **changes})  # type: ignore[arg-type]  # the tests give the right types
    return V3Request(txn_id=txn_id, operation=Operation.ADD_ENTRY, body=body)


def frame(ledger_id: int, entry_id: int, txn_id: int = 1, **changes: object) -> bytes:
    return v3.encode_request(request(ledger_id, entry_id, txn_id, **changes))


def gathered(block: bytes, limit: int = LIMIT) -> tuple[list[AddRun], int]:
    adds, position = gather(block, 0, limit)
    if adds is None:
        return [], position
    assert isinstance(adds, Adds)
    assert (adds.byte_count, adds.encoder) == (position, RESPONSES)
    return list(adds.runs), position


ids = st.integers(min_value=0, max_value=2**63 - 1)


@given(
    ledger_id=ids,
    entry_id=ids,
    txn_id=st.integers(min_value=0, max_value=2**64 - 1),
    payload=st.binary(max_size=300),
    status=st.sampled_from(Status),
)
def test_any_add_is_gathered_and_answered_as_the_codec_would(
    ledger_id: int, entry_id: int, txn_id: int, payload: bytes, status: Status
) -> None:
    stored = entry(ledger_id, entry_id, payload)
    block = frame(ledger_id, entry_id, txn_id, entry=stored)
    [run], position = gathered(block)
    assert position == len(block)
    assert (run.ledger_id, run.key) == (ledger_id, KEY)
    assert (run.ids, run.entries) == ([entry_id], [stored])
    expected = V3Response(
        txn_id=txn_id,
        operation=Operation.ADD_ENTRY,
        status=status,
        body=V3AddResponse(status=status, ledger_id=ledger_id, entry_id=entry_id),
    )
    assert RESPONSES.added([run], status, frozenset()) == v3.encode_response(expected)


def test_adds_are_gathered_by_ledger_and_key() -> None:
    block = frame(5, 0, 1) + frame(6, 0, 2) + frame(5, 1, 3) + frame(5, 2, 4, master_key=bytes(20))
    runs, position = gathered(block)
    assert position == len(block)
    assert [(run.ledger_id, run.key, run.ids) for run in runs] == [
        (5, KEY, [0, 1]),
        (6, KEY, [0]),
        (5, bytes(20), [2]),
    ]


def test_the_ids_inside_the_entry_count_and_the_outer_ones_are_echoed() -> None:
    [run], _ = gathered(frame(5, 7, 1, entry=entry(8, 9)))
    assert (run.ledger_id, run.ids) == (8, [9])
    assert run.echoes == [Echo(b"\x01", b"\x05", b"\x07")]


@pytest.mark.parametrize(
    "other",
    [
        frame(5, 1, recovery=True),
        frame(5, 1, write_flags=1),
        frame(5, 1, master_key=b"short"),
        frame(5, 1, entry=entry(5, 1)[:23]),
        frame(5, 1, entry=entry(-5, 1)),
        frame(5, 1, entry=entry(5, -1)),
        v3.encode_request(
            V3Request(txn_id=1, operation=Operation.READ_LAC, body=ReadLacRequest(ledger_id=5))
        ),
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
    ],
    ids=["recovery", "deferred", "key", "short", "ledger -5", "entry -1", "read LAC", "empty", "too long"],
)
def test_anything_else_ends_the_gathering(other: bytes) -> None:
    block = frame(5, 0) + other + frame(5, 2)
    [run], position = gathered(block)
    assert run.ids == [0]
    assert position == len(frame(5, 0))


@pytest.mark.parametrize("place", range(4, 60))
def test_a_changed_byte_is_gathered_only_if_the_codec_agrees(place: int) -> None:
    """Lengths that do not fit, other tags: left to the codec, which refuses what is malformed."""
    whole = frame(5, 1, 300)
    for value in (0x00, 0x01, 0x7F, 0x80, 0xFF, whole[place] ^ 1):
        changed = whole[:place] + bytes((value,)) + whole[place + 1 :]
        runs, _ = gathered(changed)
        for run in runs:
            decoded = v3.decode_request(changed[4:]).body
            assert isinstance(decoded, V3AddRequest)
            assert (decoded.master_key, decoded.entry) == (run.key, run.entries[0])


def test_an_incomplete_frame_stays() -> None:
    block = frame(5, 0) + frame(5, 1)
    first = len(frame(5, 0))
    for cut in range(first, len(block)):
        assert gathered(block[:cut])[1] == first


def test_javas_own_adds_are_gathered() -> None:
    frames = {each.name: each for each in wire_frames("v3")}
    runs, position = gathered(frames["java/add/request"].frame)
    assert len(runs) == 1
    assert position == len(frames["java/add/request"].frame)
    assert RESPONSES.added(runs, Status.EOK, frozenset()) == frames["java/add/response"].frame
