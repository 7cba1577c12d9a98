"""Appends at a fixed rate, whatever the acknowledgements do (open loop): a pause delays all that are due in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from benchmarks.load.ticks import Ticks
from dlog.model import MessageId
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError

Acked = Callable[[int, float, float], None]
"""Called with an append's number, when it was due and when it was acknowledged (seconds of the monotonic clock)."""


async def append_paced(
    writer: LogWriter, *, per_second: int, seconds: float | None, prefix: bytes, on_acked: Acked
) -> None:
    """Append messages `<prefix><number>` until `seconds` have passed (None: until the writer ends).

    Returns when each has its outcome. Only acknowledged ones are reported.
    """
    began = time.monotonic()
    number, due_count, pending = 0, 0, set[asyncio.Future[MessageId]]()
    with Ticks(began, per_second) as ticks:
        while writer.active and (seconds is None or number < seconds * per_second):
            if number == due_count:
                due_count += await ticks.next()
            try:
                future = await writer.submit(prefix + b"%d" % number)
            except LogStoreError:
                break  # the writer has ended; the pending futures have the reason
            pending.add(future)
            future.add_done_callback(_report(number, began + number * ticks.interval_s, on_acked))
            future.add_done_callback(pending.discard)
            number += 1
    if pending:
        await asyncio.wait(pending)


def _report(number: int, due: float, on_acked: Acked) -> Callable[[asyncio.Future[MessageId]], None]:
    def done(future: asyncio.Future[MessageId]) -> None:
        if not future.cancelled() and future.exception() is None:
            on_acked(number, due, time.monotonic())

    return done
