"""One trial: a log under constant appends and a tailing reader, an outage, then each operation by another client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from benchmarks.availability.outages import Durations, Outage
from benchmarks.availability.owner_process import OWNER, PER_SECOND
from benchmarks.load.paced_appends import append_paced
from dlog.client import LogClient, connect
from dlog.model import MessageId
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError
from tests.helpers.processes.cluster import Cluster
from tests.helpers.processes.python import Child, start_python

OPERATION_S_MAX = 30.0
"""An operation that has not ended by then counts as failed."""
_BEFORE_S = 0.5
_WATCHED_S = 1.0
"""The appender and the tail are watched for this long after the outage, or until appends due then are acknowledged."""
_SUCCESSOR = b"next "
_LAST = b"last"
_T = TypeVar("_T")
Found = dict[str, Durations]


class LostError(Exception):
    """An acknowledged message was not read."""


class Trial:
    def __init__(self, cluster: Cluster, outage: Outage, log: str, directory: Path) -> None:
        self._cluster = cluster
        self._outage = outage
        self._log = log
        self._acks = directory / f"{log}.acks"
        self._delivered: list[tuple[float, bytes]] = []
        """When each message came to the tailing reader, and its payload."""
        self._successor: list[tuple[float, float]] = []
        """When each append of the next writer was due and when it was acknowledged."""
        self._acked_next = 0
        self._last_delivered = asyncio.Event()

    async def run(self, found: Found) -> None:
        """Add what this trial measured to `found`.

        Raises:
            LostError: an acknowledged message was not read.
        """
        self._acks.touch()
        owner = await start_python(
            ["-m", "benchmarks.availability.owner_process", self._cluster.uri, self._log, str(self._acks)]
        )
        async with connect(self._cluster.uri) as client:
            tail = asyncio.create_task(self._follow(client))
            try:
                await asyncio.sleep(_BEFORE_S)
                victims = await self._victims(client)
                began = time.monotonic()
                self._begin(owner, victims)
                try:
                    await self._measure(found, client, began)
                finally:
                    await self._end(owner, victims)
            finally:
                tail.cancel()
                with suppress(asyncio.CancelledError):
                    await tail

    # ---- the outage

    async def _victims(self, client: LogClient) -> list[int]:
        """Numbers of bookies in the ensemble of the active ledger."""
        record = (await client.describe(self._log)).record
        metadata = (await client.ledgers.store.read_ledger(record.ledger_ids[-1])).value
        ports = [int(bookie_id.rpartition(":")[2]) for bookie_id in metadata.fragments[-1].ensemble]
        by_port = {bookie.port: number for number, bookie in enumerate(self._cluster.bookies)}
        return [by_port[port] for port in ports[: self._outage.bookies]]

    def _begin(self, owner: Child, victims: Iterable[int]) -> None:
        processes = [self._cluster.bookies[number] for number in victims]
        processes += [owner] if self._outage.client else []
        for process in processes:
            process.pause() if self._outage.hung else process.kill()

    async def _end(self, owner: Child, victims: Iterable[int]) -> None:
        for number in victims:
            if self._outage.hung:
                self._cluster.bookies[number].resume()
            else:
                await self._cluster.bookies[number].stop()
                await self._cluster.restart(number)
        owner.kill()
        await owner.stop()

    # ---- measurements

    async def _measure(self, found: Found, client: LogClient, began: float) -> None:
        acks: list[tuple[float, float]] = []
        if not self._outage.client:
            acks = await self._watch_owner(began)
            _count(found["Append"], acks, began)
        await _timed(found["Read"], self._read)
        async with connect(self._cluster.uri) as successor:
            opened = await _timed(found["Open"], lambda: self._open(successor))
            if opened is None:
                for name in ("Rotate", "Shrink", "Create", *(("Append",) if self._outage.client else ())):
                    found[name].failures.append("no writer could be opened")
                return
            writer, first = opened
            until = self._successor[0][1] if self._outage.client else max(acked for _, acked in acks)
            started = time.monotonic()
            await self._append(writer)
            if self._outage.client:
                _count(found["Append"], self._successor, started)
                acks = [*self._owner_acks(), *self._successor]
            await _timed(found["Rotate"], writer.rotate)
            await _timed(found["Shrink"], lambda: self._shrink(first))
            last = await writer.append(_LAST)
            await _timed(found["Create"], self._create)
            async with asyncio.timeout(OPERATION_S_MAX):
                await self._last_delivered.wait()
            self._check(len(self._owner_acks()), last)
            writer.abort()
        _pause(found["Appender"], [acked for _, acked in acks], began, until)
        _pause(found["Reader"], [at for at, _ in self._delivered], began, until)

    async def _follow(self, client: LogClient) -> None:
        async with client.reader(self._log, on_trimmed="skip") as reader:
            async for message in reader:
                self._delivered.append((time.monotonic(), bytes(message.payload or b"")))
                if message.payload == _LAST:
                    self._last_delivered.set()

    async def _watch_owner(self, began: float) -> list[tuple[float, float]]:
        """The owner's appends, when one is acknowledged that was due a second after the outage began."""
        until = began + OPERATION_S_MAX
        while True:
            await asyncio.sleep(0.05)
            acks = self._owner_acks()
            if acks and acks[-1][0] > began + _WATCHED_S:
                return acks
            if time.monotonic() > until:
                raise TimeoutError(f"the writer of log {self._log} has acknowledged nothing since the outage")

    def _owner_acks(self) -> list[tuple[float, float]]:
        """When each was due and when it was acknowledged."""
        lines = self._acks.read_text().rpartition("\n")[0].splitlines()
        return [(float(due), float(acked)) for _, due, acked in (line.split() for line in lines)]

    async def _read(self) -> None:
        """All messages, from the first to the tail, by a client that knows nothing of the outage."""
        async with (
            connect(self._cluster.uri) as client,
            client.reader(self._log, until="latest") as reader,
        ):
            count = 0
            async for _ in reader:
                count += 1
        if count < PER_SECOND * _BEFORE_S / 2:
            raise LostError(f"a reader of log {self._log} returned {count} messages")

    async def _open(self, client: LogClient) -> tuple[LogWriter, MessageId]:
        """Take the log over and append a message."""
        writer = await client.open_writer(self._log)
        due = time.monotonic()
        first = await writer.append(b"opened")
        self._successor.append((due, time.monotonic()))
        return writer, first

    async def _append(self, writer: LogWriter) -> None:
        def on_acked(_: int, due: float, acked: float) -> None:
            self._successor.append((due, acked))
            self._acked_next += 1

        await append_paced(
            writer, per_second=PER_SECOND, seconds=_WATCHED_S, prefix=_SUCCESSOR, on_acked=on_acked
        )

    async def _shrink(self, before: MessageId) -> None:
        async with connect(self._cluster.uri) as client:
            await client.shrink(self._log, before)

    async def _create(self) -> None:
        """A new log, its writer and a message."""
        async with connect(self._cluster.uri) as client:
            writer = await client.open_writer(f"{self._log}-new", create=True)
            await writer.append(b"first")
            writer.abort()

    def _check(self, acked: int, last: MessageId) -> None:
        """What was acknowledged was delivered, once and in order; what was in flight may follow it."""
        for prefix, least in ((OWNER, acked), (_SUCCESSOR, self._acked_next)):
            payloads = [payload for _, payload in self._delivered if payload.startswith(prefix)]
            if (
                payloads != [prefix + b"%d" % number for number in range(len(payloads))]
                or len(payloads) < least
            ):
                raise LostError(
                    f"log {self._log} up to {last}: {least} messages {prefix.decode()!r} were acknowledged, the reader "
                    f"returned {len(payloads)}, the last {payloads[-3:]}"
                )


