"""Writers of the swarm: they take the log over, append in every way there is, lose it, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from dlog.client import LogClient
from dlog.errors import AppendIndeterminateError, TakeoverLostError, UnknownPositionError
from dlog.model import MessageId
from dlog.testing.checks.history import Outcome
from dlog.testing.checks.recorder import Recorder
from dlog.testing.swarm.plan import Plan
from dlog.write.writer import LogWriter
from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    OutcomeUnknownError,
    OwnershipLostError,
    UnavailableError,
)

IN_FLIGHT_MAX = 32
CLOSE_S_MAX = 200.0
"""Longer than everything that a writer may wait for; beyond it, it is stuck."""


class SwarmWriter:
    """One process that wants the log, again and again, until `stopping`; then it settles what it has accepted."""

    def __init__(
        self,
        plan: Plan,
        client: LogClient,
        log: str,
        recorder: Recorder,
        name: str,
        chance: Random,
        stopping: Callable[[], bool],
    ) -> None:
        self._plan = plan
        self._client = client
        self._log = log
        self._recorder = recorder
        self._name = name
        self._chance = chance
        self._stopping = stopping
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        term = 0
        while not self._stopping():
            term += 1
            handle = f"{self._name}.{term}"
            writer = await self._take_over(handle)
            if writer is not None:
                await self._append_until_lost(writer, handle)
            await asyncio.sleep(self._chance.choice((0.1, 1.0, 5.0)) * self._chance.random())

    async def _take_over(self, handle: str) -> LogWriter | None:
        epoch = self._recorder.epoch
        self._recorder.asked_for(handle)
        try:
            writer = await self._client.open_writer(self._log, create=True)
        except TakeoverLostError as error:
            winner = error.facts.get("epoch")
            if isinstance(winner, int) and winner <= epoch:
                self.wrong.append(
                    f"c17_progress: {handle} was deposed at epoch {epoch}, but no other writer took over: {error!r}"
                )
            return None
        except (UnavailableError, OutcomeUnknownError):
            return None
        except LogStoreError as error:
            self.loud.append(f"{handle} no takeover: {error!r}")
            return None
        self._recorder.takeover(handle, writer.epoch)
        return writer

    async def _append_until_lost(self, writer: LogWriter, handle: str) -> None:
        ways = self._ways()
        ends_at = asyncio.get_running_loop().time() + self._chance.expovariate(1 / self._plan.term_s)
        while writer.active and not self._stopping():
            way = self._chance.choice(ways)
            self._spawn(way(writer, handle))
            await asyncio.sleep(self._plan.append_every_s * 2 * self._chance.random())
            while len(self._tasks) >= IN_FLIGHT_MAX and writer.active:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            if asyncio.get_running_loop().time() > ends_at:
                break
        if self._chance.random() < self._plan.aborts and not self._stopping():
            writer.abort()
        await self._close(writer, handle)

    async def _close(self, writer: LogWriter, handle: str) -> None:
        try:
            async with asyncio.timeout(CLOSE_S_MAX):
                await writer.close()
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            self.wrong.append(f"c17_progress: {handle} could not settle its appends within {CLOSE_S_MAX} s")

    def _ways(self) -> list[Any]:
        """Each term has its habits."""
        all_ways = [self._append, self._append, self._append_many, self._submit, self._cancel, self._rotate]
        return [all_ways[0], *(way for way in all_ways if self._chance.random() < 0.4)]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            found = self.loud if isinstance(error, LogStoreError) else self.wrong
            found.append(f"{self._name}: an append ended with {error!r}")

    # ---- ways to append

    def _payload(self) -> bytes:
        size = self._chance.choice((0, 10, self._plan.payload_bytes_max))
        return b"%s:%d:" % (self._name.encode(), self._recorder.new_payload()) + b"." * size

    async def _append(self, writer: LogWriter, handle: str) -> None:
        payload = self._payload()
        number = self._recorder.invoke(handle, payload)
        outcome, message_id = await outcome_of(writer.append(payload))
        self._recorder.end(handle, number, outcome, message_id)
        if (
            outcome is Outcome.INDETERMINATE
            and message_id is not None
            and self._chance.random() < self._plan.resolves
        ):
            await self._resolve(payload, message_id)

    async def _resolve(self, payload: bytes, message_id: MessageId) -> None:
        await asyncio.sleep(3.0 * self._chance.random())
        invoked = self._recorder.now()
        try:
            answer = await self._client.resolve(self._log, message_id)
        except (UnavailableError, UnknownPositionError):
            return
        self._recorder.resolved(payload, message_id, answer.value, invoked)

    async def _submit(self, writer: LogWriter, handle: str) -> None:
        payload = self._payload()
        number = self._recorder.invoke(handle, payload)
        outcome, message_id = await outcome_of(_submitted(writer, payload))
        self._recorder.end(handle, number, outcome, message_id)

    async def _append_many(self, writer: LogWriter, handle: str) -> None:
        payloads = [self._payload() for _ in range(self._chance.randint(1, 5))]
        numbers = self._recorder.invoke_many(handle, payloads)
        outcome, first = await outcome_of(_first_of_many(writer, payloads))
        for index, number in enumerate(numbers):
            place = None if first is None else first._replace(batch_index=first.batch_index + index)
            self._recorder.end(handle, number, outcome, place)

    async def _cancel(self, writer: LogWriter, handle: str) -> None:
        payload = self._payload()
        number = self._recorder.invoke(handle, payload)
        patience_s = self._chance.choice((0.0, 0.001, 0.02, 1.0)) * self._chance.random()
        try:
            async with asyncio.timeout(patience_s):
                outcome, message_id = await outcome_of(_submitted(writer, payload))
        except TimeoutError:
            outcome, message_id = Outcome.CANCELLED, None
        self._recorder.end(handle, number, outcome, message_id)

    async def _rotate(self, writer: LogWriter, handle: str) -> None:
        if self._chance.random() < 0.9:
            await self._append(writer, handle)
            return
        try:
            await writer.rotate()
        except LogStoreError:
            return  # the old ledger stays in use


async def _submitted(writer: LogWriter, payload: bytes) -> MessageId:
    return await (await writer.submit(payload))


async def _first_of_many(writer: LogWriter, payloads: list[bytes]) -> MessageId:
    return (await writer.append_many(payloads))[0]


async def outcome_of(append: Coroutine[Any, Any, MessageId]) -> tuple[Outcome, MessageId | None]:
    """How it ended, and where it is or would be."""
    try:
        return Outcome.ACKED, await append
    except AppendIndeterminateError as error:
        return Outcome.INDETERMINATE, error.message_id
    except (ConfigurationError, UnavailableError, OwnershipLostError):
        return Outcome.REJECTED, None
