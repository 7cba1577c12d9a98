"""Sinks of the swarm: drivers that write the batches of streaming queries into one log, each batch once and whole.

A driver knows what was committed, as a query does from its checkpoint, and makes the same messages of a batch again. It
may be deposed, paused or killed at any step; another one of the same query may run at the same time. Between batches a
process appends as a plain writer, trims, sweeps, and reads everything.

Source: docs/log-semantics.md#rule-37.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from dlog.client import LogClient
from dlog.core.publication import SinkBatch, StagedLedger
from dlog.errors import LogExistsError
from dlog.format.message import NO_HEADERS, Columns, encode_messages
from dlog.model import MessageId
from dlog.sink.epoch import SinkEpoch
from dlog.sink.opening import open_epoch
from dlog.sink.publishing import discard, publish, tidy
from dlog.sink.staging import StagingWriter
from dlog.testing.checks.checks import first_findings
from dlog.testing.checks.sinks import c22_each_batch_of_a_sink_is_in_the_log_once_and_whole
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError

SINK_ROOT = "/sinks"
SUNK_LOG = "sunk"
_CHECK = c22_each_batch_of_a_sink_is_in_the_log_once_and_whole.__name__
_QUERIES = 2
_TASKS_MAX = 3
_ENTRIES_MAX = 4
_PAUSE_S = 0.3
_SWEEP_AGE_S = 2.0
_TRIM_BEHIND_MAX = 30
Connect = Callable[[], Coroutine[Any, Any, LogClient]]
_FAILURES = (UnavailableError, OutcomeUnknownError, OwnershipLostError)


class Sunk:
    """What all incarnations of all drivers know was committed, and what was in the log before it was trimmed."""

    def __init__(self) -> None:
        self.committed = {f"query-{number}": -1 for number in range(_QUERIES)}
        """The highest batch of each that is known to be published, as all below it are."""
        self.plain: set[bytes] = set()
        """Acknowledged messages of plain writers."""
        self.shadow: dict[MessageId, bytes] = {}
        self._count = 0

    def new_plain(self) -> bytes:
        self._count += 1
        return b"plain %d" % self._count

    def wrong_in(self, found: list[bytes], committed: dict[str, int]) -> list[str]:
        """What is wrong with all that was ever in the log; `committed` as of before it was read."""
        check = c22_each_batch_of_a_sink_is_in_the_log_once_and_whole(found, committed, rows_of)
        return first_findings(_CHECK, check)

    async def wrong_in_the_end(self, client: LogClient) -> list[str]:
        """After one more takeover. UnavailableError, and what takeovers and appends raise."""
        async with await client.open_writer(SUNK_LOG, create=True) as writer:
            await writer.append(self.new_plain())
        found = await everything_in(client, self)
        wrong = self.wrong_in(found, self.committed)
        if lost := self.plain.difference(found):
            wrong.append(f"c1_no_acknowledged_message_is_lost: {sorted(lost)[:5]} next to a sink's batches")
        if len(set(found)) != len(found):
            wrong.append("c4_no_duplicates: a message next to a sink's batches was returned twice")
        return wrong


def rows_of(query: str, number: int) -> list[list[bytes]]:
    """The messages of a batch, by task; the same whenever it is run."""
    chance = Random(f"{query} {number}")
    return [
        [
            b"%s %d %d %d" % (query.encode(), number, task, row)
            for row in range(chance.randint(1, 3 * _ENTRIES_MAX))
        ]
        for task in range(chance.randint(1, _TASKS_MAX))
    ]


async def read_all(client: LogClient) -> dict[MessageId, bytes]:
    async with client.reader(SUNK_LOG, until="latest", on_trimmed="skip") as reader:
        return {message.id: message.payload or b"" async for message in reader}


async def everything_in(client: LogClient, sunk: Sunk) -> list[bytes]:
    """All that was ever in the log."""
    while True:
        noted = len(sunk.shadow)
        read = await read_all(client)
        if len(sunk.shadow) == noted:  # else a trim has overtaken the reader
            return [payload for _, payload in sorted((sunk.shadow | read).items())]


class SwarmSink:
    """One process: a driver of one query and its tasks."""

    def __init__(
        self,
        client: LogClient,
        sunk: Sunk,
        name: str,
        label: str,
        chance: Random,
        stopping: asyncio.Event,
        connect: Connect,
    ) -> None:
        self._client = client
        self._connect = connect
        self._sunk = sunk
        self._query = f"query-{int(name.rpartition('-')[2]) % _QUERIES}"
        self._label = label
        self._chance = chance
        self._stopping = stopping
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        other = await self._connect()
        try:
            while not self._stopping.is_set():
                with suppress(*_FAILURES):
                    with suppress(LogExistsError):
                        await self._client.create(SUNK_LOG)
                    await self._step(other)
                await asyncio.sleep(_PAUSE_S * self._chance.random())
        finally:
            await other.close()

    async def _step(self, other: LogClient) -> None:
        steps = (self._append, self._trim, self._sweep, self._read)
        if self._chance.random() < 0.5:
            await self._batch(other)
        else:
            await self._chance.choice(steps)()

    # ---- a batch

    async def _batch(self, other: LogClient) -> None:
        """The next one, or the last one again, as a query does after a restart. LogStoreError.

        `other` knows nothing of what the process's own client has under way.
        """
        committed = self._sunk.committed[self._query]
        number = max(0, committed + (self._chance.random() < 0.85))
        batch = SinkBatch(writer_id=self._query, number=number)
        epoch = await open_epoch(self._client, SUNK_LOG)
        if epoch.has(self._query, number):
            self._commit(number)
            if self._chance.random() < 0.5:
                return
        elif number <= committed:
            self.wrong.append(f"{_CHECK}: {self._label} does not find batch {number}, which was published")
        tasks = [self._task(epoch, batch, rows) for rows in rows_of(self._query, number)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        staged = [ledger for each in outcomes if isinstance(each, tuple) for ledger in each]
        failed = [each for each in outcomes if isinstance(each, BaseException)]
        try:
            if failed:
                raise failed[0]
            await self._publish(epoch, batch, staged)
        except (*_FAILURES, TimeoutError):
            if self._chance.random() < 0.5:
                await discard(
                    self._chance.choice((self._client, other)), epoch.ref, [one.ledger_id for one in staged]
                )
            return
        if self._chance.random() < 0.3:
            await tidy(self._client, epoch.ref)

    async def _publish(self, epoch: SinkEpoch, batch: SinkBatch, staged: Sequence[StagedLedger]) -> None:
        """Repeated now and then, also after it has succeeded. LogStoreError; TimeoutError: it was cut off."""
        while True:
            await asyncio.sleep(self._chance.choice((0.0, 0.0, 1.0)) * self._chance.random())
            try:
                cut_off_s = self._chance.choice((None, None, 0.03, 0.3))
                async with asyncio.timeout(cut_off_s and cut_off_s * self._chance.random()):
                    await publish(self._client, epoch, batch, staged)
            except (OutcomeUnknownError, TimeoutError):
                if self._chance.random() < 0.5:
                    raise
                continue
            self._commit(batch.number)
            if self._chance.random() < 0.8:
                return

    def _commit(self, number: int) -> None:
        self._sunk.committed[self._query] = max(number, self._sunk.committed[self._query])

    async def _task(
        self, epoch: SinkEpoch, batch: SinkBatch, rows: Sequence[bytes]
    ) -> tuple[StagedLedger, ...]:
        """What the first attempt wrote that ended; others are discarded, or left to a sweep. LogStoreError."""
        attempts = 1 + (self._chance.random() < 0.2)
        outcomes = await asyncio.gather(
            *(self._attempt(epoch, batch, rows) for _ in range(attempts)), return_exceptions=True
        )
        done = [each for each in outcomes if isinstance(each, tuple)]
        for failed in outcomes:
            if not isinstance(failed, tuple | LogStoreError):
                raise failed
            if not done and isinstance(failed, LogStoreError):
                raise failed
        return done[0]

    async def _attempt(
        self, epoch: SinkEpoch, batch: SinkBatch, rows: Sequence[bytes]
    ) -> tuple[StagedLedger, ...]:
        writer = StagingWriter(epoch, batch, self._client.ledgers, self._client.config)
        left = list(rows)
        try:
            while left:
                count = self._chance.randint(1, _ENTRIES_MAX)
                some, left = left[:count], left[count:]
                columns = Columns([None] * len(some), some, [NO_HEADERS] * len(some))
                await writer.append(encode_messages(columns), len(some))
            return await writer.finish()
        except LogStoreError:
            with suppress(*_FAILURES):
                await writer.discard()
            raise

    # ---- between batches

    async def _append(self) -> None:
        payload = self._sunk.new_plain()
        async with await self._client.open_writer(SUNK_LOG) as writer:
            await writer.append(payload)
            self._sunk.plain.add(payload)

    async def _trim(self) -> None:
        """Everything before one of the newest messages."""
        read = await read_all(self._client)
        if read:
            before = self._chance.choice(sorted(read)[-_TRIM_BEHIND_MAX:])
            self._sunk.shadow |= {message_id: read[message_id] for message_id in read if message_id < before}
            await self._client.shrink(SUNK_LOG, before)
            await self._client.collect(SUNK_LOG)

    async def _sweep(self) -> None:
        await self._client.admin.sweep(age_s=_SWEEP_AGE_S, staging_age_s=_SWEEP_AGE_S)

    async def _read(self) -> None:
        committed = dict(self._sunk.committed)
        self.wrong += self._sunk.wrong_in(await everything_in(self._client, self._sunk), committed)
