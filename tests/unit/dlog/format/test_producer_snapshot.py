"""Snapshots of producers: one encoding for each value, and an error for anything else."""

from __future__ import annotations

import pytest

from dlog.errors import EntryFormatError
from dlog.format.entry import decode_envelope
from dlog.format.producer_snapshot import (
    PRODUCER_BYTES,
    PRODUCERS_MAX,
    LastMessage,
    decode_snapshot,
    encode_snapshot,
    producer_id,
)
from dlog.model import MessageId

ONE = encode_snapshot({b"\1" * 16: LastMessage(5, MessageId(1, 2, 3))})
TWO = encode_snapshot({b"\2" * 16: LastMessage(2**63 - 1, MessageId(2**63 - 1, 2**63 - 1, 2**31 - 1))})


def test_the_id_of_a_name_never_changes() -> None:
    """It is in entries: another hash would make every producer a new one."""
    assert producer_id("a").hex() == "9665d94a7a7efa5ec25b50e74c0f302c"


def test_a_snapshot_comes_back_in_the_order_of_ids() -> None:
    found = decode_snapshot(ONE + TWO)
    assert list(found) == [b"\1" * 16, b"\2" * 16]
    assert encode_snapshot(dict(reversed(found.items()))) == ONE + TWO
    assert decode_snapshot(b"") == {}


@pytest.mark.parametrize(
    "snapshot",
    [
        ONE[:-1],
        TWO + ONE,
        ONE + ONE,
        ONE[:16] + b"\x80" + ONE[17:],
        ONE[:24] + b"\x80" + ONE[25:],
        ONE[:32] + b"\x80" + ONE[33:],
        ONE[:40] + b"\x80" + ONE[41:],
    ],
)
def test_a_damaged_snapshot_is_refused(snapshot: bytes) -> None:
    """Cut, out of order, twice the same producer, and each number out of its range."""
    with pytest.raises(EntryFormatError, match="snapshot of producers"):
        decode_snapshot(snapshot)


def test_an_entry_that_claims_too_many_producers_is_refused_before_anything_is_read() -> None:
    envelope = bytes.fromhex("d104000000000000000100000001000000000000000100000005") + b"\7" + bytes(4)
    assert len(envelope) == 31
    with pytest.raises(
        EntryFormatError, match=f"{PRODUCERS_MAX + 1} producers, the limit is {PRODUCERS_MAX}"
    ):
        decode_envelope(envelope + (PRODUCERS_MAX + 1).to_bytes(4, "big") + bytes(PRODUCER_BYTES))
    with pytest.raises(EntryFormatError, match="truncated"):
        decode_envelope(envelope + (2).to_bytes(4, "big") + bytes(2 * PRODUCER_BYTES - 1))
