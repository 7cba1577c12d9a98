"""The blocking API of a producer: its appends cross to the loop with all others of its writer (crossing.py)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence

from dlog.blocking.crossing import Crossing
from dlog.blocking.deadline import Deadline
from dlog.blocking.not_copied import NotCopied
from dlog.blocking.pending import Pending
from dlog.core.batching import Headers
from dlog.errors import QueueFullError
from dlog.format.message import Buffer
from dlog.model import Appended
from dlog.write.left_out import LeftOut, leave_out
from dlog.write.producer import LogProducer
from ledger.errors import LogStoreError


class Producer(NotCopied):
    """Obtained from `Writer.producer`; appends with sequence numbers, of which each is in the log at most once.

    Each message has a sequence number that the program chooses, for example its line in a file or its offset in a
    source. A sequence that is not above the producer's last one was appended before, through any writer of the log,
    and is not appended again. So after an unknown outcome, or a crash, a program appends the same messages with the
    same sequences. Sequences need not be consecutive, but what is left out cannot be appended later. May be used from
    several threads; sequences must then increase in the order of the calls, and one that would pass a lower one, whose
    call still waits for buffer space, is rejected.

    Source: docs/log-semantics.md#rule-36.
    """

    def __init__(self, crossing: Crossing, producer: LogProducer) -> None:
        self._crossing = crossing
        self._target = producer
        self._lock = threading.RLock()  # the handler of a signal may call this producer (crossing.py)
        self._left_out: LeftOut = ()
        """What has found no buffer space, or was interrupted, since the last append that crossed to the loop: the next
        one takes it along, so that it does not pass what is missing."""
        self._keys = itertools.count()
        self._waiting: dict[int, tuple[int, int]] = {}
        """First and last sequence of each call that is not queued yet. One that an interrupt leaves here was given up,
        or was queued, and then it counts as accepted."""

    def __repr__(self) -> str:
        return repr(self._target)

    @property
    def name(self) -> str:
        """As given to `producer`."""
        return self._target.name

    @property
    def last_sequence(self) -> int | None:
        """Of its last message that is durable in the log; None if it has none. Continue with a higher one."""
        return self._target.last_sequence

    def append(
        self,
        payload: Buffer | None,
        key: Buffer | None = None,
        headers: Headers = (),
        *,
        sequence: int,
        timeout_s: float | None = None,
    ) -> Appended:
        """Append one message unless it was appended before; return once it is durable and readable.

        Raises:
            AppendRejectedError: an append of this producer with a lower sequence was cancelled, timed out or rejected
                before it was sent, and was not repeated; certainly absent.
            TooManyProducersError: the log has as many producers as it can have; certainly absent.
            ConfigurationError: `sequence` is not 0 to 2**63 - 1, or payload, key or headers are not valid.
            AppendIndeterminateError: in flight when the writer ended. Append it again, with the same sequence, through
                the log's next writer.
            MessageTooLargeError, WriterDeposedError, AppendAbortedError, QueueFullError, CallTimeoutError: as of
                `Writer.append`.
        """
        self._crossing.check_caller()
        deadline = Deadline(timeout_s)
        return self.submit(payload, key, headers, sequence=sequence, timeout_s=timeout_s).result_by(deadline)

    def append_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        first_sequence: int,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timeout_s: float | None = None,
    ) -> Appended:
        """Append messages with the sequences from `first_sequence` on, as one entry, unless appended before.

        If only the first ones were, the others are appended: `new` of the result is their number.

        Raises:
            AppendRejectedError: `payloads` is empty, or as of `append`.
            MessageTooLargeError: together they exceed `entry_bytes_max`.
            The other errors of `append`, for all messages that are new.
        """
        self._crossing.check_caller()
        deadline = Deadline(timeout_s)
        pending = self.submit_many(
            payloads, first_sequence=first_sequence, keys=keys, headers=headers, timeout_s=timeout_s
        )
        return pending.result_by(deadline)

    def submit(
        self,
        payload: Buffer | None,
        key: Buffer | None = None,
        headers: Headers = (),
        *,
        sequence: int,
        timeout_s: float | None = None,
    ) -> Pending[Appended]:
        """As `append`, waiting only for buffer space; `result()` of what it returns waits for the outcome.

        One entry for each message: `submit_many` is faster.
        """
        return self.submit_many(
            [payload],
            first_sequence=sequence,
            keys=None if key is None else [key],
            headers=[headers],
            timeout_s=timeout_s,
        )

    def submit_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        first_sequence: int,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
        timeout_s: float | None = None,
    ) -> Pending[Appended]:
        """As `append_many`, waiting only for buffer space; `result()` gives the outcome."""
        target = self._target
        batch = target.batch_of(payloads, first_sequence, keys, headers)
        deadline = None if timeout_s is None else Deadline(timeout_s)
        first, last, key = first_sequence, first_sequence + batch.count - 1, next(self._keys)
        missing = _Missing()
        try:
            self._waiting[key] = first, last
            pending: Pending[Appended] = self._crossing.put(
                None,
                lambda: target.submit_batch(batch, first, missing.ranges),
                batch.body_bytes,
                deadline,
                before=lambda: self._note(missing, key, first),
            )
        except BaseException as error:
            # Any other error of the log means that nothing more is accepted. An interrupted call may be queued after
            # all: then the loop comes to it before the next one, and finds nothing missing.
            if isinstance(error, QueueFullError) or not isinstance(error, LogStoreError):
                self._leave_out(first, last)
            self._waiting.pop(key, None)
            raise
        self._waiting.pop(key, None)
        if missing.left_out:
            with self._lock:
                if self._left_out is missing.left_out:
                    self._left_out = ()
        return pending

    def _note(self, missing: _Missing, key: int, first: int) -> None:
        """What the call must not pass as it is queued: threads that wait for capacity are woken in any order."""
        # Copied before: a call that gives up is among those left out before it leaves here.
        waiting = self._waiting.copy()
        missing.left_out = self._left_out
        lower = [each for other, each in waiting.items() if other != key and each[0] < first]
        missing.ranges = [*missing.left_out, *lower]

    def _leave_out(self, first: int, last: int) -> None:
        with self._lock:
            while True:
                before = self._left_out
                after = leave_out(before, first, last)
                if self._left_out is before:  # else the handler of a signal has changed it
                    self._left_out = after
                    return


class _Missing:
    """What one call takes along: all of it, and what of it was given up."""

    __slots__ = ("left_out", "ranges")

    def __init__(self) -> None:
        self.left_out: LeftOut = ()
        self.ranges: Sequence[tuple[int, int]] = ()
