"""A writer of the log as a process of its own: appends, takes the log back when it loses it, records everything.

    python -m tests.helpers.nemesis.writer_process URI HISTORY NAME SEED SOURCE [OPTION ...]

Ends on SIGTERM, after all it had accepted is settled.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from random import Random

from dlog.client import LogClient
from dlog.errors import AppendIndeterminateError, TakeoverLostError
from dlog.model import MessageId
from dlog.testing.checks.history import Outcome
from dlog.write.writer import LogWriter
from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    OutcomeUnknownError,
    OwnershipLostError,
    UnavailableError,
)
from tests.helpers.nemesis.client_process import READY, ClientArguments, connected, parse_arguments, run
from tests.helpers.nemesis.history_file import HistoryFile
from tests.helpers.nemesis.settings import LOG

_IN_FLIGHT_MAX = 64
_RESOLVED_WITHIN_S = 2.0
_BATCHES = 0.2
"""The share of appends that are an `append_many`."""
_BATCH_MAX = 5


class WriterProcess:
    def __init__(
        self,
        client: LogClient,
        history: HistoryFile,
        name: str,
        random: Random,
        stopping: asyncio.Event,
    ) -> None:
        """`stopping`: set from outside, when all that was accepted is to be settled."""
        self._client = client
        self._history = history
        self._name = name
        self._random = random
        self._stopping = stopping
        self._appends: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        for term in range(1000):
            writer = await self._take_over(f"{self._name}.{term}")
            if writer is not None:
                await self._append_until_lost(writer, f"{self._name}.{term}")
            if self._stopping.is_set():
                return
            await asyncio.sleep(self._random.uniform(0.2, 2.0))

    async def _take_over(self, handle: str) -> LogWriter | None:
        asked = time.monotonic()
        try:
            writer = await self._client.open_writer(LOG, create=True)
        except (TakeoverLostError, UnavailableError, OutcomeUnknownError) as error:
            print(f"{handle} no takeover: {error}", flush=True)
            return None
        self._history.takeover(handle, asked, time.monotonic(), writer.epoch)
        print(f"{handle} took over at epoch {writer.epoch}", flush=True)
        return writer

    async def _append_until_lost(self, writer: LogWriter, handle: str) -> None:
        number = 0
        pause_s = self._random.choice([0.0, 0.0005, 0.005, 0.05])
        while writer.active and not self._stopping.is_set():
            count = self._random.randint(2, _BATCH_MAX) if self._random.random() < _BATCHES else 1
            payloads = [self._payload(handle, number + index) for index in range(count)]
            self._history.invoked(handle, number, time.monotonic(), payloads)
            self._spawn(self._append(writer, handle, number, payloads))
            number += count
            if self._random.random() < 0.002:
                self._spawn(self._rotate(writer))
            await asyncio.sleep(pause_s)
            while len(self._appends) >= _IN_FLIGHT_MAX and not self._stopping.is_set():
                await asyncio.wait(self._appends, return_when=asyncio.FIRST_COMPLETED)
        await writer.close()
        if self._appends:
            await asyncio.wait(self._appends)
        print(f"{handle} ended after {number} messages", flush=True)

    def _payload(self, handle: str, number: int) -> bytes:
        return f"{handle}:{number}:".encode() + b"." * self._random.choice([0, 10, 500])

    def _spawn(self, work: asyncio.Future[None] | object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[arg-type]  # a coroutine without result
        self._appends.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._appends.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._history.wrong(self._name, f"an append ended with {error!r}")

    async def _append(self, writer: LogWriter, handle: str, number: int, payloads: list[bytes]) -> None:
        """One message, or an `append_many`."""
        outcome, ids = await _outcome(writer, payloads)
        self._history.ended(handle, number, time.monotonic(), outcome, ids)
        if outcome is Outcome.INDETERMINATE and ids:
            index = self._random.randrange(len(ids))
            await self._resolve(handle, payloads[index], ids[index])

    async def _resolve(self, handle: str, payload: bytes, message_id: MessageId) -> None:
        """Soon, or a little later: the answer must hold either way."""
        await asyncio.sleep(self._random.choice([0.0, self._random.uniform(0.0, _RESOLVED_WITHIN_S)]))
        asked = time.monotonic()
        try:
            answer = await self._client.resolve(LOG, message_id)
        except UnavailableError as error:
            print(f"{handle} {message_id} is not resolved: {error}", flush=True)
            return
        self._history.resolved(handle, asked, time.monotonic(), answer.value, message_id, payload)

    async def _rotate(self, writer: LogWriter) -> None:
        try:
            await writer.rotate()
        except LogStoreError as error:
            print(f"{self._name} no rotation: {error}", flush=True)


async def _outcome(writer: LogWriter, payloads: list[bytes]) -> tuple[Outcome, list[MessageId]]:
    """With the ids that the messages have, or would have."""
    try:
        if len(payloads) == 1:
            return Outcome.ACKED, [await writer.append(payloads[0])]
        return Outcome.ACKED, list(await writer.append_many(payloads))
    except AppendIndeterminateError as error:
        first = error.message_id
        ids = [first._replace(batch_index=first.batch_index + index) for index in range(len(payloads))]
        return Outcome.INDETERMINATE, ids
    except (ConfigurationError, UnavailableError, OwnershipLostError):
        return Outcome.REJECTED, []


async def main(arguments: ClientArguments) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    print(READY, flush=True)
    async with await connected(arguments) as client:
        history = arguments.open_history()
        await WriterProcess(client, history, arguments.name, arguments.random, stopping).run()


if __name__ == "__main__":
    given = parse_arguments(sys.argv[1:])
    run(main(given), given)
