"""The two clients with one face, so that a scenario is told once and played with the roles swapped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from ledger.client import LedgerClient
from ledger.errors import LedgerFencedError, LedgerNotFoundError
from ledger.metadata.store import MetadataStore, Unwatch, Watch
from ledger.model import BookieSet, DigestType, LedgerId, QuorumSizes
from ledger.reading.read_handle import ReadHandle
from ledger.writing.write_handle import WriteHandle
from tests.helpers.apache.java_client import JavaClient, JavaError, JavaLedger, shown
from tests.helpers.ledger.appender import payload_of

PASSWORD = b"secret"
QUORUM = QuorumSizes(ensemble=3, write=3, ack=2)
_LOST = (-101, -11, -17)
"""LedgerFenced, told by a bookie; LedgerClosed, met in the metadata while a bookie was replaced; and
MetadataVersion, when a close finds that another client has closed the ledger at another entry."""
_NO_LEDGER = (-7, -25)


class Fenced(Exception):
    """The client's own error for a writer that has lost its ledger."""


class Missing(Exception):
    """The client's own error for a ledger that does not exist."""


class Writer(Protocol):
    ledger_id: int
    ensemble: tuple[str, ...]

    async def add(self, payload: bytes) -> int:
        """The entry's id; Fenced."""

    async def add_many(self, count: int) -> int:
        """So many entries at once, each with the payload that its id tells; the last one's id. Fenced."""

    async def close(self) -> None:
        """Fenced, if another client has closed the ledger elsewhere or is about to."""


class Reader(Protocol):
    lac: int
    """Up to where the open found it readable."""

    async def read_all(self) -> list[str]:
        """Payloads up to the LAC known now, as `shown` describes them."""

    async def read_some(self, first: int, entries: int, size: int) -> list[str]:
        """One batch read from `first`: at most so many entries and bytes."""

    async def wait_beyond(self, lac: int, timeout_s: float) -> int:
        """A LAC above `lac`, as soon as this client hears of it; TimeoutError."""


class Side(Protocol):
    name: str

    async def create(
        self, digest: str, custom: dict[str, bytes] | None = None, quorum: QuorumSizes = QUORUM
    ) -> Writer: ...

    async def open(self, ledger_id: int, digest: str, *, recover: bool) -> Reader:
        """Missing."""

    async def delete(self, ledger_id: int) -> None: ...

    async def rewrite_metadata(self, ledger_id: int) -> None:
        """Read, decode, encode and write it with nothing changed."""


# ---- ours


