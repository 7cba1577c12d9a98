"""The producers of a log as its writer knows them: what is in the log of each, and what is on its way.

Invariant (docs/log-semantics.md#rule-36): a snapshot has exactly what the entries before it have, so the snapshot and
the entries from it to the end of its ledger give the state of every producer at that end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlog.core.batching import Batch
from dlog.errors import AppendRejectedError, TooManyProducersError
from dlog.format.entry import ELSEWHERE, SnapshotPlace
from dlog.format.producer_snapshot import PRODUCER_BYTES, PRODUCERS_MAX, LastMessage, encode_snapshot
from dlog.model import Appended, MessageId
from dlog.write.active_ledger import ActiveLedger
from dlog.write.left_out import LeftOut, keep_above, leave_out
from dlog.write.pending_entry import PendingEntry, Waiter
from dlog.write.producer_entry import ProducerAppends, ProducerEntry, id_of
from ledger.buggify import buggify
from ledger.errors import ConfigurationError

_INTERVAL_BYTES = 16 << 20
_INTERVAL_SNAPSHOTS = 16
"""A takeover reads at most this many bytes of entries, and snapshots take at most a sixteenth of a ledger."""
_FREQUENT_BYTES = 2048


class ProducerRegistry:
    """Of one writer. `found`: the last messages in the log when the writer took it over; None: they are unknown.

    `entry_bytes_max` is the limit of an entry without a snapshot, `ledger_bytes_max` that of any entry: a snapshot
    never takes more than the difference.

    Raises:
        ConfigurationError: as of `learn`.
    """

    def __init__(
        self,
        log: str,
        found: Mapping[bytes, LastMessage] | None,
        *,
        entry_bytes_max: int,
        ledger_bytes_max: int,
    ) -> None:
        self._log = log
        self._entry_bytes_max = entry_bytes_max
        self._ledger_bytes_max = ledger_bytes_max
        self._count_max = min(PRODUCERS_MAX, (ledger_bytes_max - entry_bytes_max) // PRODUCER_BYTES)
        self.known = False
        """Whether the last messages are known. Until then no producer can append."""
        self._submitted: dict[bytes, LastMessage] = {}
        """The last message of each producer in a ledger, acknowledged or not: what a snapshot has."""
        self._producers: dict[bytes, ProducerAppends] = {}
        self._left_out: dict[bytes, LeftOut] = {}
        """What was cancelled before it was sent, and not appended again since; nothing above it is accepted until then.
        Also of producers of which nothing was accepted yet: they are not among `_producers`, and take no place."""
        self._snapshot_is_stale = False
        self._interval_bytes = _FREQUENT_BYTES if buggify("writer.frequent-snapshots") else _INTERVAL_BYTES
        self.in_use = found is None
        """Whether entries name a snapshot; false in a log without producers."""
        if found is not None:
            self.learn(found)

    def learn(self, found: Mapping[bytes, LastMessage]) -> None:
        """The last messages at the end of the log when the writer took it over, unless they are known.

        Raises:
            ConfigurationError: no entry has capacity for a snapshot of them.
        """
        if self.known:
            return
        snapshot_bytes, capacity = len(found) * PRODUCER_BYTES, self._ledger_bytes_max - self._entry_bytes_max
        if snapshot_bytes > capacity:
            raise ConfigurationError(
                f"log {self._log} has {len(found)} producers, whose snapshot of {snapshot_bytes} bytes comes in "
                f"addition to messages, and ledger.entry_bytes_max {self._ledger_bytes_max} leaves {capacity} bytes: "
                "raise it"
            )
        self.known = True
        self._submitted = dict(found)
        self._producers = {each: ProducerAppends(each, last) for each, last in found.items()}
        self._snapshot_is_stale = self.in_use
        self.in_use = self.in_use or bool(found)

    # ---- callers

    def last_sequence(self, producer_id: bytes) -> int | None:
        """Of its last message that is certainly in the log."""
        producer = self._producers.get(producer_id)
        return None if producer is None or producer.acked is None else producer.acked.sequence

    def open_anew(self, producer_id: bytes) -> None:
        """The program knows what it has cancelled: later appends are accepted again."""
        self._left_out.pop(producer_id, None)

    def leave_out(self, producer_id: bytes, first_sequence: int, last_sequence: int) -> None:
        """These were given up, or rejected, before they were sent: later ones are refused. What is accepted counts."""
        producer = self._producers.get(producer_id)
        if producer is not None and producer.accepted is not None:
            first_sequence = max(first_sequence, producer.accepted + 1)
        if first_sequence <= last_sequence:
            ranges = self._left_out.get(producer_id, ())
            self._left_out[producer_id] = leave_out(ranges, first_sequence, last_sequence)

    def accept(
        self,
        producer_id: bytes,
        first_sequence: int,
        batch: Batch[Waiter],
        waiter: Waiter,
    ) -> ProducerEntry | None:
        """The entry to append, with what of the batch is new; None if nothing is.

        The waiter gets its outcome from that entry, or from the one that has the batch already.

        Raises:
            AppendRejectedError: an earlier append of the producer was cancelled or rejected, and not repeated.
            TooManyProducersError: the producer would be one too many.
        """
        assert self.known, "a producer is made once its last message is known"
        last_sequence = first_sequence + batch.count - 1
        producer = self._producers.get(producer_id)
        accepted = None if producer is None else producer.accepted
        if producer is not None and accepted is not None and last_sequence <= accepted:
            _answer_duplicate(producer, first_sequence, last_sequence, waiter)
            return None
        left_out = self._left_out.get(producer_id)
        if left_out and first_sequence > left_out[0][0]:
            self.leave_out(producer_id, first_sequence, last_sequence)
            raise _rejected(left_out[0][0], first_sequence)
        if accepted is not None and first_sequence <= accepted:
            batch = batch.without_first(accepted + 1 - first_sequence)
            first_sequence = accepted + 1
        if producer is None:
            try:
                self._check_count()
            except TooManyProducersError:
                self.leave_out(producer_id, first_sequence, last_sequence)
                raise
            producer = self._producers[producer_id] = ProducerAppends(producer_id)
        if left_out:
            self._left_out[producer_id] = keep_above(left_out, last_sequence)
        batch.tokens.append(waiter)
        entry = ProducerEntry(batch, producer, first_sequence)
        producer.pending.append(entry)
        self.in_use = True
        return entry

    def _check_count(self) -> None:
        limit = self._count_max
        if len(self._producers) < limit:
            return
        given = (
            f" with a batching.entry_bytes_max of {self._entry_bytes_max} and a ledger.entry_bytes_max of "
            f"{self._ledger_bytes_max}"
        )
        raise TooManyProducersError(
            f"log {self._log} has {len(self._producers)} producers, the limit is {limit}"
            + ("" if limit == PRODUCERS_MAX else given)
            + ": forget those that are no longer used (`forget_producer`)"
            + ("" if limit == PRODUCERS_MAX else ", lower the first, or raise the second"),
            log=self._log,
            limit=limit,
        )

    def forget(self, producer_id: bytes) -> bool:
        """Drop the producer; whether there was one.

        Raises:
            AppendRejectedError: appends of it have no outcome yet.
        """
        producer = self._producers.get(producer_id)
        if producer is not None and producer.pending:
            raise AppendRejectedError(
                f"the producer has {len(producer.pending)} appends without an outcome: forget it after `flush`"
            )
        self._left_out.pop(producer_id, None)
        if producer is None:
            return False
        del self._producers[producer_id]
        self._submitted.pop(producer_id, None)
        self._snapshot_is_stale = True
        return True

    # ---- entries on their way to a ledger

    def place_for(self, active_ledger: ActiveLedger, pending_entry: PendingEntry) -> SnapshotPlace | None:
        """Where the newest snapshot is for the next entry of this ledger; None if the log has no producers."""
        if not self.known:
            return SnapshotPlace(ELSEWHERE)
        if not self._submitted and pending_entry.mark is None:
            return None
        newest = active_ledger.snapshot_entry
        taken = active_ledger.use.bytes_taken - active_ledger.bytes_at_snapshot
        size = len(self._submitted) * PRODUCER_BYTES
        if (
            newest is None
            or self._snapshot_is_stale
            or taken >= max(self._interval_bytes, _INTERVAL_SNAPSHOTS * size)
        ):
            return SnapshotPlace(0, encode_snapshot(self._submitted))
        return SnapshotPlace(active_ledger.next_entry_id - newest)

    def on_submitted(
        self, active_ledger: ActiveLedger, pending_entry: PendingEntry, place: SnapshotPlace | None
    ) -> None:
        """The entry is in this ledger, with this place of the snapshot."""
        if place is not None and place.snapshot is not None:
            active_ledger.snapshot_entry = pending_entry.entry_id
            active_ledger.bytes_at_snapshot = active_ledger.use.bytes_taken
            self._snapshot_is_stale = False
        if isinstance(pending_entry, ProducerEntry):
            producer_id = pending_entry.producer.producer_id
            pending_entry.replaced = self._submitted.get(producer_id)
            place_of_last = MessageId(
                active_ledger.ledger_id, pending_entry.entry_id, pending_entry.count - 1
            )
            self._submitted[producer_id] = LastMessage(pending_entry.last_sequence, place_of_last)

    def take_back(self, entries: Sequence[PendingEntry]) -> None:
        """These entries, the last that were submitted, are in no ledger: the state is as before them."""
        for entry in reversed(entries):
            if not isinstance(entry, ProducerEntry):
                continue
            if entry.replaced is None:
                self._submitted.pop(entry.producer.producer_id, None)
            else:
                self._submitted[entry.producer.producer_id] = entry.replaced

    def withdraw(self, abandoned: ProducerEntry) -> list[ProducerEntry]:
        """Leave out an entry whose callers have cancelled before it was sent, and fail those after it.

        Otherwise its messages could never be appended: their sequences would be below the producer's last. For the
        same reason later ones are refused until all of these are appended again, or the producer is opened anew.
        """
        producer = abandoned.producer
        entries = list(producer.pending)
        after = entries[entries.index(abandoned) + 1 :]
        producer.pending.remove(abandoned)
        for entry in after:
            entry.fail_absent(_rejected(abandoned.first_sequence, entry.first_sequence))
        for entry in (abandoned, *after):
            self.leave_out(producer.producer_id, entry.first_sequence, entry.last_sequence)
        return after


def _rejected(cancelled: int, sequence: int) -> AppendRejectedError:
    return AppendRejectedError(
        f"the producer's append of sequence {cancelled} was cancelled, timed out or rejected before it was sent, or "
        f"waits for that in another thread, so that of {sequence} is not sent either: append from {cancelled} on "
        "again, or, to leave it out, call `producer` of the writer again"
    )


def _answer_duplicate(
    producer: ProducerAppends, first_sequence: int, last_sequence: int, waiter: Waiter
) -> None:
    """Once the original is acknowledged, or with its failure. What is in the log never waits for a later append."""
    if producer.acked is not None and last_sequence <= producer.acked.sequence:
        waiter.set_result(Appended(last_sequence, id_of(producer.acked, last_sequence), new=0))
        return
    original = next(entry for entry in producer.pending if last_sequence <= entry.last_sequence)
    original.follow(waiter, first_sequence, last_sequence)
