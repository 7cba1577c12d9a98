"""A producer: appends with sequence numbers, of which each is in the log at most once."""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from dlog.core.batching import Batch, Headers
from dlog.format.message import Buffer
from dlog.format.producer_snapshot import SEQUENCE_MAX, producer_id
from dlog.model import Appended, check_log_name
from dlog.write.append_queue import AppendQueue
from dlog.write.pending_entry import Waiter
from dlog.write.producer_call import ProducerCall
from ledger.arguments import require_type
from ledger.errors import ConfigurationError, LogStoreError


class LogProducer:
    """Obtained from `LogWriter.producer`; used on the loop of its writer, for as long as that is used.

    Each message has a sequence number that the program chooses, for example its line in a file or its offset in a
    source. A sequence that is not above the producer's last one was appended before, through any writer of the log,
    and is not appended again. So after an unknown outcome, or a crash, a program appends the same messages with the
    same sequences. Sequences need not be consecutive, but what is left out cannot be appended later.

    Source: docs/log-semantics.md#rule-36.
    """

    def __init__(self, queue: AppendQueue, name: str) -> None:
        self._queue = queue
        self._id = producer_id(check_log_name(name))
        self._name = name
        self._numbers = itertools.count()
        self._made: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """First and last sequence of each call that was made and has not had its first step, by number: one that was
        made later may not pass any of them. In Python 3.11 `wait_for` begins the call that it gets a turn later."""

    def __repr__(self) -> str:
        return f"<Producer {self._name}>"

    @property
    def name(self) -> str:
        """As given to `producer`."""
        return self._name

    @property
    def last_sequence(self) -> int | None:
        """Of its last message that is durable in the log; None if it has none. Continue with a higher one."""
        return self._queue.producers.last_sequence(self._id)

    def append(
        self, payload: Buffer | None, key: Buffer | None = None, headers: Headers = (), *, sequence: int
    ) -> Coroutine[Any, Any, Appended]:
        """Append one message unless it was appended before; return once it is durable and readable.

        Raises:
            AppendRejectedError: an append of this producer with a lower sequence was cancelled, timed out or rejected
                before it was sent, and was not repeated; certainly absent.
            TooManyProducersError: the log has as many producers as it can have; certainly absent.
            ConfigurationError: `sequence` is not 0 to 2**63 - 1, or payload, key or headers are not valid.
            AppendIndeterminateError: in flight when the writer ended. Append it again, with the same sequence, through
                the log's next writer.
            MessageTooLargeError, WriterDeposedError, AppendAbortedError: as of `LogWriter.append`.
        """
        return self.append_many(
            [payload], first_sequence=sequence, keys=None if key is None else [key], headers=[headers]
        )

    def append_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        first_sequence: int,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Coroutine[Any, Any, Appended]:
        """Append messages with the sequences from `first_sequence` on, as one entry, unless appended before.

        If only the first ones were, the others are appended: `new` of the result is their number.

        Raises:
            AppendRejectedError: `payloads` is empty, or as of `append`.
            MessageTooLargeError: together they exceed `entry_bytes_max`.
            The other errors of `append`, for all messages that are new.
        """
        submission = self.submit_many(payloads, first_sequence=first_sequence, keys=keys, headers=headers)

        async def append() -> Appended:
            return await (await submission)

        return ProducerCall(append(), submission.close)

    def submit(
        self, payload: Buffer | None, key: Buffer | None = None, headers: Headers = (), *, sequence: int
    ) -> Coroutine[Any, Any, asyncio.Future[Appended]]:
        """As `append`, waiting only for buffer space; the future gets the outcome.

        One entry for each message: `submit_many` is faster.
        """
        return self.submit_many(
            [payload], first_sequence=sequence, keys=None if key is None else [key], headers=[headers]
        )

    def submit_many(
        self,
        payloads: Iterable[Buffer | None],
        *,
        first_sequence: int,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Coroutine[Any, Any, asyncio.Future[Appended]]:
        """As `append_many`, waiting only for buffer space; the future gets the outcome."""
        try:
            batch = self.batch_of(payloads, first_sequence, keys, headers)
        except LogStoreError as error:
            return _refused(error)  # nothing is missing if it is given up: it would not have been accepted
        number = next(self._numbers)
        self._made[number] = first_sequence, first_sequence + batch.count - 1
        return ProducerCall(self._submit(number, batch, first_sequence), lambda: self._leave_out(number))

    async def _submit(
        self, number: int, batch: Batch[Waiter], first_sequence: int
    ) -> asyncio.Future[Appended]:
        del self._made[number]
        earlier = itertools.takewhile(lambda made: made[0] < number, self._made.items())
        passed = [sequences for _, sequences in earlier if sequences[0] < first_sequence]
        return await self.submit_batch(batch, first_sequence, passed)

    def _leave_out(self, number: int) -> None:
        """These were given up before anything of the call ran (docs/log-semantics.md#rule-36)."""
        self._queue.producers.leave_out(self._id, *self._made.pop(number))

    def batch_of(
        self,
        payloads: Iterable[Buffer | None],
        first_sequence: int,
        keys: Sequence[Buffer | None] | None,
        headers: Sequence[Headers] | None,
    ) -> Batch[Waiter]:
        """Check and collect messages for `submit_batch`. May be called from any thread.

        Raises:
            The argument errors of `append_many`.
        """
        require_type("a sequence", first_sequence, int)
        batch: Batch[Waiter] = Batch.of(self._queue.limits, payloads, keys=keys, headers=headers)
        if not 0 <= first_sequence <= SEQUENCE_MAX + 1 - batch.count:
            raise ConfigurationError(
                f"a sequence must be 0 to {SEQUENCE_MAX}, got {first_sequence} to {first_sequence + batch.count - 1}"
            )
        return batch

    async def submit_batch(
        self, batch: Batch[Waiter], first_sequence: int, left_out: Iterable[tuple[int, int]] = ()
    ) -> asyncio.Future[Appended]:
        """As `submit_many`, for messages that `batch_of` has collected. A batch can be submitted once.

        `left_out`: first and last sequence of what was given up before this call, or waits, and was never submitted.
        """
        for first, last in left_out:
            self._queue.producers.leave_out(self._id, first, last)
        return await self._queue.append_sequenced(self._id, first_sequence, batch)


async def _refused(error: LogStoreError) -> asyncio.Future[Appended]:
    raise error
