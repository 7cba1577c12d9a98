"""The messages of one entry: columns, and message objects built on demand.

Building an object per message costs more than fetching and decoding it, so consumers that work on columns (Spark, a
bulk copy) build none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from dlog.format.entry import decode_entry
from dlog.format.message import Buffer, Flat, header_pairs
from dlog.model import Header, Message, MessageId

_new: Any = tuple.__new__

_MESSAGE_OVERHEAD_BYTES = 60
"""Of the object of a payload, and of places in three columns."""
_PART_OVERHEAD_BYTES = 50
"""Of the object of a key, or of a header's key or value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBatch:
    """Messages of one entry, in columns: element i of each belongs to the message with batch index `first_index` + i.

    Iterating yields `Message` objects; `len` is the number of messages. `append_time_us` is the writer's wall clock in
    microseconds since 1970, one for the whole entry.
    """

    ledger_id: int
    entry_id: int
    first_index: int
    append_time_us: int
    keys: Sequence[bytes | None]
    payloads: Sequence[bytes | None]
    headers: Sequence[Flat]
    """One flat tuple per message: key, value, key, value."""
    messages_before: int | None = None
    """Messages in the ledger before the first one of this batch; None in entries of older releases."""
    producer_id: bytes | None = None
    """The producer that appended the batch (docs/formats.md); None if none did."""
    first_sequence: int | None = None
    """The producer's sequence of the first message of this batch; the others follow."""

    @staticmethod
    def decoded(ledger_id: int, entry_id: int, payload: Buffer) -> MessageBatch:
        """All messages of one entry.

        Raises:
            EntryFormatError: the envelope or the messages cannot be decoded.
        """
        return decode_batch(ledger_id, entry_id, payload)[0]

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def first_id(self) -> MessageId:
        """Id of the first message."""
        return MessageId(self.ledger_id, self.entry_id, self.first_index)

    @property
    def last_id(self) -> MessageId:
        """Id of the last message; meaningless for an empty batch."""
        return MessageId(self.ledger_id, self.entry_id, self.first_index + len(self.payloads) - 1)

    def ids(self) -> Iterator[MessageId]:
        """The id of every message, in order."""
        first = self.first_index
        indexes = range(first, first + len(self.payloads))
        # tuple.__new__ is what MessageId's constructor calls after three Python frames.
        return map(_new, repeat(MessageId), zip(repeat(self.ledger_id), repeat(self.entry_id), indexes))

    def __iter__(self) -> Iterator[Message]:
        headers: Iterator[tuple[Header, ...]] = map(header_pairs, self.headers)
        columns = zip(self.ids(), self.payloads, self.keys, headers, repeat(self.append_time_us))
        return map(_new, repeat(Message), columns)

    def slice(self, start: int, stop: int) -> MessageBatch:
        """The messages whose batch index is in [start, stop); it may be empty."""
        low, high = max(start - self.first_index, 0), max(stop - self.first_index, 0)
        return MessageBatch(
            ledger_id=self.ledger_id,
            entry_id=self.entry_id,
            first_index=self.first_index + low,
            append_time_us=self.append_time_us,
            keys=self.keys[low:high],
            payloads=self.payloads[low:high],
            headers=self.headers[low:high],
            messages_before=None if self.messages_before is None else self.messages_before + low,
            producer_id=self.producer_id,
            first_sequence=None if self.first_sequence is None else self.first_sequence + low,
        )


def decode_batch(ledger_id: int, entry_id: int, payload: Buffer) -> tuple[MessageBatch, int]:
    """As `MessageBatch.decoded`, and the number of bytes that the messages have before they are compressed."""
    envelope, columns = decode_entry(payload)
    batch = MessageBatch(
        ledger_id=ledger_id,
        entry_id=entry_id,
        first_index=0,
        append_time_us=envelope.append_time_us,
        keys=columns.keys,
        payloads=columns.payloads,
        headers=columns.headers,
        messages_before=envelope.messages_before,
        producer_id=None if envelope.producer is None else envelope.producer.producer_id,
        first_sequence=None if envelope.producer is None else envelope.producer.first_sequence,
    )
    return batch, envelope.body_bytes


def memory_bytes(batch: MessageBatch, body_bytes: int) -> int:
    """About what the columns of the batch take, of which the messages have this number of bytes."""
    parts = len(batch) - batch.keys.count(None) + sum(map(len, batch.headers))
    return body_bytes + _MESSAGE_OVERHEAD_BYTES * len(batch) + _PART_OVERHEAD_BYTES * parts
