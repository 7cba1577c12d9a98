"""An entry of a producer: its sequence numbers, and the callers that wait for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any

from dlog.core.batching import Batch
from dlog.errors import AppendIndeterminateError
from dlog.format.entry import ProducerMark
from dlog.format.producer_snapshot import LastMessage
from dlog.model import Appended, MessageId
from dlog.write.pending_entry import PendingEntry, Waiter
from ledger.errors import LogStoreError


class ProducerAppends:
    """One producer in one writer: its last message in the log, and its entries without outcome."""

    __slots__ = ("acked", "pending", "producer_id")

    def __init__(self, producer_id: bytes, last: LastMessage | None = None) -> None:
        self.producer_id = producer_id
        self.acked = last
        """Its last message that is certainly in the log."""
        self.pending: deque[ProducerEntry] = deque()
        """In the order of their sequences: sent ones first, then those that wait for a ledger."""

    @property
    def accepted(self) -> int | None:
        """The highest sequence that was accepted or found; None without any."""
        if self.pending:
            return self.pending[-1].last_sequence
        return None if self.acked is None else self.acked.sequence


class ProducerEntry(PendingEntry):
    """A batch of one producer with consecutive sequences. The first waiter is the caller that appended it.

    The others are callers that have appended the same messages again: they wait for the same outcome.
    """

    __slots__ = ("appended_by", "first_sequence", "last_sequence", "producer", "replaced", "wanted")

    def __init__(self, batch: Batch[Waiter], producer: ProducerAppends, first_sequence: int) -> None:
        super().__init__(batch, whole=True)
        self.producer = producer
        self.first_sequence = first_sequence
        self.last_sequence = first_sequence + batch.count - 1
        self.wanted = [(first_sequence, self.last_sequence)]
        """For each waiter the first and the last sequence that it has appended."""
        self.appended_by: int | None = 0
        """Which of the waiters has appended the messages. None: it was cancelled before they were sent, and no other
        has all of them."""
        self.replaced: LastMessage | None = None
        """The producer's last message before this entry was submitted to a ledger."""

    @property
    def mark(self) -> ProducerMark:
        return ProducerMark(self.producer.producer_id, self.first_sequence)

    @property
    def abandoned(self) -> bool:
        """Whether it was not sent yet and every caller has cancelled."""
        return self.batch is not None and all(waiter.cancelled() for waiter in self.waiters)

    def follow(self, waiter: Waiter, first_sequence: int, last_sequence: int) -> None:
        """One more caller that has appended these messages, the last of which this entry has or comes after."""
        self.waiters.append(waiter)
        self.wanted.append((first_sequence, last_sequence))

    def _leave_out_cancelled(self, batch: Batch[Waiter]) -> bool:
        """What was cancelled before it is sent does not count: the first repetition of all messages takes its place."""
        self.appended_by = next(
            (
                number
                for number, (first, last) in enumerate(self.wanted)
                if first <= self.first_sequence
                and last == self.last_sequence
                and not self.waiters[number].cancelled()
            ),
            None,
        )
        return not self.abandoned

    def succeed(self, ledger_id: int) -> None:
        self.settled = True
        last = LastMessage(self.last_sequence, MessageId(ledger_id, self.entry_id, self.count - 1))
        self.producer.acked = last
        self.producer.pending.remove(self)
        for number, waiter, sequence in self._waiting():
            new = self.count if number == self.appended_by else 0
            waiter.set_result(Appended(sequence, id_of(last, sequence), new=new))

    def fail_absent(self, error: LogStoreError) -> None:
        if self in self.producer.pending:
            self.producer.pending.remove(self)
        super().fail_absent(error)

    def fail_indeterminate(self, ledger_id: int, cause: LogStoreError) -> None:
        self.settled = True
        self.producer.pending.remove(self)
        for _, waiter, sequence in self._waiting():
            message_id = MessageId(ledger_id, self.entry_id, max(0, sequence - self.first_sequence))
            error = AppendIndeterminateError(
                f"the append of sequence {sequence} may or may not have happened: it is at {message_id} or nowhere "
                f"({cause}); append it again with the same sequence through the log's next writer",
                message_id=message_id,
                message_count=self.count,
            )
            error.__cause__ = cause
            waiter.set_exception(error)

    def _waiting(self) -> Iterator[tuple[int, asyncio.Future[Any], int]]:
        """The waiters without an outcome, each with its number among all, and the last sequence that it wants."""
        for number, (waiter, (_, last)) in enumerate(zip(self.waiters, self.wanted, strict=True)):
            if not waiter.done():
                yield number, waiter, last


def id_of(last: LastMessage, sequence: int) -> MessageId | None:
    """The id of an earlier message of the producer; None if it is not in the entry of its last one."""
    place = last.message_id
    index = place.batch_index - (last.sequence - sequence)
    return place._replace(batch_index=index) if 0 <= index <= place.batch_index else None
