"""Open with recovery: fence the writer, bring every entry that may have been acknowledged to its ack quorum, close.

Steps and reasons: ledger/core/recovery.py. Reads go to the ensembles that metadata named when recovery began, never
to bookies that recovery itself has added.

Protocol: docs/bookkeeper.md#recovery, #recovery-reads, #fencing.
Pitfalls: docs/pitfalls.md#recovery-reads-without-a-fence, #reads-from-replacements.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ledger.client_context import ClientContext
from ledger.core import metadata_changes
from ledger.core.distribution import write_set
from ledger.core.lac import LacCollector
from ledger.core.read import EntryRead, Verdict
from ledger.core.recovery import next_read_ahead
from ledger.errors import BookieUnavailableError, LedgerRecoveryError
from ledger.metadata.update_loop import update_ledger
from ledger.model import NO_ENTRY, BookieId, EntryId, LedgerId, LedgerMetadata, Versioned
from ledger.reading.bookie_reads import BookieAnswer, Entry, fence_read_entry
from ledger.reading.speculative_read import speculative_read
from ledger.refusal import unauthorized
from ledger.wire.digest import make_digester, master_key
from ledger.wire.status import Answer, Status
from ledger.writing.write_back import WriteBack

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Recovery:
    """One recovery of one ledger. `run` may be cancelled at any point; the next recovery repeats it."""

    def __init__(
        self, ledger_id: LedgerId, metadata: Versioned[LedgerMetadata], context: ClientContext
    ) -> None:
        self._ledger_id = ledger_id
        self._local = metadata
        self._context = context
        self._connections = context.pool.for_recovery()
        self._digester = make_digester(metadata.value.digest_type, metadata.value.password)
        self._key = master_key(metadata.value.password)
        self._answering: set[BookieId] = set()
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def run(self) -> Versioned[LedgerMetadata]:
        """Return once metadata says CLOSED, by us or by another client.

        Raises:
            LedgerRecoveryError: too few bookies answer; the ledger stays IN_RECOVERY and may be tried again.
            UnauthorizedError: a bookie refused the password.
            LedgerNotFoundError: the ledger was deleted.
        """
        await self._update(metadata_changes.needs_recovery_mark, metadata_changes.mark_in_recovery)
        if self._local.value.closed:
            return self._local
        try:
            collector = await self._fence()
            await self._go_forward(collector.lac, collector.length)
        finally:
            for task in list(self._tasks):
                task.cancel()
            self._connections.end(f"the recovery of ledger {self._ledger_id} is over")
        return self._local

    async def _update(
        self,
        needs_update: Callable[[LedgerMetadata], bool],
        transform: Callable[[LedgerMetadata], LedgerMetadata],
    ) -> None:
        self._local = await update_ledger(
            self._context.store,
            self._ledger_id,
            self._local,
            needs_update,
            transform,
            self._context.environment,
        )

    # ---- fencing

    async def _fence(self) -> LacCollector:
        """Fence the last ensemble; return as soon as the answers cover every write set."""
        ensemble = self._local.value.last_fragment.ensemble
        collector = LacCollector(self._local.value)
        answers: asyncio.Queue[tuple[int, BookieAnswer]] = asyncio.Queue()
        for position, bookie_id in enumerate(ensemble):
            self._start(self._fence_one(position, bookie_id, answers))
        reasons: list[str] = []
        while not collector.covered:
            if collector.exhausted:
                raise self._recovery_error("too few bookies could be fenced", reasons)
            position, answer = await answers.get()
            self._count_fence(collector, position, answer, reasons)
        return collector

    async def _fence_one(
        self, position: int, bookie_id: BookieId, answers: asyncio.Queue[tuple[int, BookieAnswer]]
    ) -> None:
        answers.put_nowait((position, await self._fencing_read(bookie_id, NO_ENTRY, priority=False)))

    def _count_fence(
        self, collector: LacCollector, position: int, answer: BookieAnswer, reasons: list[str]
    ) -> None:
        bookie_id = self._local.value.last_fragment.ensemble[position]
        if answer.status is Status.EUA:
            raise unauthorized(bookie_id, self._ledger_id)
        if answer.answer is Answer.UNKNOWN:
            collector.on_failure(position)
            reasons.append(str(answer.reason))
            return
        self._answering.add(bookie_id)
        if answer.entries:
            collector.on_answer(position, answer.entries[0].lac, answer.entries[0].length)
        else:
            collector.on_answer(position, NO_ENTRY)

    # ---- going forward

    async def _go_forward(self, lac: EntryId, length: int) -> None:
        metadata = self._local.value
        write_back = WriteBack(self._ledger_id, metadata, lac, self._context, self._connections)
        try:
            last = await self._read_forward(metadata, lac, write_back)
            await write_back.finish()
        finally:
            write_back.close()
        last_entry = lac if last is None else last.entry_id
        if last is None:
            length = await self._length_at(metadata, lac, length)
        else:
            length = last.length
        await self._update(
            metadata_changes.needs_recovery_close,
            lambda found: metadata_changes.closed_by_recovery(found, write_back.changes, last_entry, length),
        )

    async def _length_at(self, metadata: LedgerMetadata, lac: EntryId, claimed: int) -> int:
        """Ledger length up to the LAC, from its entry's header.

        Invariant: that entry decides nothing. It is confirmed, and all above is proved absent, so the ledger ends
        here whether it can be read now or not: if the last fragment is empty, only older bookies have it, and these
        may be gone for good. Then the length is recorded as Apache's client does, as the header that named the LAC
        claims it, 0 if only the fragment's start does. No reader relies on it.
        """
        if lac < 0:
            return 0
        try:
            entry = await self._read(metadata, lac, confirmed=True)
            reason = "all its bookies deny it"
        except LedgerRecoveryError as error:
            entry, reason = None, str(error)
        if entry is not None:
            return entry.length
        _log.warning(
            "ledger %s is closed at entry %s, which was confirmed and cannot be read (%s); its length is recorded as "
            "%s bytes, which may be wrong",
            self._ledger_id,
            lac,
            reason,
            claimed,
        )
        return claimed

    async def _read_forward(
        self, metadata: LedgerMetadata, lac: EntryId, write_back: WriteBack
    ) -> Entry | None:
        """Read and write back until an entry is proved absent; return the last one found."""
        last: Entry | None = None
        next_entry, ahead = lac + 1, next_read_ahead(0, self._context.config.recovery_read_ahead)
        while True:
            reads = [self._start(self._read(metadata, next_entry + offset)) for offset in range(ahead)]
            for read in reads:
                entry = await read
                if entry is None:
                    return last
                if last is None:
                    await write_back.connect()
                write_back.add(entry)
                last = entry
            next_entry += ahead
            ahead = next_read_ahead(ahead, self._context.config.recovery_read_ahead)

    async def _read(
        self, metadata: LedgerMetadata, entry_id: int, *, confirmed: bool = False
    ) -> Entry | None:
        """The entry, or None if it is proved absent.

        Raises:
            LedgerRecoveryError: neither can be shown.
        """
        ensemble = metadata.fragment_of(entry_id).ensemble
        replicas = [ensemble[position] for position in write_set(entry_id, metadata.quorum)]
        # Bookies that answer come first: a hung one must not slow every entry down.
        replicas.sort(key=lambda bookie_id: bookie_id not in self._answering)
        machine = EntryRead(replicas, metadata.quorum, confirmed=confirmed)
        failures: list[BookieAnswer] = []
        found = await speculative_read(
            machine,
            lambda replica: self._recovery_read(replica, entry_id),
            self._context.config.speculative_read_s,
            failures,
        )
        if found is not None:
            return found[1].entries[0]
        if machine.verdict is Verdict.ABSENT:
            return None
        raise self._recovery_error(
            f"entry {entry_id} is neither found nor proved absent",
            [str(failure.reason) for failure in failures],
        )

    async def _recovery_read(self, bookie_id: BookieId, entry_id: int) -> BookieAnswer:
        answered = False
        try:
            answer = await self._fencing_read(bookie_id, entry_id, priority=True)
            answered = answer.answer is not Answer.UNKNOWN
            return answer
        finally:
            if not answered:  # it failed, or was so slow that another was faster: ask it last from now on
                self._answering.discard(bookie_id)

    # ---- help

    async def _fencing_read(self, bookie_id: BookieId, entry_id: int, *, priority: bool) -> BookieAnswer:
        try:
            connection = await self._connections.get(bookie_id)
        except BookieUnavailableError as error:
            return BookieAnswer(Answer.UNKNOWN, reason=error)
        return await fence_read_entry(
            connection,
            self._ledger_id,
            entry_id,
            self._key,
            priority,
            self._digester,
            self._context.config.read_timeout_s,
        )

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if not task.cancelled():
            task.exception()  # reads beyond the end may fail unheard: nobody depends on them

    def _recovery_error(self, what: str, reasons: list[str]) -> LedgerRecoveryError:
        details = f" ({'; '.join(reasons)})" if reasons else ""
        return LedgerRecoveryError(
            f"ledger {self._ledger_id} cannot be recovered now: {what}{details}; "
            "start its bookies and try again",
            ledger_id=self._ledger_id,
        )
