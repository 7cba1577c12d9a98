"""What the ledger tests share: a client on a running cluster, and writers that remember what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ledger.client import LedgerClient
from ledger.config import LedgerClientConfig
from ledger.errors import LogStoreError
from ledger.metadata.drivers import open_store
from ledger.model import EntryId, LedgerId
from ledger.writing.write_handle import WriteHandle


@asynccontextmanager
async def client_of(uri: str, **settings: object) -> AsyncIterator[LedgerClient]:
    store = await open_store(uri)
    client = LedgerClient(store, config=LedgerClientConfig(**settings))  # type: ignore[arg-type]
    try:
        await client.start()
        yield client
    finally:
        await client.close()
        await store.close()


async def until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    """Return once the condition holds; TimeoutError if it does not within the time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


def payload_of(entry_id: int) -> bytes:
    """Bytes that tell which entry they belong to, of varying length."""
    return b"%d:" % entry_id * (1 + entry_id % 7)


async def read_all(client: LedgerClient, ledger_id: LedgerId) -> list[bytes]:
    handle = await client.open(ledger_id)
    entries = await handle.read(0, handle.last_readable) if handle.last_readable >= 0 else []
    await handle.close()
    assert [entry.entry_id for entry in entries] == list(range(len(entries)))
    return [bytes(entry.payload) for entry in entries]


class Appender:
    """Appends payload_of(0), payload_of(1), … one after another until stopped or refused."""

    def __init__(self, handle: WriteHandle) -> None:
        self.handle = handle
        self.acked = EntryId(-1)
        self.error: LogStoreError | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                entry_id = await self.handle.add(payload_of(self.acked + 1))
                assert entry_id == self.acked + 1
                self.acked = entry_id
        except LogStoreError as error:
            self.error = error

    async def reached(self, entry_id: int, timeout_s: float = 20.0) -> None:
        await until(lambda: self.acked >= entry_id or self.error is not None, timeout_s)
        assert self.error is None, self.error

    async def refused(self, timeout_s: float = 20.0) -> LogStoreError:
        """Wait until an append fails."""
        async with asyncio.timeout(timeout_s):
            await asyncio.wait([self._task])
        assert self.error is not None
        return self.error

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
