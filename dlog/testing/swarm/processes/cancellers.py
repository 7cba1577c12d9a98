"""Cancellers of the swarm: they begin everything that a program may begin, and cancel it at any instant.

Their two logs are under a root of their own. One is only appended to: nothing acknowledged in it is ever missing. The
other one is created, sealed and deleted again and again: whatever was cancelled, the next use works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from dlog.client import LogClient
from dlog.errors import LogExistsError, LogNotFoundError, LogSealedError, ShrinkRefusedError
from dlog.testing.checks.history import Outcome
from dlog.testing.kernel.nodes import NODE
from dlog.testing.kernel.trace import Trace
from dlog.testing.swarm.processes.writers import outcome_of
from dlog.write.writer import LogWriter
from ledger.client import LedgerClient
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError
from ledger.writing.missed_copies import MissedCopies

T = TypeVar("T")
CANCELLER_ROOT = "/canceller"
APPENDED_LOG, REUSED_LOG = "appended", "reused"
_END_S_MAX = 60.0
"""Longer than anything that was cancelled may need to end: it releases what it holds, and waits for no bookie."""
_CANCEL_S = (0.0, 0.002, 0.02, 0.2, 2.0)
_SETTLE_TRIES = 8
"""Seconds in which what was cancelled must have ended: longer than each timeout of a plan."""
_READS_BOOKIES = LedgerClient._refresh_bookies.__qualname__
"""A client has at most one such task."""
_SWEEP_AGE_S = 0.5
_TRY_AGAIN_S = 0.3
_EXPECTED = (
    UnavailableError,
    OutcomeUnknownError,
    OwnershipLostError,
    LogExistsError,
    LogNotFoundError,
    LogSealedError,
    ShrinkRefusedError,
)


class Appended:
    """What cancellers have appended to the first log, over all their lives."""

    def __init__(self) -> None:
        self.acked: list[bytes] = []
        """In the order of the calls."""
        self.absent: set[bytes] = set()
        self._count = 0

    def new_payload(self) -> bytes:
        self._count += 1
        return b"canceller %d" % self._count

    def faults_of(self, found: list[bytes], acked: int) -> list[str]:
        """What is wrong with a read of everything that began when the first `acked` were acknowledged."""
        wrong, expected = [], self.acked[:acked]
        kept = set(expected)
        if [each for each in found if each in kept] != expected:
            missing = [each for each in expected if each not in found]
            wrong.append(f"c1_cancellations_lose_nothing: missing {missing[:5]}, or in another order")
        if len(set(found)) != len(found):
            wrong.append("c4_no_duplicates: a canceller's message was returned twice")
        if found_absent := self.absent.intersection(found):
            wrong.append(f"c2_rejected_is_absent: {sorted(found_absent)[:5]} were rejected, and returned")
        return wrong

    async def wrong_in_the_end(self, client: LogClient) -> list[str]:
        """After one more takeover. UnavailableError, and what a takeover raises."""
        await (await client.open_writer(APPENDED_LOG, create=True)).close()
        return self.faults_of(await _payloads(client, APPENDED_LOG), len(self.acked))


class SwarmCanceller:
    """One process, which does one thing after the other; so no other process changes what it looks at."""

    def __init__(
        self, client: LogClient, appended: Appended, name: str, rng: Random, trace: Trace, *, strict: bool
    ) -> None:
        """`strict`: a reader that opens after an acknowledgement sees the message."""
        self._strict = strict
        self._client = client
        self._appended = appended
        self._name = name
        self._rng = rng
        self._trace = trace
        self.wrong: list[str] = []
        """What must not happen and did."""
        self.loud: list[str] = []
        """Errors that only a fault beyond the contract excuses."""

    async def run(self) -> None:
        works: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (
            self._write,
            self._write,
            self._read,
            self._reuse,
        )
        while True:
            await asyncio.sleep(0.5 * self._rng.random())
            await self._rng.choice(works)()
            if await self._leaks():
                return

    async def _leaks(self) -> bool:
        """Whether anything is left of what was begun. It has no writer and no reader open now."""
        tasks: list[str] = []
        for _ in range(_SETTLE_TRIES):
            pending = NODE.get().pending_tasks()
            tasks = [task.get_name() for task in pending if not self._is_expected(task)]
            if not tasks and not self._client.writers:
                return False
            await asyncio.sleep(1.0)
        self.wrong.append(f"c17_no_leaks: {self._name} left {tasks} running, {self._client.writers} open")
        return True

    def _is_expected(self, task: asyncio.Task[Any]) -> bool:
        """This one; and the client's own, which try again while the store is away.

        They read which bookies are registered, after a change, and mark what bookies missed.
        """
        name = getattr(task.get_coro(), "__qualname__", "")
        marks = name.startswith(f"{MissedCopies.__name__}.")
        return (
            task is asyncio.current_task()
            or name == _READS_BOOKIES
            or (marks and bool(self._client.ledgers.missed_copies.unmarked))
        )

    async def _try(self, what: str, work: Coroutine[Any, Any, T], *, cancels: bool = True) -> T | None:
        """Its result; None if it failed or was cancelled."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._name} {what}")
        try:
            after_s = self._rng.choice(_CANCEL_S) * self._rng.random()
            if cancels and not (await asyncio.wait([task], timeout=after_s))[0]:
                self._trace.note("fault.cancel", self._name, what)
                task.cancel()
                if not (await asyncio.wait([task], timeout=_END_S_MAX))[0]:
                    self.wrong.append(
                        f"c17_progress: {what} did not end within {_END_S_MAX:g} s of its cancellation"
                    )
            await asyncio.wait([task])
        except asyncio.CancelledError:  # this process itself is to end
            task.cancel()
            await asyncio.wait([task])
            raise
        try:
            return None if task.cancelled() else task.result()
        except _EXPECTED:
            return None
        except LogStoreError as error:
            self.loud.append(f"{self._name}: {what}: {error!r}")
            return None

    # ---- the log that is only appended to

    async def _write(self) -> None:
        writer = await self._try("open_writer", _opened(self._client, APPENDED_LOG))
        if writer is None:
            return
        try:
            for _ in range(self._rng.randrange(6)):
                await self._append(writer)
                if self._rng.random() < 0.2:
                    await self._try("rotate", writer.rotate())
                if self._rng.random() < 0.2:
                    await self._try("flush", writer.flush())
            await self._try("writer.close", writer.close())
            await self._try("writer.close again", writer.close(), cancels=False)
        finally:
            writer.abort()
        await asyncio.sleep(0)  # until its client has heard of it

    async def _append(self, writer: LogWriter) -> None:
        payload = self._appended.new_payload()
        ended = await self._try("append", outcome_of(writer.append(payload)))
        match ended:
            case (Outcome.ACKED, _):
                self._appended.acked.append(payload)
            case (Outcome.REJECTED, _):
                self._appended.absent.add(payload)

    async def _read(self) -> None:
        """A reader that was cancelled in a read, or in its close, is closed; the next one reads everything."""
        reader = self._client.reader(APPENDED_LOG)
        for _ in range(self._rng.randrange(4)):
            await self._try("poll", reader.poll(0.5))
        await self._try("reader.close", reader.close())
        await self._try("reader.close again", reader.close(), cancels=False)
        await self._try("describe", self._client.describe(APPENDED_LOG))
        await self._try("list", self._client.list())
        await self._try("sweep", self._client.admin.sweep(age_s=_SWEEP_AGE_S))
        acked = len(self._appended.acked) if self._strict else 0
        found = await self._try("read", _payloads(self._client, APPENDED_LOG))
        if found is not None:
            self.wrong += self._appended.faults_of(found, acked)

    # ---- the log that is created again and again

    async def _reuse(self) -> None:
        for _ in range(self._rng.randint(1, 4)):
            match self._rng.choice(("create", "seal", "delete", "shrink", "collect", "open_writer")):
                case "create":
                    await self._try("create", self._client.create(REUSED_LOG))
                case "seal":
                    await self._try("seal", self._client.seal(REUSED_LOG))
                case "delete":
                    await self._try("delete", self._client.delete(REUSED_LOG))
                case "shrink":
                    await self._try("shrink", _shrunk(self._client, REUSED_LOG))
                case "collect":
                    await self._try("collect", self._client.collect(REUSED_LOG))
                case _:
                    if (
                        writer := await self._try("open_writer", _opened(self._client, REUSED_LOG))
                    ) is not None:
                        writer.abort()
        while True:
            try:
                found = await self._used_again()
                break
            except _EXPECTED:
                await asyncio.sleep(_TRY_AGAIN_S)
        if found != [b"used again"]:
            self.wrong.append(f"c17_progress: {self._name} read {found} from a log that it had created again")

    async def _used_again(self) -> list[bytes]:
        """LogExistsError and the like: a request of before was applied late."""
        with suppress(LogNotFoundError):
            await self._client.delete(REUSED_LOG)
        await self._client.create(REUSED_LOG)
        async with self._client.open_writer(REUSED_LOG) as writer:
            await writer.append(b"used again")
        return await _payloads(self._client, REUSED_LOG)


async def _opened(client: LogClient, log: str) -> LogWriter:
    return await client.open_writer(log, create=True)


async def _shrunk(client: LogClient, log: str) -> None:
    async with client.reader(log, until="latest") as reader:
        seen = [message.id async for message in reader]
    if seen:
        await client.shrink(log, seen[-1])


async def _payloads(client: LogClient, log: str) -> list[bytes]:
    async with client.reader(log, until="latest") as reader:
        return [message.payload or b"" async for message in reader]
