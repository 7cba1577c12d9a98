"""Writers of the swarm: they take the log over, append in every way there is, lose it, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple, TypeVar

from dlog.client import LogClient
from dlog.core.takeover import OnTakeoverLost
from dlog.errors import AppendIndeterminateError, TakeoverLostError, UnknownPositionError
from dlog.model import MessageId
from dlog.testing.checks.history import Outcome, content_of
from dlog.testing.checks.recorder import Recorder
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.processes.cut_short import CutShortError, cut_short
from dlog.write.writer import LogWriter
from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    OutcomeUnknownError,
    OwnershipLostError,
    UnavailableError,
)
from ledger.model import LedgerId

_HUGE = 0.04
"""Share of messages that are huge, in a plan that has any."""
_COMPETE_EVERY_S = 0.5
_GIVES_UP = 0.15
"""Share of takeovers that give up any ledger that may be lost. None is, so nothing may come of it."""
_ANY_LEDGER = tuple(map(LedgerId, range(500)))
T = TypeVar("T")
IN_FLIGHT_MAX = 32
CLOSE_S_MAX = 200.0
"""Longer than everything that a writer may wait for; beyond it, it is stuck."""


class Content(NamedTuple):
    """What is appended, as the arguments of `append`."""

    payload: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def recorded(self) -> bytes:
        """As the history has it."""
        return content_of(*self)


class GivingUp:
    """Which takeovers give up ledgers that are there. It follows from the seed, and shifts no other draw."""

    def __init__(self, chance: Random) -> None:
        self._chance = Random(f"giving up {chance.getstate()[1][:2]}")

    def given_up(self) -> tuple[LedgerId, ...]:
        return _ANY_LEDGER if self._chance.random() < _GIVES_UP else ()


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
        self._giving_up = GivingUp(chance)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            # Empty unless this was cancelled, as those of parallel logs are after their last check.
            for task in self._tasks:
                task.cancel()

    async def _run(self) -> None:
        term = 0
        while not self._stopping():
            term += 1
            handle = f"{self._name}.{term}"
            writer = await self._take_over(handle)
            if writer is not None:
                await self._append_until_lost(writer, handle)
            if self._plan.rivals:
                await self._until_all_compete()
            else:
                await asyncio.sleep(self._chance.choice((0.1, 1.0, 5.0)) * self._chance.random())

    async def _until_all_compete(self) -> None:
        """Every writer without the log asks for it at the same instants, so that candidates meet in each step."""
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(_COMPETE_EVERY_S - now % _COMPETE_EVERY_S)

    async def _take_over(self, handle: str) -> LogWriter | None:
        epoch = self._recorder.epoch
        self._recorder.asked_for(handle)
        try:
            writer = await self._perhaps(self._opened())
        except CutShortError:
            return None  # the takeover may have happened
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

    async def _opened(self) -> LogWriter:
        chance, given_up = self._chance, self._giving_up.given_up()
        if not self._plan.polite or chance.random() >= self._plan.polite:
            return await self._client.open_writer(self._log, create=True, given_up=given_up)
        return await self._client.open_writer(
            self._log,
            create=True,
            given_up=given_up,
            wait_for_current_owner=chance.choice((0.0, 1.0, 10.0)),
            hand_over=chance.random() < 0.7,
            on_takeover_lost=chance.choice(tuple(OnTakeoverLost)),
        )

    async def _perhaps(self, work: Coroutine[Any, Any, T]) -> T:
        """CutShortError: in a run with cancellers some of a writer's calls are cancelled."""
        return await (cut_short(work, self._chance, share=0.2) if self._plan.cancellers else work)

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
                with suppress(CutShortError):
                    await self._perhaps(writer.close())
                await writer.close()
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            self.wrong.append(f"c17_progress: {handle} could not settle its appends within {CLOSE_S_MAX} s")

    def _ways(self) -> list[Any]:
        """Each term has its habits."""
        all_ways = [self._append, self._append, self._append_many, self._submit, self._cancel, self._rotate]
        if self._plan.more_ways:
            all_ways += [self._append_at_tail, self._submit_now, self._burst]
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

    def _content(self) -> Content:
        """A message unlike all others."""
        size = self._chance.choice((0, 10, self._plan.payload_bytes_max))
        if self._plan.huge_bytes and self._chance.random() < _HUGE:
            size = self._plan.huge_bytes
        name = b"%s:%d:" % (self._name.encode(), self._recorder.new_payload())
        kind = self._chance.random() if self._plan.keys else 1.0
        if kind < 0.15:
            return Content(None, name)
        if kind < 0.3:
            return Content(name + b"." * size, b"")
        if kind < 0.5:
            return Content(name + b"." * size, b"key", ((b"a", b"1"), (b"a", b""), (b"", name)))
        return Content(name + b"." * size)

    async def _append(self, writer: LogWriter, handle: str) -> None:
        content = self._content()
        payload = content.recorded
        number = self._recorder.invoke(handle, payload)
        outcome, message_id = await outcome_of(writer.append(*content))
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

    async def _append_at_tail(self, writer: LogWriter, handle: str) -> None:
        """Only behind the message that was acknowledged last, which others in flight may no longer leave the last."""
        expected, content = self._recorder.last_acked, self._content()
        number = self._recorder.invoke(handle, content.recorded)
        self._recorder.expected[content.recorded] = expected
        outcome, message_id = await outcome_of(writer.append(*content, expect_tail=expected))
        self._recorder.end(handle, number, outcome, message_id)

    async def _submit(self, writer: LogWriter, handle: str) -> None:
        content = self._content()
        number = self._recorder.invoke(handle, content.recorded)
        outcome, message_id = await outcome_of(_submitted(writer, content))
        self._recorder.end(handle, number, outcome, message_id)

    async def _submit_now(self, writer: LogWriter, handle: str) -> None:
        content = self._content()
        number = self._recorder.invoke(handle, content.recorded)
        outcome, message_id = await outcome_of(_submitted_now(writer, content))
        self._recorder.end(handle, number, outcome, message_id)

    async def _append_many(self, writer: LogWriter, handle: str) -> None:
        contents = [self._content() for _ in range(self._chance.randint(1, 5))]
        numbers = self._recorder.invoke_many(handle, [content.recorded for content in contents])
        outcome, first = await outcome_of(_first_of_many(writer, contents))
        for index, number in enumerate(numbers):
            place = None if first is None else first._replace(batch_index=first.batch_index + index)
            self._recorder.end(handle, number, outcome, place)

    async def _cancel(self, writer: LogWriter, handle: str) -> None:
        content = self._content()
        number = self._recorder.invoke(handle, content.recorded)
        patience_s = self._chance.choice((0.0, 0.001, 0.02, 1.0)) * self._chance.random()
        try:
            async with asyncio.timeout(patience_s):
                outcome, message_id = await outcome_of(_submitted(writer, content))
        except TimeoutError:
            outcome, message_id = Outcome.CANCELLED, None
        self._recorder.end(handle, number, outcome, message_id)

    async def _burst(self, writer: LogWriter, handle: str) -> None:
        """More than the buffer may hold."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._chance.choice((3, 10, 40))):
                group.create_task(self._chance.choice((self._submit, self._submit_now))(writer, handle))

    async def _rotate(self, writer: LogWriter, handle: str) -> None:
        if self._chance.random() < 0.9:
            await self._append(writer, handle)
            return
        try:
            await self._perhaps(writer.rotate())
        except (LogStoreError, CutShortError):
            return  # the old ledger stays in use


async def _submitted(writer: LogWriter, content: Content) -> MessageId:
    return await (await writer.submit(*content))


async def _submitted_now(writer: LogWriter, content: Content) -> MessageId:
    return await writer.submit_nowait(*content)


async def _first_of_many(writer: LogWriter, contents: list[Content]) -> MessageId:
    if not any(content.key is not None or content.headers for content in contents):
        return (await writer.append_many([content.payload for content in contents]))[0]
    ids = await writer.append_many(
        [content.payload for content in contents],
        keys=[content.key for content in contents],
        headers=[content.headers for content in contents],
    )
    return ids[0]


async def outcome_of(append: Coroutine[Any, Any, MessageId]) -> tuple[Outcome, MessageId | None]:
    """How it ended, and where it is or would be."""
    try:
        return Outcome.ACKED, await append
    except AppendIndeterminateError as error:
        return Outcome.INDETERMINATE, error.message_id
    except (ConfigurationError, UnavailableError, OwnershipLostError):
        return Outcome.REJECTED, None
