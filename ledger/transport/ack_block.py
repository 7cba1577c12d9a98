"""Blocks of add responses, parsed without a step per entry. Pure.

A bookie answers a group of adds at once, and every v2 add response has 28 bytes that differ only in the last
eight, the entry id. So a block of them is compared with the block that a run of entries would be.
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
_LOW_BYTES = [bytes([low]) for low in range(256)]


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
        if last - first != count - 1 or not _is_one_run(data, start, stop, first):
            return None
    return AckRun(int.from_bytes(data[start + 12 : start + 20], "big"), first, last, stop)


def _is_one_run(data: bytes, start: int, stop: int, first: int) -> bool:
    """Whether the records are those of the entries first, first + 1, … of the first record's ledger.

    Invariant: every byte is compared. Low bytes of the ids alone would take 0, 257, 2 for a run, and count an
    acknowledgement of entry 1 that the bookie never sent. Records whose ids share all but the low byte are made from
    one prefix, and compared in one step.
    """
    constant = bytes(data[start : start + _CONSTANT])
    while start < stop:
        low = first & 0xFF
        count = min(256 - low, (stop - start) // RECORD)
        end = start + count * RECORD
        prefix = constant + first.to_bytes(8, "big")[:7]
        if data[start:end] != prefix + prefix.join(_LOW_BYTES[low : low + count]):
            return False
        start, first = end, first + count
    return True
