"""Producers of one log, which take it over from each other and append again whatever has no known outcome.

They append what they have appended before as well, cancel, also before the first step of a call, give up appends that
wait for buffer space, rotate, and trim everything while the newest ledger is empty. They make some calls one after the
other and begin them in any order, in tasks of their own or not, or never.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from dlog.client import LogClient
from dlog.errors import AppendRejectedError, QueueFullError, ShrinkRefusedError
from dlog.model import EARLIEST_ID, Appended, MessageId
from dlog.testing.checks.checks import first_findings
from dlog.testing.checks.producers import PRODUCER_CHECKS, ProducerAck, ProducerHistory
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.processes.writers import CLOSE_S_MAX, GivingUp
from dlog.write.producer import LogProducer
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError

PRODUCER_ROOT = "/producers"
PRODUCED_LOG = "produced"
_IN_FLIGHT_MAX = 8
_PAUSE_S = 0.3
_FILLING_BYTES = 4096
_FILLING_MAX = 40
"""More than the tight buffer of a plan holds, unless messages are huge, and less than any other."""
_UNSTARTED_SHARE = 0.05
_UNORDERED_SHARE = 0.15
_UNORDERED_MAX = 5
_Call = Coroutine[Any, Any, Any]
_FAILURES = (UnavailableError, OutcomeUnknownError, OwnershipLostError)


class Produced:
    """What all incarnations of all producers were acknowledged, and what was in the log before it was trimmed."""

    def __init__(self) -> None:
        self.history = ProducerHistory()
        self.shadow: dict[MessageId, bytes] = {}
        self.shadowed = EARLIEST_ID
        self._turns = 0

    def acked(self, producer: str, first: int, done: Appended) -> None:
        """All sequences from `first` to that of the outcome."""
        new = range(done.sequence - done.new + 1, done.sequence + 1)
        ids: dict[int, MessageId | None] = dict(zip(new, done.new_ids, strict=True))
        ids[done.sequence] = done.message_id
        self.history.acks += [
            ProducerAck(producer, one, ids.get(one)) for one in range(first, done.sequence + 1)
        ]

    def highest_acked(self, producer: str) -> int:
        return max((ack.sequence for ack in self.history.acks if ack.producer == producer), default=0)

    async def wrong_in_the_end(self, client: LogClient) -> list[str]:
        """After one more append. UnavailableError, and what takeovers and appends raise."""
        self._turns += 1
        async with await client.open_writer(PRODUCED_LOG, create=True) as writer:
            await writer.append(b"last %d" % self._turns)
        async with client.reader(PRODUCED_LOG, until="latest", on_trimmed="skip") as reader:
            found = self.shadow | {message.id: message.payload or b"" async for message in reader}
        self.history.log = [
            (message_id, payload.partition(b" ")[0].decode(), int(payload.partition(b" ")[2]))
            for message_id, payload in sorted(found.items())
            if payload.startswith(b"producer")
        ]
        return [
            wrong
            for check in PRODUCER_CHECKS
            for wrong in first_findings(check.__name__, check(self.history))
        ]


class SwarmProducer:
    """One process, whose producer has the same name in all of its incarnations."""

    def __init__(
        self,
        plan: Plan,
        client: LogClient,
        produced: Produced,
        name: str,
        label: str,
        chance: Random,
        stopping: asyncio.Event,
    ) -> None:
        self._crowding = Random(f"crowding {chance.getstate()[1][:2]}")
        """Follows from the seed, and draws nothing from `chance`: with a larger buffer a run is as without it."""
        self._disorder = Random(f"disorder {chance.getstate()[1][:2]}")
        self._cancels = plan.cancellers > 0
        """Some of its calls, before their first step."""
        self._giving_up = GivingUp(chance)
        self._client = client
        self._produced = produced
        self._name = name
        self._label = label
        self._chance = chance
        self._stopping = stopping
        self._in_flight: list[tuple[int, asyncio.Future[Appended]]] = []
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                writer = await self._client.open_writer(
                    PRODUCED_LOG, create=True, given_up=self._giving_up.given_up()
                )
            except _FAILURES:
                await asyncio.sleep(_PAUSE_S * self._chance.random())
                continue
            with suppress(*_FAILURES):
                await self._produce(writer)
            if self._chance.random() < 0.5:
                writer.abort()
            await self._close(writer)
            await asyncio.sleep(3 * _PAUSE_S * self._chance.random())

    async def _close(self, writer: LogWriter) -> None:
        try:
            async with asyncio.timeout(CLOSE_S_MAX):
                await writer.close()
                await self._settle()
        except _FAILURES:
            await self._settle()
        except TimeoutError:
            self.wrong.append(
                f"c17_progress: {self._label} could not settle its appends within {CLOSE_S_MAX} s"
            )

    async def _produce(self, writer: LogWriter) -> None:
        """For some seconds. Until it is known what was appended, it begins again after what was acknowledged."""
        producer = await writer.producer(self._name)
        last, acked = producer.last_sequence or 0, self._produced.highest_acked(self._name)
        if last < acked:
            self.wrong.append(
                f"c19_what_a_producer_was_acknowledged_is_in_the_log: {self._label} finds sequence {last} in epoch "
                f"{writer.epoch}, and {acked} was acknowledged"
            )
        following = 1 + (last if self._chance.random() < 0.3 else acked)
        ends_at = asyncio.get_running_loop().time() + self._chance.expovariate(1 / 3.0)
        while writer.active and not self._stopping.is_set() and asyncio.get_running_loop().time() < ends_at:
            following = await self._step(writer, producer, following)
            await asyncio.sleep(self._chance.choice((0.0, 0.01, 0.1)) * self._chance.random())
        await self._settle()

    async def _step(self, writer: LogWriter, producer: LogProducer, following: int) -> int:
        """One action; returns the first sequence that was not submitted."""
        if self._disorder.random() < _UNORDERED_SHARE:
            await self._begin_in_any_order(self._calls(producer, following))
            await self._settle()
            return 1 + self._produced.highest_acked(self._name)
        action = self._chance.random()
        if action < 0.55:
            first = max(1, following - self._chance.choice((0, 0, 0, 1, 3)))
            last = max(first, following + self._chance.choice((-1, 0, 0, 1, 4)))
            call = producer.submit_many(self._payloads(first, last), first_sequence=first)
            try:
                if self._cancels and self._chance.random() < _UNSTARTED_SHARE:
                    await asyncio.wait_for(call, 0.0)
                async with asyncio.timeout(self._crowd(writer)):
                    self._in_flight.append((first, await call))
                following = max(following, last + 1)
            except TimeoutError:  # given up, as what is cancelled: those that follow must be refused
                following = max(following, last + 1)
            except AppendRejectedError:  # an earlier one was cancelled: begin again there
                await self._settle()
        elif action < 0.75:
            await writer.submit(b"plain")
        elif action < 0.8 and self._in_flight:
            self._chance.choice(self._in_flight)[1].cancel()
        elif action < 0.85:
            await self._settle()
            await writer.rotate()
            if self._chance.random() < 0.7:
                await self._trim(writer)
        if len(self._in_flight) >= _IN_FLIGHT_MAX:
            await self._settle()
        if not self._in_flight:
            following = 1 + self._produced.highest_acked(self._name)
        return following

    def _payloads(self, first: int, last: int) -> list[bytes]:
        return [b"%s %d" % (self._name.encode(), number) for number in range(first, last + 1)]

    def _calls(self, producer: LogProducer, following: int) -> list[tuple[int, _Call]]:
        """With their first sequences, which rise or are repeated; none has had its first step."""
        chance, last = self._disorder, following - 1
        made: list[tuple[int, _Call]] = []
        for _ in range(chance.randint(2, _UNORDERED_MAX)):
            first = max(1, last + 1 - chance.choice((0, 0, 0, 1, 3)))
            last = max(last, first + chance.choice((0, 0, 1, 4)))
            make = chance.choice((producer.submit_many, producer.append_many))
            made.append((first, make(self._payloads(first, last), first_sequence=first)))
        return made

    async def _begin_in_any_order(self, calls: list[tuple[int, _Call]]) -> None:
        """Return once each call has ended, or was cancelled, closed or dropped, many before their first step."""
        chance = self._disorder
        begun: list[tuple[int, asyncio.Task[Any]]] = []
        chance.shuffle(calls)
        while calls:
            first, call = calls.pop()
            way = chance.random()
            if way < 0.4:
                begun.append((first, asyncio.create_task(call)))
            elif way < 0.8:
                timeout_s = chance.choice((0.0, 0.01, CLOSE_S_MAX))
                begun.append((first, asyncio.create_task(asyncio.wait_for(call, timeout_s))))
            elif way < 0.9:
                call.close()
            del call  # else the last one would not be dropped yet
            if begun and chance.random() < 0.2:
                chance.choice(begun)[1].cancel()
            if chance.random() < 0.4:
                await asyncio.sleep(chance.choice((0.0, 0.0, 0.01)))
        outcomes = await asyncio.gather(*(task for _, task in begun), return_exceptions=True)
        for (first, _), outcome in zip(begun, outcomes, strict=True):
            if isinstance(outcome, asyncio.Future):
                self._in_flight.append((first, outcome))
            else:
                self._ended(first, outcome)

    def _crowd(self, writer: LogWriter) -> float | None:
        """Fill a small buffer now and then; the seconds that the next append may wait for space in it."""
        if writer.buffer_bytes_max > _FILLING_MAX * _FILLING_BYTES or self._crowding.random() < 0.7:
            return None
        with suppress(QueueFullError):
            for _ in range(_FILLING_MAX):
                writer.submit_nowait(bytes(_FILLING_BYTES))
        return self._crowding.choice((0.0, 0.001, 0.01))

    async def _settle(self) -> None:
        """Wait for everything in flight. What was cancelled or has failed is appended again."""
        in_flight, self._in_flight = self._in_flight, []
        outcomes = await asyncio.gather(*(each for _, each in in_flight), return_exceptions=True)
        for (first, _), outcome in zip(in_flight, outcomes, strict=True):
            self._ended(first, outcome)

    def _ended(self, first: int, outcome: object) -> None:
        if isinstance(outcome, Appended):
            self._produced.acked(self._name, first, outcome)
        elif not isinstance(outcome, LogStoreError | TimeoutError | asyncio.CancelledError):
            self.wrong.append(f"{self._label}: an append ended with {outcome!r}")

    async def _trim(self, writer: LogWriter) -> None:
        """Everything before the newest ledger, which is empty if no other append has come."""
        produced = self._produced
        before = MessageId(writer.record.ledger_ids[-1], 0, 0)
        if produced.shadowed < before:  # else a newer writer has come further
            async with self._client.reader(
                PRODUCED_LOG, produced.shadowed, until=before, on_trimmed="skip"
            ) as reader:
                produced.shadow |= {message.id: message.payload or b"" async for message in reader}
            produced.shadowed = max(produced.shadowed, before)
        with suppress(ShrinkRefusedError):  # the record does not have the seal of the ledger before yet
            await self._client.shrink(PRODUCED_LOG, before)