async def _timed(durations: Durations, operation: Callable[[], Awaitable[_T]]) -> _T | None:
    """What the operation returned; None if it failed."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(OPERATION_S_MAX):
            result = await operation()
    except (LogStoreError, TimeoutError) as error:
        durations.failures.append(f"{type(error).__name__}: {error}")
        return None
    durations.ms.append((time.monotonic() - started) * 1e3)
    durations.worked += 1
    return result


def _count(durations: Durations, acks: list[tuple[float, float]], began: float) -> None:
    """Latencies of the appends that were due in the second after `began`."""
    found = [acked - due for due, acked in acks if began <= due <= began + _WATCHED_S]
    if not found:
        durations.failures.append(f"no append was acknowledged within {OPERATION_S_MAX:.0f} s")
        return
    durations.ms += [seconds * 1e3 for seconds in found]
    durations.worked += 1


def _pause(durations: Durations, instants: Iterable[float], began: float, until: float) -> None:
    """The longest time between two of the instants, of those that touches `began` to `until`."""
    gaps = [
        later - earlier for earlier, later in pairwise(sorted(instants)) if later > began and earlier < until
    ]
    if not gaps:
        durations.failures.append("nothing came any more")
        return
    durations.ms.append(max(gaps) * 1e3)
    durations.worked += 1
