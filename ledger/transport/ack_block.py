"""Blocks of add responses, parsed without a step per entry. Pure.

A bookie answers a group of adds at once, and every v2 add response has 28 bytes that differ only in the last
eight, the entry id. So a block of them is checked column by column: twenty constant columns, and an entry id
that rises by one from record to record.
"""

from __future__ import annotations

from typing import NamedTuple

from ledger.wire.constants import ADD, ADD_RESPONSE, VERSION

RECORD = ADD_RESPONSE.size
_CONSTANT = RECORD - 8
_HEADER = (VERSION << 24) | (ADD << 16)
GOOD_PREFIX = ADD_RESPONSE.pack(RECORD - 4, _HEADER, 0, 0, 0)[:12]
"""Length, header and status EOK: how every good add response begins."""
ADD_PREFIX = GOOD_PREFIX[:8]
# The columns that differ first when a block is not one run: ledger id from its low end, status, length, opcode.
_COLUMNS = (19, 18, 11, 3, 5, 17, 16, 15, 14, 13, 12, 10, 9, 8, 7, 6, 4, 2, 1, 0)
_LOW_BYTES = bytes(range(256))


class AckRun(NamedTuple):
    """Entries first..last of one ledger were added; the block's records end at `end`."""

    ledger_id: int
    first: int
    last: int
    end: int


def ack_run(data: bytes, start: int, end: int) -> AckRun | None:
    """The run that data[start:end] is, up to a partial record at its end; None if it is anything else."""
    count = (end - start) // RECORD
    stop = start + count * RECORD
    if count == 0 or data[start : start + 12] != GOOD_PREFIX:
        return None
    first = int.from_bytes(data[start + _CONSTANT : start + RECORD], "big")
    last = first
    if count > 1:
        last = int.from_bytes(data[stop - 8 : stop], "big")
        if last - first != count - 1 or not _columns_constant(data, start, stop, count):
            return None
        if not _rises_by_one(data, start, stop, first):
            return None
    return AckRun(int.from_bytes(data[start + 12 : start + 20], "big"), first, last, stop)


def _columns_constant(data: bytes, start: int, stop: int, count: int) -> bool:
    return all(
        data[start + column : stop : RECORD] == data[start + column : start + column + 1] * count
        for column in _COLUMNS
    )


def _rises_by_one(data: bytes, start: int, stop: int, first: int) -> bool:
    """Whether the ids are first, first + 1, …: in pieces within which the low byte does not wrap.

    Invariant: every byte of every id is compared. Low bytes alone would take 0, 257, 2 for a run, and count an
    acknowledgement of entry 1 that the bookie never sent.
    """
    while start < stop:
        low = first & 0xFF
        count = min(256 - low, (stop - start) // RECORD)
        end = start + count * RECORD
        if data[start + RECORD - 1 : end : RECORD] != _LOW_BYTES[low : low + count]:
            return False
        upper = first.to_bytes(8, "big")
        for column in range(7):
            at = start + _CONSTANT + column
            if data[at:end:RECORD] != upper[column : column + 1] * count:
                return False
        start, first = end, first + count
    return True
