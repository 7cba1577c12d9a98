"""Adds of version 3 by hand are the codec's, and those that Java sent, byte for byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.wire import v3
from ledger.wire.add_v3 import add_start, added, deferred_add, recovery_add
from ledger.wire.messages import (
    Operation,
    V3AddRequest,
    V3AddResponse,
    V3Request,
    V3Response,
)
from ledger.wire.status import Status
from tests.helpers.wire.golden_frames import wire_frames

IDS = st.integers(0, 2**63 - 1)


@given(IDS, IDS, IDS, st.binary(min_size=20, max_size=20), st.binary(max_size=300))
def test_a_handmade_add_is_the_codecs(txn: int, ledger: int, entry: int, key: bytes, body: bytes) -> None:
    message = V3AddRequest(ledger_id=ledger, entry_id=entry, master_key=key, entry=body)
    expected = v3.encode_request(V3Request(txn_id=txn, operation=Operation.ADD_ENTRY, body=message))
    assert add_start(txn, ledger, entry, key, len(body)) + body == expected


def test_adds_are_framed_as_java_frames_them() -> None:
    frames = {each.name: each for each in wire_frames("v3")}
    for name in ("add", "add_mac", "add_deferred_sync", "recovery_add"):
        golden = frames[f"java/{name}/request"].frame
        request = v3.decode_request(golden[4:])
        add = request.body
        assert isinstance(add, V3AddRequest)
        ids = (request.txn_id, add.ledger_id, add.entry_id, add.master_key)
        if add.recovery:
            ours = recovery_add(*ids, add.entry)
        elif add.write_flags:
            ours = deferred_add(*ids, add.entry)
        else:
            ours = add_start(*ids, len(add.entry)) + add.entry
        assert ours == golden


@given(IDS, IDS, IDS, st.sampled_from(list(Status)))
def test_only_the_answer_that_success_has_is_read_by_hand(
    txn: int, ledger: int, entry: int, status: Status
) -> None:
    body = V3AddResponse(status=status, ledger_id=ledger, entry_id=entry)
    answer = V3Response(txn_id=txn, operation=Operation.ADD_ENTRY, status=status, body=body)
    found = added(memoryview(v3.encode_response(answer))[4:])
    assert found == ((ledger, entry) if status is Status.EOK else None)


@given(st.integers(0, 2**31), st.integers(0, 400), st.integers(0, 7))
def test_a_changed_bit_changes_what_is_read_by_hand_as_it_does_for_the_codec(
    txn: int, position: int, bit: int
) -> None:
    """What is still taken for a success must be one to the codec too, with the same ids."""
    body = V3AddResponse(status=Status.EOK, ledger_id=300, entry_id=70000)
    answer = V3Response(txn_id=txn, operation=Operation.ADD_ENTRY, status=Status.EOK, body=body)
    data = bytearray(v3.encode_response(answer)[4:])
    data[position % len(data)] ^= 1 << bit
    found = added(memoryview(data))
    if found is not None:
        decoded = v3.decode_response(bytes(data))
        assert isinstance(decoded.body, V3AddResponse)
        assert (decoded.outcome, decoded.body.ledger_id, decoded.body.entry_id) == (Status.EOK, *found)
