"""Recovery's adds: entries found by reading are brought to their ack quorum again.

The policy of their stream: they carry the LAC that recovery started from, never a rising one, because a reader must
not trust an entry that another recovery of the same ledger could still cut off. Failed members are replaced here, while
it writes; the caller puts these changes into metadata together with CLOSED (docs/bookkeeper.md#write-back;
docs/pitfalls.md#recovery-adds-with-a-rising-lac, #change-recorded-before-the-close).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ledger.client_context import ClientContext
from ledger.config import Visibility
from ledger.core.placement import Vacancies, choose_replacements
from ledger.errors import BookieUnavailableError, LedgerRecoveryError, LogStoreError
from ledger.model import BookieId, EntryId, Fragment, LedgerId, LedgerMetadata
from ledger.reading.bookie_reads import Entry
from ledger.tasks import start_task
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.pool import ConnectionSet
from ledger.transport.probe import responds
from ledger.writing.add_stream import AddPolicy, AddStream
from ledger.writing.ensemble_member import EnsembleMember
from ledger.writing.pending_adds import AddKind

_WINDOW_BYTES_MAX = 8 * 1024 * 1024
"""Enough to keep the disks of an ack quorum busy over one round trip."""


class WriteBack(AddPolicy):
    def __init__(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        lac: EntryId,
        context: ClientContext,
        connections: ConnectionSet[EntryConnection],
    ) -> None:
        self._ledger_id = ledger_id
        self._quorum = metadata.quorum
        self.lac = lac
        """Only entries above it are written back."""
        self._context = context
        self._connections = connections
        self._stream = AddStream(
            ledger_id,
            metadata,
            self,
            connections,
            kind=AddKind.RECOVERY,
            visibility=Visibility.FAST,
            txn_ids=context.pool.txn_ids_of_adds(),
            add_timeout_s=context.config.add_timeout_s,
            lac=lac,
        )
        # Invariant: an ack quorum is at most this and one entry behind, less than a connection may queue. So bookies
        # that are only slower than the one that recovery reads from do not all count as failed.
        self._window_bytes = min(_WINDOW_BYTES_MAX, context.config.send_queue_bytes_max // 4)
        self._progress = asyncio.Event()
        self._error: LogStoreError | None = None
        self._tried: set[BookieId] = set()
        self._replacing: asyncio.Task[None] | None = None
        self._left: list[EnsembleMember] = []
        """Failed members for which the last search has found no bookie."""
        self._missed: dict[BookieId, None] = {}
        self.changes: list[Fragment] = []
        """Ensembles that entries were written back to, for the closing compare-and-set."""

    async def connect(self) -> None:
        """Return once all members are connected or have failed; a slow one is waited for only briefly."""
        await asyncio.wait(
            [self._stream.start(self._stream.connected(member)) for member in self._stream.members],
            timeout=self._context.config.speculative_read_s,
        )

    def add(self, entry: Entry) -> None:
        """Send an entry, the next one in order, to its write set; it keeps the ledger length that it has."""
        self._stream.pending.continue_from(entry.length - len(entry.payload))
        self._stream.send([bytes(entry.payload)], self.lac)

    async def wait_for_capacity(self) -> None:
        """Return once few enough bytes are without an ack quorum. Raises as `finish`."""
        await self._wait_until(self._window_bytes)

    async def finish(self) -> None:
        """Return once every entry added is on its ack quorum.

        Raises:
            LedgerRecoveryError: too few bookies are left.
            UnauthorizedError: a bookie refused the password.
        """
        await self._wait_until(0)

    async def _wait_until(self, bytes_left: int) -> None:
        """0: until no entry is left, not even one without a payload or with a length that is wrong."""
        pending = self._stream.pending
        while pending and (not bytes_left or pending.payload_bytes > bytes_left) and self._error is None:
            self._progress.clear()
            self._replace_failed()
            try:
                async with asyncio.timeout(self._context.config.add_timeout_s):
                    await self._progress.wait()
            except TimeoutError:
                self._fail_silent()
                self._left = []  # others may have registered
        if self._error is not None:
            raise self._error

    def keep_ensemble(self) -> None:
        """Change it no more."""
        if self._replacing is not None:
            self._replacing.cancel()

    def close(self) -> None:
        """Send nothing more, and report what members lack.

        Not before the closing change: a repair that is faster would find that a spare is no member, and that the mark
        needs nothing.
        """
        self.keep_ensemble()
        self._stream.stop()
        for bookie_id in self._missed:
            self._context.report_missed(self._ledger_id, bookie_id)

    # ---- the stream's policy (AddPolicy)

    def on_confirmed(self) -> None:
        self._progress.set()

    def on_member_failed(self, member: EnsembleMember) -> None:
        self._progress.set()

    def on_entries_missed(self, member: EnsembleMember) -> None:
        self._missed[member.bookie_id] = None

    def on_copies_late(self, connection: EntryConnection, last: EntryId) -> None:
        self._context.follow_late(self._ledger_id, connection, last)

    def fail(self, error: LogStoreError) -> None:
        self._error = error
        self._progress.set()

    # ---- replacing failed members

    def _fail_silent(self) -> None:
        """Nothing was confirmed for the whole add timeout: fail the members that owe an answer."""
        for member in self._stream.members:
            member.recount()
            if member.failed is None and member.owes:
                self._stream.on_member_lost(member, member.overdue_error())

    def _replace_failed(self) -> None:
        """Search spare bookies for failed members, in the background.

        While an ack quorum is left no entry needs one, and each that hangs takes the time of a probe.
        """
        failed = self._stream.failed_members
        if not failed or self._replacing is not None:
            return
        if failed != self._left:
            self._replacing = start_task(self._replace(failed))
            self._replacing.add_done_callback(self._replaced)
        elif not self._stream.machine.can_confirm:
            self.fail(self._too_few(failed))

    async def _replace(self, failed: list[EnsembleMember]) -> None:
        """Put spare bookies that can be reached at failed positions."""
        reachable = await self._reachable_spares([member.position for member in failed])
        if not reachable:
            self._left = failed
            return
        ensemble = self._ensemble()
        for member, spare in zip(failed, reachable, strict=False):
            ensemble[member.position] = spare
        fragment = Fragment(EntryId(self._stream.machine.lac + 1), tuple(ensemble))
        self.changes.append(fragment)
        self._stream.change_ensemble(fragment)

    def _replaced(self, task: asyncio.Task[None]) -> None:
        self._replacing = None
        self._progress.set()
        if not task.cancelled() and (fault := task.exception()) is not None:
            error = LedgerRecoveryError(
                f"ledger {self._ledger_id} cannot be recovered because of {fault!r}",
                ledger_id=self._ledger_id,
            )
            error.__cause__ = fault
            self.fail(error)

    def _ensemble(self) -> list[BookieId]:
        return [member.bookie_id for member in self._stream.members]

    async def _reachable_spares(self, positions: Sequence[int]) -> list[BookieId]:
        """Bookies for the first of these positions, as many as there are.

        Racks are not enforced: a ledger that is not recovered cannot be read to its end, which is worse.
        """
        found: list[BookieId] = []
        while len(found) < len(positions):
            ensemble = tuple(self._ensemble())
            placed = dict(zip(positions, found, strict=False))
            slots = (placed.get(at) if at in positions else member for at, member in enumerate(ensemble))
            spares = choose_replacements(
                self._context.bookies(),
                Vacancies(ensemble, tuple(slots), self._quorum),
                self._tried,
                len(positions) - len(found),
                self._context.environment.rng,
                replace(self._context.placement(), enforce=False),
            )
            if not spares:
                break
            self._tried.update(spares)
            reachable = await asyncio.gather(*(self._responds(spare) for spare in spares))
            found += [spare for spare, answer in zip(spares, reachable, strict=True) if answer]
        return found

    async def _responds(self, bookie_id: BookieId) -> bool:
        try:
            connection = await self._connections.get(bookie_id)
        except BookieUnavailableError:
            return False
        return await responds(connection, self._ledger_id, self._context.config)

    def _too_few(self, failed: list[EnsembleMember]) -> LedgerRecoveryError:
        reasons = "; ".join(str(member.failed) for member in failed)
        return LedgerRecoveryError(
            f"ledger {self._ledger_id} cannot be recovered now: entry {self._stream.machine.lac + 1} reaches no ack "
            f"quorum of {self._quorum.ack} bookies ({reasons}); start the bookies and try again",
            ledger_id=self._ledger_id,
        )
