"""One entry on its way: its messages, their waiters, and every way in which that can end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import compress, repeat
from typing import Any

from dlog.core.batching import Batch
from dlog.errors import AppendIndeterminateError
from dlog.format.entry import (
    ENTRY_OVERHEAD_BYTES,
    Codec,
    ProducerMark,
    SnapshotPlace,
    encode_entry,
    encode_message,
    moved_entry,
)
from dlog.model import MessageId, MessageIds
from ledger.errors import LogStoreError

new_message_id: Any = tuple.__new__
"""What MessageId's constructor calls after three Python frames; takes the class and a tuple of its fields."""
_cancelled: Callable[[asyncio.Future[Any]], bool] = asyncio.Future.cancelled

_MESSAGE_BYTES = 64
"""What a message occupies in addition to its body, until its entry is encoded: a bytes object, a place in the batch."""
_WAITER_BYTES = 250
"""What a future and its callbacks occupy, which is more than a small message does."""

Waiter = asyncio.Future[Any]
"""Gets a MessageId, or MessageIds where one caller waits for the whole entry."""


class PendingEntry:
    """A batch until it is encoded, then the entry's bytes.

    Its messages never change again. If the entry is sent again, in another ledger, its envelope is made anew.

    `whole`: one waiter for all messages (`append_many`), else one for each.
    """

    __slots__ = (
        "accepted_at",
        "append_time_us",
        "batch",
        "count",
        "entry",
        "entry_id",
        "settled",
        "size",
        "waiters",
        "whole",
    )

    def __init__(self, batch: Batch[Waiter], *, whole: bool) -> None:
        self.batch: Batch[Waiter] | None = batch
        self.waiters = batch.tokens
        self.whole = whole
        self.count = len(batch.payloads)
        self.size = (
            batch.body_bytes
            + ENTRY_OVERHEAD_BYTES
            + _MESSAGE_BYTES * self.count
            + _WAITER_BYTES * len(batch.tokens)
        )
        """Counts against the writer's buffer, from acceptance to the end."""
        self.entry = b""
        self.entry_id = -1
        self.append_time_us = 0
        self.accepted_at = 0.0
        """Loop time; kept when the entry is sent again."""
        self.settled = False
        """Every waiter has its outcome."""

    @property
    def mark(self) -> ProducerMark | None:
        """Which producer sent it; None: none did."""
        return None

    def encode(
        self,
        *,
        epoch: int,
        append_time_us: int,
        codec: Codec,
        messages_before: int,
        producers: SnapshotPlace | None,
    ) -> bool:
        """Make the bytes for the ledger that gets the entry next, after `messages_before` messages.

        Messages whose caller has cancelled before the first time are left out. False if nothing is left to send.
        """
        batch = self.batch
        if batch is None:
            self.entry = moved_entry(self.entry, messages_before=messages_before, producers=producers)
            return True
        waiters = self.waiters
        cancelled = waiters[0].cancelled() if len(waiters) == 1 else any(map(_cancelled, waiters))
        if cancelled and not self._leave_out_cancelled(batch):
            return False
        if self.count == 1 and codec is Codec.NONE and producers is None and self.mark is None:
            self.entry = encode_message(
                batch.keys[0], batch.payloads[0], batch.headers[0], epoch, append_time_us, messages_before
            )
        else:
            pieces = encode_entry(
                batch.columns,
                epoch=epoch,
                append_time_us=append_time_us,
                codec=codec,
                producer=self.mark,
                messages_before=messages_before,
                producers=producers,
            )
            self.entry = b"".join(pieces)
        self.append_time_us = append_time_us
        self.batch = None
        return True

    def _leave_out_cancelled(self, batch: Batch[Waiter]) -> bool:
        """Cancelled before submit means certainly absent (docs/log-semantics.md#rule-8)."""
        if self.whole:
            return False
        keep = [not waiter.cancelled() for waiter in self.waiters]
        columns: tuple[list[Any], ...] = (batch.keys, batch.payloads, batch.headers, batch.tokens)
        for column in columns:
            column[:] = compress(column, keep)
        self.waiters, self.count = batch.tokens, batch.count
        return bool(self.count)

    def succeed(self, ledger_id: int) -> None:
        """Give every waiter that was not cancelled its id."""
        entry_id, self.settled = self.entry_id, True
        if self.count == 1 or self.whole:  # many logs with one append each
            waiter = self.waiters[0]
            if not waiter.done():
                waiter.set_result(
                    MessageIds(ledger_id, entry_id, self.count)
                    if self.whole
                    else new_message_id(MessageId, (ledger_id, entry_id, 0))
                )
            return
        places = zip(repeat(ledger_id), repeat(entry_id), range(self.count))
        for waiter, message_id in zip(
            self.waiters, map(new_message_id, repeat(MessageId), places), strict=True
        ):
            if not waiter.done():
                waiter.set_result(message_id)

    def fail_absent(self, error: LogStoreError) -> None:
        """The entry was never sent, or its absence is proved: each caller gets a copy of this error."""
        self.settled = True
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error.copy())

    def fail_indeterminate(self, ledger_id: int, cause: LogStoreError) -> None:
        """The entry was in flight: each message is at its would-be id or nowhere (docs/log-semantics.md#rule-8)."""
        self.settled = True
        for index, waiter in enumerate(self.waiters):
            if waiter.done():
                continue
            message_id = MessageId(ledger_id, self.entry_id, index)
            error = AppendIndeterminateError(
                f"the append may or may not have happened: it is at {message_id} or nowhere ({cause}); "
                "resolve that id before appending again",
                message_id=message_id,
                message_count=self.count if self.whole else 1,
            )
            error.__cause__ = cause
            waiter.set_exception(error)
