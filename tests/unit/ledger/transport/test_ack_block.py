"""Blocks of add responses: the fast check agrees with reading record by record, on any bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.transport.ack_block import RECORD, ack_run
from ledger.wire.constants import ADD_HEADER, ADD_RESPONSE

LEDGERS = st.sampled_from([0, 1, 77, 2**40 + 5, 2**63 - 1])


def block(ledger_id: int, first: int, count: int) -> bytes:
    return b"".join(
        ADD_RESPONSE.pack(RECORD - 4, ADD_HEADER, 0, ledger_id, first + offset) for offset in range(count)
    )


@given(LEDGERS, st.integers(0, 2**40), st.integers(1, 700), st.integers(0, RECORD - 1), st.integers(0, 40))
def test_a_run_is_found_whole(ledger_id: int, first: int, count: int, partial: int, before: int) -> None:
    """Whatever stands before it, and whatever part of a record follows."""
    records = block(ledger_id, first, count)
    data = bytes(before) + records + block(ledger_id, first + count, 1)[:partial]
    run = ack_run(data, before, len(data))
    assert run is not None
    assert (run.ledger_id, run.first, run.last, run.end) == (
        ledger_id,
        first,
        first + count - 1,
        before + len(records),
    )


@given(st.integers(0, 2**40), st.integers(2, 600), st.data())
def test_one_changed_bit_is_no_run(first: int, count: int, data: st.DataObject) -> None:
    """Length, opcode, status, ledger or entry differs in one record: it is read one by one."""
    records = bytearray(block(77, first, count))
    record = data.draw(st.integers(1, count - 1))
    column = data.draw(st.integers(0, RECORD - 1))
    records[record * RECORD + column] ^= 1 << data.draw(st.integers(0, 7))
    assert ack_run(bytes(records), 0, len(records)) is None


@given(st.binary(max_size=200))
def test_other_bytes_are_no_run(data: bytes) -> None:
    run = ack_run(data, 0, len(data))
    assert run is None or data.startswith(block(run.ledger_id, run.first, 1))


def test_a_gap_is_no_run() -> None:
    records = block(5, 0, 3) + block(5, 4, 3)
    assert ack_run(records, 0, len(records)) is None


def test_a_gap_that_keeps_the_low_byte_rising_is_no_run() -> None:
    """Entries 0..255, then 512..: the low bytes alone would look like a run."""
    records = block(5, 0, 256) + block(5, 512, 256)
    assert ack_run(records, 0, len(records)) is None


def test_ids_that_agree_in_their_low_bytes_alone_are_no_run() -> None:
    """Entries 0, 257, 2: entry 1 was not acknowledged, and first and last id are those of a run of three."""
    records = block(5, 0, 1) + block(5, 257, 1) + block(5, 2, 1)
    assert ack_run(records, 0, len(records)) is None
