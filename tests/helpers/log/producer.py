"""What the log tests share: clients with short patience, a producer that remembers, a reader that reads it all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from dlog.client import LogClient, connect
from dlog.config import LogConfig
from dlog.errors import AppendIndeterminateError
from dlog.model import Message, MessageId
from dlog.write.writer import LogWriter
from ledger.config import LedgerClientConfig
from ledger.errors import LogStoreError
from tests.helpers.processes.python import Child

QUICK = LogConfig(
    ledger=LedgerClientConfig(
        add_timeout_s=2.0, quorum_timeout_s=2.0, replace_backoff_s=0.1, connect_timeout_s=1.0
    ),
    candidate_wait_s=0.2,
    late_success_s=0.5,
)
"""Failures are noticed within two seconds."""


@asynccontextmanager
async def client_of(uri: str, config: LogConfig = QUICK, **changes: object) -> AsyncIterator[LogClient]:
    client = await connect(uri, config=replace(config, **changes))  # type: ignore[arg-type]  # of the test
    try:
        yield client
    finally:
        for writer in list(client.writers):
            writer.abort()
        await client.close()


async def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Return once the condition holds; TimeoutError if it does not within the time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


async def kill(bookie: Child) -> None:
    """As kill -9 does it, and wait until the process is gone."""
    bookie.kill()
    await bookie.stop()


async def read_all(client: LogClient, log: str) -> list[Message]:
    async with client.reader(log, until="latest") as reader:
        messages = [message async for message in reader]
    ids = [message.id for message in messages]
    assert ids == sorted(set(ids)), "ids rise and repeat nowhere"
    return messages


class Producer:
    """Appends its name and a rising number, keeping some appends in flight, and remembers every outcome."""

    def __init__(self, writer: LogWriter, name: str, *, window: int = 50) -> None:
        self.writer = writer
        self.name = name
        self.sent = 0
        self.acked: dict[int, MessageId] = {}
        self.indeterminate: dict[int, MessageId] = {}
        self.absent: dict[int, LogStoreError] = {}
        self.ended: LogStoreError | None = None
        self._window = asyncio.Semaphore(window)
        self._stopping = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def payload(self, number: int) -> bytes:
        return f"{self.name}-{number}".encode()

    async def _run(self) -> None:
        while not self._stopping:
            await self._window.acquire()
            number = self.sent
            try:
                future = await self.writer.submit(self.payload(number))
            except LogStoreError as error:
                self.ended = error
                return
            self.sent += 1
            future.add_done_callback(lambda done, number=number: self._settle(number, done))

    def _settle(self, number: int, done: asyncio.Future[MessageId]) -> None:
        self._window.release()
        error = done.exception()
        if error is None:
            self.acked[number] = done.result()
        elif isinstance(error, AppendIndeterminateError):
            self.indeterminate[number] = error.message_id
        else:
            assert isinstance(error, LogStoreError), error
            self.absent[number] = error

    @property
    def settled(self) -> int:
        return len(self.acked) + len(self.indeterminate) + len(self.absent)

    async def reached(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until so many appends are acked."""
        await until(lambda: len(self.acked) >= count or self.ended is not None, timeout_s)
        assert self.ended is None, self.ended

    async def more(self, count: int, timeout_s: float = 30.0) -> None:
        await self.reached(len(self.acked) + count, timeout_s)

    async def stop(self, timeout_s: float = 30.0) -> None:
        """Send no more and wait until every append is settled."""
        self._stopping = True
        self._window.release()
        async with asyncio.timeout(timeout_s):
            await self._task
        await until(lambda: self.settled == self.sent, timeout_s)

    async def died(self, timeout_s: float = 30.0) -> LogStoreError:
        """Wait until the writer refuses, and every append is settled."""
        async with asyncio.timeout(timeout_s):
            await self._task
        await until(lambda: self.settled == self.sent, timeout_s)
        assert self.ended is not None
        return self.ended

    def check(self, messages: list[Message]) -> None:
        """Acked: there, at its id. Absent: not there. Indeterminate: at its would-be id or nowhere.

        Source: docs/log-semantics.md#i4 to #i6.
        """
        mine = f"{self.name}-".encode()
        found: dict[bytes, MessageId] = {}
        for message in messages:
            assert message.payload is not None
            if message.payload.startswith(mine):
                assert message.payload not in found, f"{message.payload!r} is there twice"
                found[message.payload] = message.id
        for number, message_id in self.acked.items():
            assert found.get(self.payload(number)) == message_id, f"{self.payload(number)!r} was acked"
        for number in self.absent:
            assert self.payload(number) not in found
        for number, message_id in self.indeterminate.items():
            assert found.get(self.payload(number), message_id) == message_id
        numbers = [int(payload.rpartition(b"-")[2]) for payload in found]
        assert numbers == sorted(numbers), "order of submission is order of ids"