class AllowedStore:
    """The metadata store with some of its bookies hidden, so that ledgers lie where the test wants them."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._allowed: frozenset[str] = frozenset()
        self._watches: list[Watch] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def allow(self, bookie_ids: Iterable[str]) -> None:
        """Show these from now on; whoever watches is told."""
        self._allowed = frozenset(bookie_ids)
        for watch in self._watches:
            watch()

    def watch_bookies(self, watch: Watch) -> Unwatch:
        self._watches.append(watch)
        return self._store.watch_bookies(watch)

    async def bookies(self) -> BookieSet:
        found = await self._store.bookies()
        writable = tuple(info for info in found.writable if info.bookie_id in self._allowed)
        return BookieSet(writable=writable, read_only=found.read_only)


class OurWriter:
    def __init__(self, handle: WriteHandle) -> None:
        self._handle = handle
        self.ledger_id: int = handle.ledger_id
        self.ensemble: tuple[str, ...] = handle.metadata.last_fragment.ensemble

    async def add(self, payload: bytes) -> int:
        try:
            return await self._handle.add(payload)
        except LedgerFencedError as error:
            raise Fenced from error

    async def add_many(self, count: int) -> int:
        try:
            for entry_id in range(self._handle.last_add_pushed + 1, self._handle.last_add_pushed + 1 + count):
                self._handle.submit(payload_of(entry_id))
            await self._handle.drain()
        except LedgerFencedError as error:
            raise Fenced from error
        return self._handle.last_add_pushed

    async def close(self) -> None:
        try:
            await self._handle.close()
        except LedgerFencedError as error:
            raise Fenced from error


class OurReader:
    def __init__(self, handle: ReadHandle) -> None:
        self._handle = handle
        self.lac: int = handle.last_readable

    async def read_all(self) -> list[str]:
        last = self._handle.last_readable
        entries = await self._handle.read(0, last) if last >= 0 else []
        return [shown(bytes(entry.payload)) for entry in entries]

    async def read_some(self, first: int, entries: int, size: int) -> list[str]:
        found = await self._handle.read_batch(first, max_entries=entries, max_bytes=size)
        return [shown(bytes(entry.payload)) for entry in found]

    async def wait_beyond(self, lac: int, timeout_s: float) -> int:
        async with asyncio.timeout(timeout_s):
            while (found := await self._handle.wait_for_lac(lac, timeout_s)) <= lac:
                pass
        return found


class OurSide:
    name = "ours"

    def __init__(self, client: LedgerClient) -> None:
        self.client = client

    async def create(
        self, digest: str, custom: dict[str, bytes] | None = None, quorum: QuorumSizes = QUORUM
    ) -> OurWriter:
        handle = await self.client.create(
            quorum,
            digest_type=DigestType[digest],
            password=PASSWORD,
            custom=tuple(sorted((custom or {}).items())),
        )
        return OurWriter(handle)

    async def open(self, ledger_id: int, digest: str, *, recover: bool) -> OurReader:
        opening = self.client.open_with_recovery if recover else self.client.open
        try:
            return OurReader(await opening(LedgerId(ledger_id), PASSWORD))
        except LedgerNotFoundError as error:
            raise Missing from error

    async def delete(self, ledger_id: int) -> None:
        await self.client.delete(LedgerId(ledger_id))

    async def rewrite_metadata(self, ledger_id: int) -> None:
        found = await self.client.store.read_ledger(LedgerId(ledger_id))
        await self.client.store.write_ledger(LedgerId(ledger_id), found.value, found.version)


# ---- Java's


class JavaWriter:
    def __init__(self, ledger: JavaLedger) -> None:
        self._ledger = ledger
        self.ledger_id = ledger.ledger_id
        self.ensemble = ledger.ensemble

    async def add(self, payload: bytes) -> int:
        try:
            return await self._ledger.add(payload)
        except JavaError as error:
            raise _typed(error) from error

    async def add_many(self, count: int) -> int:
        try:
            return await self._ledger.add_many(count)
        except JavaError as error:
            raise _typed(error) from error

    async def close(self) -> None:
        try:
            await self._ledger.close()
        except JavaError as error:
            raise _typed(error) from error


class JavaReader:
    def __init__(self, ledger: JavaLedger, *, version_2: bool) -> None:
        self._ledger = ledger
        self._version_2 = version_2
        self.lac = ledger.lac

    async def read_all(self) -> list[str]:
        return await self._ledger.read_all()

    async def read_some(self, first: int, entries: int, size: int) -> list[str]:
        return await self._ledger.batch_read(first, entries, size)

    async def wait_beyond(self, lac: int, timeout_s: float) -> int:
        timeout_ms = int(timeout_s * 1000)
        async with asyncio.timeout(timeout_s):
            while True:
                found = int((await self._ledger.call("poll", lac + 1, timeout_ms))[0])
                if found <= lac and self._version_2:
                    # No long poll there: the call reads the last entry, returns at once, and learns no LAC from it.
                    found = int((await self._ledger.call("read-lac"))[0])
                if found > lac:
                    return found


class JavaSide:
    name = "java"

    def __init__(self, client: JavaClient) -> None:
        self.client = client

    async def create(
        self, digest: str, custom: dict[str, bytes] | None = None, quorum: QuorumSizes = QUORUM
    ) -> JavaWriter:
        sizes = (quorum.ensemble, quorum.write, quorum.ack)
        return JavaWriter(await self.client.create(*sizes, digest, PASSWORD, custom))

    async def open(self, ledger_id: int, digest: str, *, recover: bool) -> JavaReader:
        try:
            ledger = await self.client.open(ledger_id, digest, PASSWORD, recover=recover)
        except JavaError as error:
            raise _typed(error) from error
        return JavaReader(ledger, version_2=self.client.name == "v2")

    async def delete(self, ledger_id: int) -> None:
        await self.client.delete(ledger_id)

    async def rewrite_metadata(self, ledger_id: int) -> None:
        await self.client.rewrite_metadata(ledger_id)


def _typed(error: JavaError) -> Exception:
    if error.code in _LOST:
        return Fenced(str(error))
    return Missing(str(error)) if error.code in _NO_LEDGER else error
