"""What producers may rely on: each of their messages is in the log at most once, in order, and not lost once acked.

Source: docs/log-semantics.md#rule-36.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dlog.model import MessageId


@dataclass(frozen=True, slots=True)
class ProducerAck:
    """An append of a producer up to `sequence` was acknowledged; `message_id` is of that message, if it was named."""

    producer: str
    sequence: int
    message_id: MessageId | None


@dataclass(slots=True)
class ProducerHistory:
    """Of one log. Each producer appends the sequences from 1 on and leaves none out."""

    acks: list[ProducerAck] = field(default_factory=list)
    log: list[tuple[MessageId, str, int]] = field(default_factory=list)
    """All that was ever committed, in order: id, producer, sequence."""


def c19_each_sequence_is_in_the_log_once_and_in_order(history: ProducerHistory) -> Iterator[str]:
    last: dict[str, tuple[int, MessageId]] = {}
    for message_id, producer, sequence in history.log:
        before, place = last.get(producer, (0, None))
        if sequence <= before:
            yield f"{producer} has sequence {sequence} at {message_id}, after {before} at {place}"
        elif sequence > before + 1:
            yield f"{producer} has sequence {sequence} at {message_id}, and the one before it is {before} at {place}"
        last[producer] = (max(sequence, before), message_id)


def c19_what_a_producer_was_acknowledged_is_in_the_log(history: ProducerHistory) -> Iterator[str]:
    places: dict[tuple[str, int], MessageId] = {}
    for message_id, producer, sequence in history.log:
        places.setdefault((producer, sequence), message_id)
    for ack in history.acks:
        place = places.get((ack.producer, ack.sequence))
        if place is None:
            yield f"{ack.producer} was acknowledged sequence {ack.sequence}, which is not in the log"
        elif ack.message_id is not None and ack.message_id != place:
            yield f"{ack.producer} was acknowledged sequence {ack.sequence} at {ack.message_id}, it is at {place}"


PRODUCER_CHECKS = (
    c19_each_sequence_is_in_the_log_once_and_in_order,
    c19_what_a_producer_was_acknowledged_is_in_the_log,
)
