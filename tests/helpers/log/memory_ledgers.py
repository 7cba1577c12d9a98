"""Ledgers in memory behind the reader's view of the ledger client, so that a test decides when each one moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from dlog.config import LogConfig
from dlog.format.entry import Codec, ProducerMark, encode_entry
from dlog.format.message import Columns, Flat
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, LogName, LogState, MessageId, SealFacts
from dlog.read.config import ReaderConfig
from dlog.read.range import ReadRange
from dlog.read.reader import Reader
from dlog.read.slow_polls import SlowPolls
from dlog.read_ahead_budget import ReadAheadBudget
from ledger.client import LedgerClient
from ledger.environment import SystemEnvironment
from ledger.errors import EntryNotFoundError, LedgerNotFoundError
from ledger.metadata.drivers import open_store
from ledger.model import EntryId, LedgerId
from ledger.reading.bookie_reads import Entry
from ledger.reading.shared_ledgers import Open, SharedLedgers

ORDERS = LogName(namespace="default", name="orders")


def entry_of(
    *payloads: bytes | None,
    keys: list[bytes | None] | None = None,
    codec: Codec = Codec.NONE,
    messages_before: int | None = None,
    producer: ProducerMark | None = None,
) -> bytes:
    headers: list[Flat] = [()] * len(payloads)
    columns = Columns(keys or [None] * len(payloads), list(payloads), headers)
    return b"".join(
        encode_entry(
            columns,
            epoch=1,
            append_time_us=1000,
            codec=codec,
            messages_before=messages_before,
            producer=producer,
        )
    )


@dataclass
class MemoryLedger:
    """Entries above `lac` are stored and not confirmed; None is an entry that was lost."""

    entries: list[bytes | None] = field(default_factory=list)
    lac: int = -1
    shown: list[int] = field(default_factory=list)
    """What the next reads of the LAC see of it, when bookies are asked that lag."""
    sealed: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, *payloads: bytes | None) -> None:
        self.entries.append(entry_of(*payloads))
        self.confirm()

    def confirm(self) -> None:
        self.lac = len(self.entries) - 1
        self.moved.set()

    def seal(self) -> None:
        self.sealed = True
        self.moved.set()


class MemoryHandle:
    def __init__(self, ledger_id: int, ledgers: MemoryLedgers) -> None:
        self.ledger_id = ledger_id
        self._ledgers = ledgers
        self._lac = -1
        self._look()

    def _look(self) -> None:
        ledger = self._ledgers.find(self.ledger_id)
        self.closed = ledger.sealed
        self._read_lac(ledger)

    def _read_lac(self, ledger: MemoryLedger) -> None:
        shown = ledger.shown.pop(0) if ledger.shown and not ledger.sealed else ledger.lac
        self._lac = max(shown, self._lac)

    @property
    def last_readable(self) -> int:
        return self._ledgers.find(self.ledger_id).lac if self.closed else self._lac

    def confirm(self, entry_id: int) -> None:
        self._lac = max(self._lac, entry_id)

    async def read_batch(self, first: int, *, max_entries: int, max_bytes: int) -> list[Entry]:
        self._ledgers.reads += 1
        await self._ledgers.interfere("read")
        assert first <= self.last_readable, "a reader never goes past what is readable"
        found: list[Entry] = []
        for entry_id in range(first, min(first + max_entries, self.last_readable + 1)):
            payload = self._ledgers.find(self.ledger_id).entries[entry_id]
            if payload is None:
                break
            if found and sum(len(entry.payload) for entry in found) + len(payload) > max_bytes:
                break
            found.append(Entry(EntryId(entry_id), entry_id - 1, 0, memoryview(payload)))
        if not found:
            raise EntryNotFoundError(f"entry {first} is lost", ledger_id=self.ledger_id, entry_id=first)
        return found

    async def read(self, first: int, last: int) -> list[Entry]:
        return await self.read_batch(first, max_entries=last - first + 1, max_bytes=1 << 30)

    async def wait_for_lac(self, beyond: int, timeout_s: float) -> int:
        moved = self._ledgers.find(self.ledger_id).moved
        moved.clear()
        self._look()
        if self.last_readable <= beyond and not self.closed:
            try:
                async with asyncio.timeout(timeout_s):
                    await moved.wait()
            except TimeoutError:
                pass
            self._look()
        return self.last_readable

    async def refresh(self) -> int:
        self._look()
        return self.last_readable

    async def read_lac(self) -> int:
        await self._ledgers.interfere("read_lac")
        if not self.closed:
            self._read_lac(self._ledgers.find(self.ledger_id))
        return self.last_readable

    async def close(self) -> None:
        self._ledgers.open_handles -= 1


class MemoryLedgers:
    def __init__(self) -> None:
        self.environment = SystemEnvironment()
        self.shared = SharedLedgers(cast(Open, self.open))
        self.ledgers: dict[int, MemoryLedger] = {}
        self.failures: list[Exception] = []
        self.failures_of: dict[int, Exception] = {}
        """What each opening of the ledger raises."""
        self.opened: list[int] = []
        self.open_handles = 0
        self.reads = 0

    def check_loop(self) -> None:
        """They wait for nothing, so they belong to no loop."""

    def find(self, ledger_id: int) -> MemoryLedger:
        if ledger_id not in self.ledgers:
            raise LedgerNotFoundError(f"ledger {ledger_id} does not exist", ledger_id=ledger_id)
        return self.ledgers[ledger_id]

    async def interfere(self, _what: str) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def closed_ledgers(self, password: bytes = b"", *, entries_max: int, bytes_max: int) -> NothingAhead:
        return NothingAhead()

    async def open(self, ledger_id: int, password: bytes = b"", *, fresh: bool = True) -> MemoryHandle:
        await self.interfere("open")
        if ledger_id in self.failures_of:
            raise self.failures_of[ledger_id]
        handle = MemoryHandle(ledger_id, self)
        self.opened.append(ledger_id)
        self.open_handles += 1
        return handle


class NothingAhead:
    """Ledgers of which nothing is read ahead."""

    def ask(self, ledger_ids: Sequence[int]) -> None:
        """Each is opened when its turn comes."""

    async def take(self, ledger_id: int) -> None:
        return None

    def drop(self, ledger_id: int) -> None:
        """There is nothing."""

    def close(self) -> None:
        """There is nothing."""


class MemoryLog:
    """A log whose record and ledgers a test changes by hand."""

    def __init__(self, logs: LogMetadataStore, ref: LogRef) -> None:
        self.logs = logs
        self.ref = ref
        self.ledgers = MemoryLedgers()
        self.nonce = 0
        self.read_ahead = ReadAheadBudget(LogConfig().read_ahead_bytes_max)
        """Of all readers."""

    @classmethod
    async def create(cls, name: str) -> MemoryLog:
        store = await open_store(f"memory:{name}")
        await store.init_cluster()
        logs = LogMetadataStore(store, SystemEnvironment())
        return cls(logs, await logs.create(ORDERS))

    def add_ledger(self, ledger_id: int, *entries: tuple[bytes, ...], sealed: bool = False) -> MemoryLedger:
        ledger = self.ledgers.ledgers[ledger_id] = MemoryLedger()
        for payloads in entries:
            ledger.append(*payloads)
        ledger.sealed = sealed
        return ledger

    async def record(
        self,
        *ledger_ids: int,
        seals: dict[int, int] | None = None,
        trim_before: MessageId = EARLIEST_ID,
        state: LogState = LogState.ACTIVE,
    ) -> None:
        found = await self.logs.read(self.ref)
        self.nonce += 1
        seal_facts = {
            ledger_id: SealFacts(last_entry=last, message_count=-1, byte_count=0)
            for ledger_id, last in (seals or {}).items()
        }
        record = LogMetadata(
            log_uuid=self.ref.log_uuid,
            instance_id=found.value.instance_id,
            ledgers=tuple(
                ListedLedger(
                    ledger_id=LedgerId(ledger_id), epoch=1, created_us=0, seal=seal_facts.get(ledger_id)
                )
                for ledger_id in ledger_ids
            ),
            last_ledger_id=max([found.value.last_ledger_id, *ledger_ids]),
            trim_before=trim_before,
            trimmed_end=trim_before,
            state=state,
            nonce=self.nonce,
        )
        await self.logs.compare_and_set(self.ref, record, found.version)

    def reader(
        self, wanted: ReadRange | None = None, *, config: ReaderConfig | None = None, **policies: str
    ) -> Reader:
        return Reader(
            self.logs,
            cast(LedgerClient, self.ledgers),
            ORDERS,
            wanted or ReadRange(),
            SlowPolls(self.ledgers.environment.rng),
            self.read_ahead,
            config=config or ReaderConfig(),
            **policies,
        )


async def poll(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110  # any condition, not an event
            await asyncio.sleep(0.001)
