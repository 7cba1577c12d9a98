"""Appends to several logs in turn at a fixed total rate, whatever the acknowledgements do (open loop)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.hour.messages import encode
from benchmarks.hour.samples import Seconds
from benchmarks.load.ticks import Ticks
from dlog.client import LogClient
from dlog.model import MessageId
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError


def log_name(number: int) -> str:
    return f"log-{number}"


@dataclass(slots=True)
class LoadedLog:
    number: int
    writer: LogWriter
    submitted: int = 0
    failed: set[int] = field(default_factory=set)
    """Numbers of appends without an acknowledgement."""
    deleted: bool = False

    @property
    def acked(self) -> set[int] | range:
        """Valid once no append is pending."""
        every = range(self.submitted)
        return every if not self.failed else set(every) - self.failed


class Load:
    """`run` appends until `end`. A log in `logs` may be removed at any time."""

    def __init__(self, logs: Sequence[LoadedLog], per_second: int, began: float) -> None:
        """`began`: in seconds of the monotonic clock; the first append is due then."""
        self.every = list(logs)
        """Also those that are out of the turns."""
        self.logs = list(logs)
        self.seconds = Seconds()
        self.failures: list[str] = []
        self._per_second = per_second
        self.began = began
        self._pending: set[asyncio.Future[MessageId]] = set()
        self._ended = False

    @classmethod
    async def open(cls, client: LogClient, logs: int, per_second: int, began: float) -> Load:
        """Create the logs."""
        writers = [await client.open_writer(log_name(number), create=True) for number in range(logs)]
        loaded = [LoadedLog(number, writer) for number, writer in enumerate(writers)]
        return cls(loaded, per_second, began)

    @property
    def remaining(self) -> list[LoadedLog]:
        """Those that are not deleted."""
        return [log for log in self.every if not log.deleted]

    def now_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def end(self) -> None:
        self._ended = True

    async def run(self) -> None:
        """Returns when each append has its outcome."""
        turn, due_count = 0, 0
        with Ticks(self.began, self._per_second) as ticks:
            while self.logs and not self._ended:
                if turn == due_count:
                    due_count += await ticks.next()
                log = self.logs[turn % len(self.logs)]
                due = self.began + turn * ticks.interval_s
                turn += 1
                await self._append(log, due)
        if self._pending:
            await asyncio.wait(self._pending)

    async def remove(self, log: LoadedLog) -> None:
        """Take the log out of the turns and seal it; its appends have their outcomes then."""
        self.logs.remove(log)
        try:
            await log.writer.close()
        except LogStoreError as error:
            self._fail(log, None, error)

    async def _append(self, log: LoadedLog, due: float) -> None:
        number = log.submitted
        log.submitted += 1
        try:
            future = await log.writer.submit(encode(log.number, number))
        except LogStoreError as error:
            self._fail(log, number, error)
            return
        self._pending.add(future)
        future.add_done_callback(self._outcome(log, number, due))

    def _outcome(
        self, log: LoadedLog, number: int, due: float
    ) -> Callable[[asyncio.Future[MessageId]], None]:
        def done(future: asyncio.Future[MessageId]) -> None:
            self._pending.discard(future)
            if future.cancelled():
                self._fail(log, number, None)
            elif (error := future.exception()) is not None:
                self._fail(log, number, error)
            else:
                now = time.monotonic()
                self.seconds.add(now - self.began, (now - due) * 1e3)

        return done

    def _fail(self, log: LoadedLog, number: int | None, error: BaseException | None) -> None:
        if number is not None:
            log.failed.add(number)
        self.failures.append(f"{self.now_s():.1f} s, log {log.number}: {type(error).__name__}: {error}")
