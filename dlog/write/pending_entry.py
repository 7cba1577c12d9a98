"""One entry on its way: its messages, their waiters, and every way in which that can end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import compress, repeat
from typing import Any

from dlog.core.batching import Batch
from dlog.errors import AppendIndeterminateError
from dlog.format.entry import ENTRY_OVERHEAD_BYTES, Codec, encode_entry
from dlog.model import MessageId, MessageIds
from ledger.errors import LogStoreError

_new: Any = tuple.__new__
_cancelled: Callable[[asyncio.Future[Any]], bool] = asyncio.Future.cancelled

Waiter = asyncio.Future[Any]
"""Gets a MessageId, or MessageIds where one caller waits for the whole entry."""


class PendingEntry:
    """A batch until it is encoded, then the entry's bytes, which never change again (they may be sent twice).

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
        self.count = batch.count
        self.size = batch.body_bytes + ENTRY_OVERHEAD_BYTES
        """Counts against the writer's buffer, from acceptance to the end."""
        self.entry = b""
        self.entry_id = -1
        self.append_time_us = 0
        self.accepted_at = 0.0
        """Loop time; kept when the entry is sent again."""
        self.settled = False
        """Every waiter has its outcome."""

    def encode(self, epoch: int, append_time_us: int, codec: Codec) -> bool:
        """Fix the bytes, without messages whose caller has cancelled. False if nothing is left to send."""
        batch = self.batch
        if batch is None:
            return True
        if any(map(_cancelled, self.waiters)) and not self._leave_out_cancelled(batch):
            return False
        columns = batch.columns
        self.entry = b"".join(encode_entry(columns, epoch=epoch, append_time_us=append_time_us, codec=codec))
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
        if self.whole:
            waiter = self.waiters[0]
            if not waiter.done():
                waiter.set_result(MessageIds(ledger_id, entry_id, self.count))
            return
        # tuple.__new__ is what MessageId's constructor calls after three Python frames.
        places = zip(repeat(ledger_id), repeat(entry_id), range(self.count))
        for waiter, message_id in zip(self.waiters, map(_new, repeat(MessageId), places), strict=True):
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
