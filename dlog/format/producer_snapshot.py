"""Bytes of a snapshot of a log's producers: 44 for each, in ascending order of their ids. Pure.

    offset  size  field
    0       16    producer id
    16      8     last sequence  u64, of its last message
    24      20    message id     of that message: i64 ledger, i64 entry, u32 batch index

The number of producers is in front of it, in the entry's envelope (dlog/format/entry.py), where it is checked before
anything is read.

Source: docs/log-semantics.md#rule-36. Layout and history: docs/formats.md.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from dlog.errors import EntryFormatError
from dlog.model import MessageId

_PRODUCER = struct.Struct(">16sQqqI")

PRODUCER_BYTES = _PRODUCER.size
PRODUCERS_MAX = 10_000
"""In one log: their snapshot of 440 KB is in each ledger and costs 3 % of 16 MiB of entries."""
SEQUENCE_MAX = 2**63 - 1
"""What a signed 64-bit number holds in every language."""


def sequence_too_large(ledger_id: int, entry_id: int, sequence: int) -> EntryFormatError:
    """For an entry whose last message has this sequence: no writer accepts one above the limit."""
    return EntryFormatError(
        f"entry {entry_id} of ledger {ledger_id} has sequence {sequence}, the limit is {SEQUENCE_MAX}: it is damaged"
    )


class LastMessage(NamedTuple):
    """The last message of a producer in the log."""

    sequence: int
    message_id: MessageId


def producer_id(name: str) -> bytes:
    """The 16 bytes that stand for a producer's name in every entry."""
    return blake2b(name.encode(), digest_size=16, person=b"dlog.producer").digest()


def encode_snapshot(producers: Mapping[bytes, LastMessage]) -> bytes:
    """Every producer with its last message."""
    return b"".join(
        _PRODUCER.pack(each, last.sequence, *last.message_id) for each, last in sorted(producers.items())
    )


def decode_snapshot(snapshot: bytes) -> dict[bytes, LastMessage]:
    """The producers with their last messages.

    Raises:
        EntryFormatError: it is damaged.
    """
    if len(snapshot) % PRODUCER_BYTES:
        raise EntryFormatError(
            f"the snapshot of producers has {len(snapshot)} bytes, not a multiple of {PRODUCER_BYTES}: it is damaged"
        )
    found: dict[bytes, LastMessage] = {}
    previous = b""
    for each, sequence, *place in _PRODUCER.iter_unpack(snapshot):
        last = LastMessage(sequence, MessageId(*place))
        if each <= previous or not _is_valid(last):
            raise EntryFormatError(
                f"the snapshot of producers has {each.hex()} with sequence {sequence} at {last.message_id} after "
                f"{previous.hex() or 'nothing'}: it is damaged"
            )
        found[each] = last
        previous = each
    return found


def _is_valid(last: LastMessage) -> bool:
    place = last.message_id
    return last.sequence <= SEQUENCE_MAX and min(place) >= 0 and place.batch_index < 2**31
