"""Answers to a run of v2 adds, built a run at a time. Pure.

Every answer is 28 bytes: length 24, header, status, ledger id, entry id (docs/bookkeeper.md#matching-v2-responses).
A run shares all but the last eight bytes, so the block is one repeated template with the ids laid over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack

ANSWER = Struct(">IIIqq")
"""Length prefix, header, status, ledger id, entry id."""
BODY_BYTES = ANSWER.size - 4
ID_OFFSET = ANSWER.size - 8
SHORT_RUN = 8
"""Below it, packing one by one is faster than eight strided copies."""


def encode_add_responses(header: int, status: int, ledger_id: int, entry_ids: Sequence[int]) -> bytes:
    """One answer for each id, in order, ready for the socket."""
    if len(entry_ids) < SHORT_RUN:
        return b"".join([ANSWER.pack(BODY_BYTES, header, status, ledger_id, each) for each in entry_ids])
    block = bytearray(ANSWER.pack(BODY_BYTES, header, status, ledger_id, 0) * len(entry_ids))
    ids = pack(f">{len(entry_ids)}q", *entry_ids)
    for offset in range(8):
        block[ID_OFFSET + offset :: ANSWER.size] = ids[offset::8]
    return bytes(block)
