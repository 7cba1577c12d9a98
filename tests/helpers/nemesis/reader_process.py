"""Readers of the log as a process: what they return is written down.

    python -m tests.helpers.nemesis.reader_process URI HISTORY NAME SEED SOURCE [OPTION ...]

Each process reads in four ways, all of them at the same time:

- one tail from the earliest message that is never timed out (NAME.tail): it must become the whole log;
- tails from random places, one after another;
- whole reads, from the earliest message to the tail;
- witnesses: a reader opened directly after some writer was acknowledged, from that message to the tail.

Readers skip what is trimmed. With the option `shrinks`, which one process of a run has, it trims the log, too: it reads
what is below (NAME.shadow-N) and calls `shrink`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from random import Random

from dlog.client import LogClient
from dlog.errors import LogNotFoundError, ShrinkRefusedError
from dlog.model import EARLIEST_ID, MessageId
from ledger.errors import LogStoreError, OutcomeUnknownError, UnavailableError
from tests.helpers.nemesis.client_process import READY, ClientArguments, connected, parse_arguments, run
from tests.helpers.nemesis.history_file import AckedTail, HistoryFile
from tests.helpers.nemesis.settings import HEALED, LOG

SHRINKS = "shrinks"
_WITNESS_PAUSE_S = 0.002
_SHADOW_S = 5.0
"""For reading what is to be trimmed; if that takes longer, nothing is trimmed this time."""
_TRIM_ALL = 0.03
"""The share of trims that leave only the newest messages that this process has read."""


class ReaderProcess:
    def __init__(
        self,
        client: LogClient,
        history: HistoryFile,
        name: str,
        random: Random,
        acked: AckedTail,
        *,
        shrinks: bool,
    ) -> None:
        self._client = client
        self._history = history
        self._name = name
        self._random = random
        self._acked = acked
        self._seen: list[MessageId] = []
        self._turns = 0
        self._shrinks = shrinks
        self._shadowed = EARLIEST_ID
        """The highest place that a trim was asked for, and all below it was read."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._read_from_anywhere())
            tasks.create_task(self._read_all())
            tasks.create_task(self._witness())
            if self._shrinks:
                tasks.create_task(self._trim())

    async def _follow(self) -> None:
        start: MessageId | str = "earliest"
        name = f"{self._name}.tail"
        while True:
            try:
                async with self._client.reader(LOG, start, on_trimmed="skip") as reader:
                    async for message in reader:
                        if message.id != start:  # where it had stopped
                            self._record(name, message.id, message.payload)
                            start = message.id
            except (UnavailableError, LogNotFoundError) as error:
                print(f"{name} {error}", flush=True)
                await asyncio.sleep(0.2)
            except LogStoreError as error:
                self._history.wrong(name, f"from {start}: {error!r}")
                return

    async def _read_from_anywhere(self) -> None:
        while True:
            await self._read("from", self._start(), until=None, timeout_s=self._random.uniform(0.5, 5.0))

    async def _read_all(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.2, 3.0))
            await self._read("all", "earliest", until="latest", timeout_s=30.0)

    async def _witness(self) -> None:
        while True:
            await asyncio.sleep(_WITNESS_PAUSE_S)
            if (acked := self._acked.newest()) is not None:
                await self._read("witness", acked, until="latest", timeout_s=10.0)

    async def _read(self, kind: str, start: MessageId | str, *, until: str | None, timeout_s: float) -> None:
        """One reader. If it got to the tail that it found when it was opened, it was a whole read."""
        self._turns += 1
        name = f"{self._name}.{kind}-{self._turns}"
        opened = time.monotonic()
        try:
            opening = self._client.reader(LOG, start, until=until, on_trimmed="skip")
            async with asyncio.timeout(timeout_s), opening as reader:
                async for message in reader:
                    self._record(name, message.id, message.payload)
                ended, first = time.monotonic(), start if isinstance(start, MessageId) else None
                self._history.whole_read(name, opened, ended, first)
        except TimeoutError:
            return  # what it has read so far counts
        except (UnavailableError, LogNotFoundError) as error:
            print(f"{name} {error}", flush=True)
            await asyncio.sleep(0.2)
        except LogStoreError as error:
            self._history.wrong(name, f"from {start}: {error!r}")
            await asyncio.sleep(0.2)

    async def _trim(self) -> None:
        """To somewhere in the older half, mostly: the younger one is to be checked."""
        while True:
            await asyncio.sleep(self._random.uniform(0.3, 2.0))
            if not self._seen:
                continue
            seen = sorted(set(self._seen))
            newest = self._random.random() < _TRIM_ALL
            before = seen[-1] if newest else seen[self._random.randrange(len(seen) // 2 + 1)]
            self._turns += 1
            name = f"{self._name}.shadow-{self._turns}"
            try:
                await self._trim_to(before, name)
            except (
                TimeoutError,
                UnavailableError,
                LogNotFoundError,
                ShrinkRefusedError,
                OutcomeUnknownError,
            ) as error:
                print(f"{name} is not known to be trimmed to {before}: {error!r}", flush=True)
            except LogStoreError as error:
                self._history.wrong(name, f"trim to {before}: {error!r}")

    async def _trim_to(self, before: MessageId, name: str) -> None:
        """Read what is to be trimmed first, so that the checks know it; what cannot be read now is left alone."""
        if self._shadowed < before:
            reading = self._client.reader(LOG, self._shadowed, until=before, on_trimmed="skip")
            async with asyncio.timeout(_SHADOW_S), reading as reader:
                async for message in reader:
                    self._record(name, message.id, message.payload)
        self._history.trim(name, time.monotonic(), before)
        self._shadowed = max(self._shadowed, before)
        await self._client.shrink(LOG, before)
        self._history.trimmed(name, time.monotonic())

    def _record(self, reader: str, message_id: MessageId, payload: bytes | None) -> None:
        assert payload is not None, "no writer appends tombstones"
        self._history.returned(reader, message_id, time.monotonic(), payload)
        if payload != HEALED:
            self._seen.append(message_id)

    def _start(self) -> MessageId | str:
        kind = self._random.random()
        if kind < 0.25 or not self._seen:
            return "earliest"
        if kind < 0.4:
            return "latest"
        near = self._random.choice(self._seen)
        if kind < 0.6:  # an id need not exist
            return MessageId(
                near.ledger_id, near.entry_id + self._random.randrange(3), self._random.randrange(3)
            )
        return near


async def main(arguments: ClientArguments) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    print(READY, flush=True)
    acked = AckedTail(arguments.history_path.parent)
    try:
        async with await connected(arguments) as client:
            history = arguments.open_history()
            shrinks = SHRINKS in arguments.options
            reader = ReaderProcess(client, history, arguments.name, arguments.random, acked, shrinks=shrinks)
            await reader.run()
    except asyncio.CancelledError:
        print(f"{arguments.name} ended", flush=True)


if __name__ == "__main__":
    given = parse_arguments(sys.argv[1:])
    run(main(given), given)
