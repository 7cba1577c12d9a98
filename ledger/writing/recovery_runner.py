"""Open with recovery: fence the writer, bring every entry that may have been acknowledged to its ack quorum, close.

Executes the commands of `RecoveryMachine` (ledger/core/recovery.py), which knows their order and reasons.

Protocol: docs/bookkeeper.md#recovery, #recovery-reads, #fencing.
Pitfalls: docs/pitfalls.md#recovery-reads-without-a-fence, #paused-recoverer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from ledger.client_context import ClientContext
from ledger.core import metadata_changes
from ledger.core.read import EntryRead, Verdict
from ledger.core.recovery import (
    AwaitEntry,
    Close,
    Command,
    FenceEnsemble,
    Finish,
    FinishWriteBack,
    GiveUp,
    MarkInRecovery,
    ReadEntries,
    ReadLength,
    RecoveryMachine,
    WriteBackEntry,
)
from ledger.errors import BookieUnavailableError, LedgerRecoveryError
from ledger.metadata.update_loop import update_ledger
from ledger.model import NO_ENTRY, BookieId, EntryId, LedgerId, LedgerMetadata, Versioned
from ledger.reading.bookie_reads import BookieAnswer, Entry, fence_read_entry
from ledger.reading.speculative_read import speculative_read
from ledger.refusal import unauthorized
from ledger.tasks import start_task
from ledger.wire.digest import make_digester, master_key
from ledger.wire.status import Answer, Status
from ledger.writing.write_back import WriteBack

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    metadata: Versioned[LedgerMetadata]
    """CLOSED."""
    read: tuple[Entry, ...]
    """Its last entry, and its first, as far as recovery has read them; perhaps others."""


class RecoveryRunner:
    """One recovery of one ledger. `run` may be cancelled at any point; the next recovery repeats it."""

    def __init__(
        self,
        ledger_id: LedgerId,
        metadata: Versioned[LedgerMetadata],
        context: ClientContext,
        *,
        read_first: bool,
        on_marked: Callable[[], None] | None,
    ) -> None:
        """`read_first`: read the first entry as well, while the end is determined.

        `on_marked`: called once the metadata store is not needed until the end is known.
        """
        self._read_first = read_first
        self._on_marked = on_marked
        self._ledger_id = ledger_id
        self._local = metadata
        self._context = context
        self._connections = context.pool.for_recovery()
        self._digester = make_digester(metadata.value.digest_type, metadata.value.password)
        self._key = master_key(metadata.value.password)
        self._machine = RecoveryMachine(metadata.value, context.config.recovery_read_ahead)
        self._reads: deque[asyncio.Task[Entry | None]] = deque()
        """Reads in progress, by entry id."""
        self._found: Entry | None = None
        """The entry last reported to the machine."""
        self._ends: list[Entry] = []
        """The first and the last that were found."""
        self._first: asyncio.Task[Entry | None] | None = None
        self._write_back: WriteBack | None = None
        self._fenced: tuple[BookieId, ...] = ()
        """The ensemble that is asked to fence the writer."""
        self._held: dict[int, EntryId] = {}
        """The last entry of each member of it when it was fenced, by position; without those of which it is unknown."""
        self._is_lac_known = False
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def run(self) -> Recovered:
        """Return once metadata says CLOSED, by us or by another client.

        Raises:
            LedgerRecoveryError: too few bookies answer; the ledger stays IN_RECOVERY and may be tried again.
            UnauthorizedError: a bookie refused the password.
            LedgerNotFoundError: the ledger was deleted.
        """
        try:
            command: Command | None = self._machine.start()
            while command is not None:
                command = await self._execute(command)
            return Recovered(self._local, self._read_entries())
        finally:
            if self._write_back is not None:
                self._write_back.close()
            for task in list(self._tasks):
                task.cancel()
            self._connections.retire(f"the recovery of ledger {self._ledger_id} is over")

    async def _execute(self, command: Command) -> Command | None:
        """Execute the command and report what came of it; return the next one, None at the end."""
        match command:
            case MarkInRecovery():
                return await self._mark()
            case FenceEnsemble(ensemble):
                return await self._fence(ensemble)
            case ReadEntries(first, count):
                self._reads = deque(self._start(self._read(first + offset)) for offset in range(count))
                return await self._next_read()
            case AwaitEntry():
                return await self._next_read()
            case WriteBackEntry(lac):
                return await self._write_back_found(lac)
            case FinishWriteBack():
                await self._finish_write_back()
                return self._machine.on_written_back()
            case ReadLength(entry_id):
                return self._machine.on_length(await self._length_at(entry_id))
            case Close(last_entry, length):
                await self._close(last_entry, length)
                return None
            case GiveUp(reason, details):
                raise self._recovery_error(reason, details)
            case Finish():
                return None
        assert_never(command)

    # ---- metadata

    async def _mark(self) -> Command:
        for bookie_id in self._local.value.last_fragment.ensemble:
            self._start(self._connect(bookie_id))
        await self._update(metadata_changes.needs_recovery_mark, metadata_changes.mark_in_recovery)
        if self._on_marked is not None:
            self._on_marked()
        return self._machine.on_marked(self._local.value)

    async def _close(self, last_entry: EntryId, length: int) -> None:
        if self._write_back is not None:
            for position in range(len(self._fenced)):
                if position not in self._held:  # it may lack what is before the entries written back
                    self._report_missed(position, NO_ENTRY)
        changes = [] if self._write_back is None else self._write_back.changes
        await self._update(
            metadata_changes.needs_recovery_close,
            lambda found: metadata_changes.closed_by_recovery(found, changes, last_entry, length),
        )

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

    async def _connect(self, bookie_id: BookieId) -> None:
        """Begun with the mark, so that the fence does not wait for connections; it meets the same errors."""
        with suppress(BookieUnavailableError):
            await self._connections.get(bookie_id)

    async def _fence(self, ensemble: tuple[BookieId, ...]) -> Command:
        """Ask every member; return as soon as the machine has seen enough answers."""
        self._fenced = ensemble
        answers: asyncio.Queue[tuple[int, BookieAnswer]] = asyncio.Queue()
        for position, bookie_id in enumerate(ensemble):
            self._start(self._fence_one(position, bookie_id, answers))
        while True:
            position, answer = await answers.get()
            if answer.status is Status.EUA:
                raise unauthorized(ensemble[position], self._ledger_id)
            lac, length = (
                (answer.entries[0].lac, answer.entries[0].length) if answer.entries else (NO_ENTRY, 0)
            )
            command = self._machine.on_fence_answer(position, answer.answer, lac, length, str(answer.reason))
            if command is not None:
                self._is_lac_known = True
                for held_position, last in self._held.items():
                    self._report_missed(held_position, last)
                if self._read_first and self._machine.first_is_confirmed:
                    self._first = self._start(self._read(0, confirmed=True))
                return command

    async def _fence_one(
        self, position: int, bookie_id: BookieId, answers: asyncio.Queue[tuple[int, BookieAnswer]]
    ) -> None:
        answer = await self._fencing_read(bookie_id, NO_ENTRY, priority=False)
        if answer.answer is not Answer.UNKNOWN:
            self._note_held(position, answer.entries[0].entry_id if answer.entries else NO_ENTRY)
        answers.put_nowait((position, answer))

    def _note_held(self, position: int, last: EntryId) -> None:
        if self._write_back is not None and last > self._write_back.lac:
            return  # it may be an entry that was written back
        self._held[position] = last
        if self._is_lac_known:
            self._report_missed(position, last)

    def _report_missed(self, position: int, last: EntryId) -> None:
        if self._machine.lacks_confirmed(position, last):
            self._context.report_missed(self._ledger_id, self._fenced[position])

    # ---- reading forward, writing back

    async def _next_read(self) -> Command:
        self._found = await self._reads.popleft()
        if self._found is None:
            return self._machine.on_absent()
        self._ends[1:] = [self._found]
        return self._machine.on_found(self._found.entry_id, self._found.length)

    async def _write_back_found(self, lac: EntryId) -> Command:
        assert self._found is not None
        if self._write_back is None:
            self._write_back = WriteBack(
                self._ledger_id,
                self._local.value,
                lac,
                self._context,
                self._connections,
            )
            await self._write_back.connect()
        self._write_back.add(self._found)
        await self._write_back.wait_for_capacity()
        return self._machine.on_sent_back()

    async def _finish_write_back(self) -> None:
        if self._write_back is not None:
            await self._write_back.finish()
            self._write_back.keep_ensemble()

    async def _length_at(self, lac: EntryId) -> int | None:
        """Ledger length in the header of the LAC's entry; None if that entry cannot be read."""
        try:
            entry = await self._read(lac, confirmed=True)
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
            self._machine.claimed_length,
        )
        return None

    async def _read(self, entry_id: int, *, confirmed: bool = False) -> Entry | None:
        """The entry, or None if it is proved absent.

        Raises:
            LedgerRecoveryError: neither can be shown.
        """
        replicas = self._machine.replicas(entry_id)
        machine = EntryRead(replicas, self._local.value.quorum, confirmed=confirmed)
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
            tuple(str(failure.reason) for failure in failures),
        )

    async def _recovery_read(self, bookie_id: BookieId, entry_id: int) -> BookieAnswer:
        responded = False
        try:
            answer = await self._fencing_read(bookie_id, entry_id, priority=True)
            responded = answer.answer is not Answer.UNKNOWN
            return answer
        finally:
            if not responded:
                self._machine.on_unresponsive(bookie_id)

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

    def _read_entries(self) -> tuple[Entry, ...]:
        """What was read by now: recovery itself needs none of it any more."""
        first = self._first
        if first is None or not first.done() or first.exception() is not None:
            return tuple(self._ends)
        found = first.result()
        return (*self._ends, found) if found is not None else tuple(self._ends)

    # ---- tasks and errors

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = start_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if not task.cancelled():
            task.exception()  # reads past the end of the ledger may fail; nothing awaits them

    def _recovery_error(self, what: str, details: tuple[str, ...]) -> LedgerRecoveryError:
        reasons = f" ({'; '.join(details)})" if details else ""
        return LedgerRecoveryError(
            f"ledger {self._ledger_id} cannot be recovered now: {what}{reasons}; "
            "start its bookies and try again",
            ledger_id=self._ledger_id,
        )
