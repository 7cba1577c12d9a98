"""Explicit LACs written and read by hand are the codec's, byte for byte, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.wire import v3
from ledger.wire.frame import frame
from ledger.wire.messages import (
    Operation,
    ReadLacRequest,
    V3Request,
    V3Response,
    WriteLacRequest,
    WriteLacResponse,
)
from ledger.wire.status import Status, to_v3
from ledger.wire.varint import varint, varint_value
from ledger.wire.write_lac import LedgerLacs, WrittenLac, lac_answers, written_lac
from tests.helpers.wire.golden_frames import wire_frames

KEY = bytes(range(20))
ids = st.integers(min_value=0, max_value=2**63 - 1)
txn_ids = st.integers(min_value=0, max_value=2**64 - 1)
packets = st.binary(max_size=36)
"""A LAC with its digest: of HMAC, the longest, 20 bytes after the 16 of the ids."""


def request(ledger_id: int, lac: int, packet: bytes, txn_id: int = 1, key: bytes = KEY) -> V3Request:
    body = WriteLacRequest(ledger_id=ledger_id, lac=lac, master_key=key, packet=packet)
    return V3Request(txn_id=txn_id, operation=Operation.WRITE_LAC, body=body)


def taken(whole: bytes) -> WrittenLac | None:
    return written_lac(whole, 4, len(whole))


@given(txn_id=txn_ids, ledger_id=ids, lac=st.integers(min_value=-1, max_value=2**63 - 1), packet=packets)
def test_a_request_is_the_codecs_and_comes_back(txn_id: int, ledger_id: int, lac: int, packet: bytes) -> None:
    whole = LedgerLacs(ledger_id, KEY, len(packet)).write(txn_id, lac, packet).request
    assert whole == v3.encode_request(request(ledger_id, lac, packet, txn_id))
    assert taken(whole) == WrittenLac(varint(txn_id), varint(ledger_id), ledger_id, KEY, packet)


@given(txn_id=txn_ids, ledger_id=ids, status=st.sampled_from(Status))
def test_an_answer_is_the_codecs(txn_id: int, ledger_id: int, status: Status) -> None:
    envelope = V3Response(
        txn_id=txn_id,
        operation=Operation.WRITE_LAC,
        status=status,
        body=WriteLacResponse(status=status, ledger_id=ledger_id),
    )
    lac = WrittenLac(varint(txn_id), varint(ledger_id), ledger_id, KEY, b"")
    expected = v3.encode_response(envelope)
    assert lac_answers([lac], to_v3(status)) == expected
    assert lac_answers([lac, lac], to_v3(status)) == expected + expected


@pytest.mark.parametrize(
    "whole",
    [
        v3.encode_request(request(-1, 3, b"p" * 20)),
        v3.encode_request(request(1, 3, b"p" * 20, key=b"short")),
        v3.encode_request(request(1, 3, b"p" * 128)),
        v3.encode_request(
            V3Request(txn_id=1, operation=Operation.READ_LAC, body=ReadLacRequest(ledger_id=1))
        ),
        v3.encode_request(
            V3Request(txn_id=1, operation=Operation.WRITE_LAC, priority=1, body=request(1, 3, b"p" * 20).body)
        ),
        frame(b""),
    ],
    ids=["negative ledger id", "short key", "long packet", "another operation", "a priority", "nothing"],
)
def test_what_differs_is_left_to_the_codec(whole: bytes) -> None:
    assert taken(whole) is None


def test_every_truncation_and_every_wrong_length_is_left_to_the_codec() -> None:
    whole = LedgerLacs(5, KEY, 20).write(300, 70, b"p" * 20).request
    for stop in range(4, len(whole)):
        assert written_lac(whole, 4, stop) is None
    assert taken(whole + b"\0") is None
    assert taken(b"....\x0a\x08" + whole[6:]) is None


def test_it_reads_only_its_own_frame() -> None:
    first, second = (
        LedgerLacs(5, KEY, 20).write(1, 7, b"a" * 20).request,
        LedgerLacs(6, KEY, 20).write(2, 8, b"b" * 20).request,
    )
    found = written_lac(first + second, 4, len(first))
    assert found is not None
    assert (found.ledger_id, found.packet) == (5, b"a" * 20)


def test_what_apache_wrote_and_answered_is_recognized() -> None:
    golden = {each.name: each.frame for each in wire_frames("v3")}
    found = taken(golden["write_lac_ok/request"])
    assert found is not None
    assert lac_answers([found], to_v3(Status.EOK)) == golden["write_lac_ok/response"]


@given(value=st.integers(min_value=0, max_value=2**64 - 1))
def test_varints(value: int) -> None:
    assert varint_value(varint(value)) == value
