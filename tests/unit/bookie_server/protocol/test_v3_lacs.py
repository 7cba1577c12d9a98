"""Explicit LACs of one block are gathered, all else is left in place; each is answered."""

from __future__ import annotations

import pytest

from bookie_server.protocol import v3
from bookie_server.protocol.requests import Adds, WriteLacs
from bookie_server.protocol.v3_lacs import RESPONSES, gather
from ledger.wire import v3 as codec
from ledger.wire.entry import ENTRY_HEADER
from ledger.wire.messages import (
    Operation,
    ReadLacRequest,
    V3AddRequest,
    V3Request,
    V3Response,
    WriteLacRequest,
    WriteLacResponse,
)
from ledger.wire.status import Status

KEY = bytes(range(20))
LIMIT = 1024 * 1024


def lac_frame(ledger_id: int, lac: int = 3, txn_id: int = 1, priority: int | None = None) -> bytes:
    body = WriteLacRequest(ledger_id=ledger_id, lac=lac, master_key=KEY, packet=bytes([lac]) * 20)
    return codec.encode_request(
        V3Request(txn_id=txn_id, operation=Operation.WRITE_LAC, body=body, priority=priority)
    )


def add_frame(ledger_id: int) -> bytes:
    entry = ENTRY_HEADER.pack(ledger_id, 0, -1, 7) + b"DIGSpayload"
    body = V3AddRequest(ledger_id=ledger_id, entry_id=0, master_key=KEY, entry=entry)
    return codec.encode_request(V3Request(txn_id=9, operation=Operation.ADD_ENTRY, body=body))


def gathered(block: bytes, limit: int = LIMIT) -> tuple[list[tuple[int, bytes]], int]:
    found, position = gather(block, 0, limit)
    if found is None:
        return [], position
    assert isinstance(found, WriteLacs)
    assert found.encoder is RESPONSES
    return [(each.ledger_id, each.packet) for each in found.lacs], position


def test_lacs_that_arrived_together_are_one_request_in_their_order() -> None:
    block = lac_frame(5, 1) + lac_frame(700, 2) + lac_frame(5, 4)
    packets = [(5, b"\x01" * 20), (700, b"\x02" * 20), (5, b"\x04" * 20)]
    assert gathered(block) == (packets, len(block))


def test_each_is_answered_as_the_codec_would() -> None:
    found, _ = gather(lac_frame(5, 1, txn_id=7) + lac_frame(70_000, 2, txn_id=300), 0, LIMIT)
    assert isinstance(found, WriteLacs)
    expected = [
        V3Response(
            txn_id=txn_id,
            operation=Operation.WRITE_LAC,
            status=Status.EUA,
            body=WriteLacResponse(status=Status.EUA, ledger_id=ledger_id),
        )
        for txn_id, ledger_id in ((7, 5), (300, 70_000))
    ]
    assert found.encoder.written(found.lacs, Status.EUA) == b"".join(map(codec.encode_response, expected))


@pytest.mark.parametrize(
    "other",
    [
        lac_frame(6, priority=1),
        lac_frame(-6),
        add_frame(6),
        codec.encode_request(
            V3Request(txn_id=1, operation=Operation.READ_LAC, body=ReadLacRequest(ledger_id=6))
        ),
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff" + bytes(60),
    ],
    ids=["priority", "negative ledger", "add", "read LAC", "empty", "too long"],
)
def test_anything_else_ends_the_gathering(other: bytes) -> None:
    first = lac_frame(5)
    assert gathered(first + other + lac_frame(7)) == ([(5, b"\x03" * 20)], len(first))
    assert gathered(other + first) == ([], 0)


def test_an_incomplete_frame_stays_for_the_next_block() -> None:
    first, second = lac_frame(5), lac_frame(6)
    for cut in range(len(first), len(first) + len(second)):
        assert gathered((first + second)[:cut])[1] == len(first)


def test_a_frame_over_the_limit_is_not_gathered() -> None:
    block = lac_frame(5)
    assert gathered(block, limit=len(block))[1] == len(block)
    assert gathered(block, limit=len(block) - 1) == ([], 0)


def test_adds_and_lacs_of_one_block_are_taken_in_turn() -> None:
    """In the order sent: a LAC may be for an entry that comes before it in the same block."""
    frames = [add_frame(5), lac_frame(5), lac_frame(6), add_frame(7)]
    block, position, kinds = b"".join(frames), 0, list[object]()
    while position < len(block):
        found, position = v3.gather(block, position, LIMIT)
        kinds.append(type(found))
    assert kinds == [Adds, WriteLacs, Adds]
