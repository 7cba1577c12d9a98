"""The beginnings of many closed ledgers: metadata in one look, then one request for each, all sent together.

This only saves time. Whatever is missing, damaged, slow or not closed is left out, and the caller reads it with a
`ReadHandle`, which asks further replicas and finds out what is wrong. Nothing here can be out of date: a closed ledger
stays as it is, and an entry that its digest proves is right wherever it was.

Protocol: docs/bookkeeper.md#reads, #batch-reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.client_context import ClientContext
from ledger.config import WireProtocol
from ledger.core.distribution import write_set
from ledger.errors import BookieUnavailableError, DigestMismatchError, LogStoreError, ProtocolError
from ledger.model import BookieId, EntryId, LedgerId, LedgerMetadata, QuorumSizes, Versioned
from ledger.reading.bookie_reads import Entry, ask_first, first_entries
from ledger.tasks import start_task
from ledger.transport.entry_connection import ReadAnswer
from ledger.transport.v2_connection import V2Connection
from ledger.wire.digest import make_digester


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first entries of a closed ledger, from entry 0 on."""

    ledger_id: LedgerId
    metadata: Versioned[LedgerMetadata]
    entries: tuple[Entry, ...]

    @property
    def last_entry(self) -> EntryId:
        """The last entry of the ledger."""
        return self.metadata.value.last_entry

    @property
    def is_whole(self) -> bool:
        """Whether these are all entries of the ledger."""
        return self.entries[-1].entry_id == self.last_entry


@dataclass(frozen=True, slots=True)
class _Asked:
    metadata: Versioned[LedgerMetadata]
    bookie_id: BookieId
    entries_max: int
    answer: asyncio.Future[ReadAnswer]


class ClosedLedgers:
    """Call `ask` for ledgers that will be wanted, `take` for each of them, and `close` in any case."""

    def __init__(self, context: ClientContext, password: bytes, *, entries_max: int, bytes_max: int) -> None:
        """`entries_max`, `bytes_max`: of one ledger; one entry may have more bytes."""
        self._context = context
        self._password = password
        self._entries_max = entries_max
        self._bytes_max = min(bytes_max, context.config.frame_bytes_max)
        self._asked: dict[LedgerId, _Asked] = {}
        self._asking: dict[LedgerId, asyncio.Task[None]] = {}
        """Of ledgers that are still wanted and that no request was sent for yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._avoided: dict[BookieId, float] = {}
        """Slow bookies, and until when, in loop time, others are asked instead."""
        self._loop = asyncio.get_running_loop()

    def ask(self, ledger_ids: Sequence[LedgerId]) -> None:
        """Begin to read them, in the background."""
        if self._context.config.wire is not WireProtocol.V2:
            return  # version 3 has no batch read
        task = start_task(self._ask(tuple(ledger_ids)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._asking.update(dict.fromkeys(ledger_ids, task))

    async def take(self, ledger_id: LedgerId) -> Beginning | None:
        """What was asked for of this ledger, once; None if it was not, or has not come soon enough."""
        task = self._asking.get(ledger_id)
        if task is not None:
            await asyncio.wait((task,), timeout=self._context.config.speculative_read_s)
            self._asking.pop(ledger_id, None)  # an answer from now on would stay until the end
        asked = self._asked.pop(ledger_id, None)
        if asked is None:
            return None
        metadata = asked.metadata.value
        try:
            answer = await self._answer(asked)
            digester = make_digester(metadata.digest_type, metadata.password)
            entries = first_entries(answer, ledger_id, asked.entries_max, digester)
        except (TimeoutError, BookieUnavailableError, DigestMismatchError, ProtocolError):
            return None
        return Beginning(ledger_id, asked.metadata, entries) if entries else None

    async def _answer(self, asked: _Asked) -> ReadAnswer:
        if asked.answer.done():
            return asked.answer.result()
        if asked.bookie_id in self._avoided:
            raise TimeoutError
        try:
            async with asyncio.timeout(self._context.config.speculative_read_s):
                return await asked.answer
        except TimeoutError:
            self._avoided[asked.bookie_id] = self._loop.time() + self._context.config.read_timeout_s
            raise

    def drop(self, ledger_id: LedgerId) -> None:
        """It is no longer wanted."""
        self._asking.pop(ledger_id, None)
        self._asked.pop(ledger_id, None)

    def close(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()
        self._asking.clear()
        self._asked.clear()

    # ---- in the background

    async def _ask(self, ledger_ids: tuple[LedgerId, ...]) -> None:
        try:
            await self._send_all(ledger_ids)
        except LogStoreError:
            return  # a handle on the ledger will say what is wrong
        finally:
            for ledger_id in ledger_ids:
                self._asking.pop(ledger_id, None)

    async def _send_all(self, ledger_ids: tuple[LedgerId, ...]) -> None:
        found = await self._context.store.glance_at_ledgers(ledger_ids)
        self._avoided = {each: until for each, until in self._avoided.items() if until > self._loop.time()}
        replicas: dict[tuple[tuple[BookieId, ...], QuorumSizes], list[BookieId]] = {}
        by_bookie: dict[BookieId, list[LedgerId]] = {}
        for ledger_id in ledger_ids:
            metadata = found.get(ledger_id)
            if metadata is not None and self._is_readable(metadata.value):
                where = metadata.value.fragments[0].ensemble, metadata.value.quorum
                if where not in replicas:
                    replicas[where] = self._replicas(*where)
                usual = replicas[where]
                by_bookie.setdefault(usual[ledger_id % len(usual)], []).append(ledger_id)
        for bookie_id, wanted in by_bookie.items():
            connection = self._context.pool.entries_now(bookie_id)
            if connection is None:
                connection = await self._context.pool.entries(bookie_id)
            assert isinstance(connection, V2Connection)
            if connection.lost is None:
                for ledger_id in wanted:
                    if ledger_id in self._asking:
                        self._asked[ledger_id] = self._send(connection, ledger_id, found[ledger_id])

    def _is_readable(self, metadata: LedgerMetadata) -> bool:
        return metadata.closed and metadata.last_entry >= 0 and metadata.password == self._password

    def _replicas(self, ensemble: tuple[BookieId, ...], quorum: QuorumSizes) -> list[BookieId]:
        """Those that hold entry 0; only those that are not slow, and connected, if there are any."""
        replicas = [ensemble[position] for position in write_set(0, quorum)]
        usual = [each for each in replicas if each not in self._avoided] or replicas
        return [each for each in usual if self._context.pool.entries_now(each)] or usual

    def _send(
        self, connection: V2Connection, ledger_id: LedgerId, metadata: Versioned[LedgerMetadata]
    ) -> _Asked:
        quorum, fragments = metadata.value.quorum, metadata.value.fragments
        end = fragments[1].first_entry if len(fragments) > 1 else metadata.value.last_entry + 1
        count = min(end, self._entries_max) if quorum.ensemble == quorum.write else 1
        timeout_s = self._context.config.read_timeout_s
        answer = ask_first(connection, ledger_id, count, self._bytes_max, timeout_s)
        return _Asked(metadata, connection.bookie_id, count, answer)
