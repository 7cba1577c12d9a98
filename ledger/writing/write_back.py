"""Recovery's adds: entries found by reading are brought to their ack quorum again.

They carry the LAC that recovery started from, never a rising one: a reader must not trust an entry that another
recovery of the same ledger could still cut off. Ensemble changes stay local; the caller writes them into metadata
together with CLOSED (docs/bookkeeper.md#write-back;
docs/pitfalls.md#recovery-adds-with-a-rising-lac, #change-recorded-before-the-close).
"""

from __future__ import annotations

import asyncio
from collections import deque

from ledger.client_context import ClientContext
from ledger.config import Visibility
from ledger.core.append import AppendMachine
from ledger.core.commands import AppendCommand, Resend
from ledger.core.distribution import write_set
from ledger.core.placement import choose_replacements
from ledger.errors import BookieUnavailableError, LedgerRecoveryError
from ledger.model import BookieId, EntryId, Fragment, LedgerId, LedgerMetadata
from ledger.reading.bookie_reads import Entry
from ledger.refusal import unauthorized
from ledger.transport.entry_connection import EntryConnection
from ledger.transport.pool import ConnectionSet
from ledger.transport.probe import responds
from ledger.wire.add_v3 import recovery_add
from ledger.wire.constants import ADD_REQUEST_START, MASTER_KEY_BYTES, RECOVERY_ADD_HEADER
from ledger.wire.digest import Digester
from ledger.wire.status import Status
from ledger.writing.ensemble_member import EnsembleMember


class WriteBack:
    def __init__(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        lac: EntryId,
        context: ClientContext,
        connections: ConnectionSet[EntryConnection],
        digester: Digester,
        key: bytes,
    ) -> None:
        self._ledger_id = ledger_id
        self._quorum = metadata.quorum
        self._lac = lac
        self._context = context
        self._connections = connections
        self._digester = digester
        self._key = key
        self._loop = asyncio.get_running_loop()
        self.machine = AppendMachine(metadata.quorum, Visibility.FAST, lac=lac)
        self._members = [
            EnsembleMember(self, position, bookie_id, context.config.add_timeout_s)
            for position, bookie_id in enumerate(metadata.last_fragment.ensemble)
        ]
        self._pending: deque[tuple[EntryId, bytes]] = deque()
        self._progress = asyncio.Event()
        self._error: Exception | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._tried: set[BookieId] = set()
        self.changes: list[Fragment] = []
        """Ensembles that entries were written back to, for the closing compare-and-set."""

    async def connect(self) -> None:
        """Return once all members are connected or have failed; a slow one is waited for only briefly."""
        await asyncio.wait(
            [self._connect(member) for member in self._members],
            timeout=self._context.config.speculative_read_s,
        )

    def add(self, entry: Entry) -> None:
        """Send an entry, the next one in order, to its write set."""
        head = self._digester.header_and_digest(
            self._ledger_id, entry.entry_id, self._lac, entry.length, (entry.payload,)
        )
        frame = self._frame(entry.entry_id, b"".join((head, entry.payload)))
        self._pending.append((entry.entry_id, frame))
        self.machine.on_sent(entry.entry_id, self._lac)
        for position in write_set(entry.entry_id, self._quorum):
            self._members[position].send_adds(frame, 1)

    def _frame(self, entry_id: EntryId, entry_head: bytes) -> bytes:
        txn_ids = self._context.pool.txn_ids_of_adds()
        if txn_ids is not None:
            return recovery_add(next(txn_ids), self._ledger_id, entry_id, self._key, entry_head)
        size = 4 + MASTER_KEY_BYTES + len(entry_head)
        return ADD_REQUEST_START.pack(size, RECOVERY_ADD_HEADER, self._key) + entry_head

    async def finish(self) -> None:
        """Return once every entry added is on its ack quorum.

        Raises:
            LedgerRecoveryError: too few bookies are left.
            UnauthorizedError: a bookie refused the password.
        """
        while self._pending and self._error is None:
            self._progress.clear()
            if await self._replace_failed() or self._error is not None:
                continue
            try:
                async with asyncio.timeout(self._context.config.add_timeout_s):
                    await self._progress.wait()
            except TimeoutError:
                self._fail_overdue()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        for member in self._members:
            member.detach(self._ledger_id)
        for task in list(self._tasks):
            task.cancel()

    # ---- answers (EnsembleMemberOwner)

    def on_add_refused(self, member: EnsembleMember, entry_id: int, status: Status) -> None:
        if status is Status.EUA:
            self._error = unauthorized(member.bookie_id, self._ledger_id)
            self._progress.set()
            return
        text = (
            f"bookie {member.bookie_id} answered {status.name} to the recovery of entry {entry_id} "
            f"of ledger {self._ledger_id}"
        )
        self.on_member_lost(member, BookieUnavailableError(text, bookie_id=member.bookie_id))

    def on_member_lost(self, member: EnsembleMember, error: Exception) -> None:
        if self._members[member.position] is member and member.failed is None:
            member.failed = error
            member.detach(self._ledger_id)
            self.carry_out(self.machine.on_bookie_failed(member.position))
            self._progress.set()

    def carry_out(self, commands: list[AppendCommand]) -> None:
        for command in commands:
            if isinstance(command, Resend):
                self._resend(self._members[command.position])
        while self._pending and self._pending[0][0] <= self.machine.lac:
            self._pending.popleft()
            self._progress.set()

    # ---- inside

    def _resend(self, member: EnsembleMember) -> None:
        frames = [
            frame for entry_id, frame in self._pending if member.position in write_set(entry_id, self._quorum)
        ]
        if frames:
            member.send_adds(b"".join(frames), len(frames))

    def _connect(self, member: EnsembleMember) -> asyncio.Task[None]:
        task = self._loop.create_task(self._connected(member))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def _connected(self, member: EnsembleMember) -> None:
        try:
            connection = await self._connections.get(member.bookie_id)
        except BookieUnavailableError as error:
            self.on_member_lost(member, error)
            return
        if self._members[member.position] is member and member.failed is None:
            member.attach(self._ledger_id, connection)
            self._resend(member)

    def _fail_overdue(self) -> None:
        for member in self._members:
            member.recount()
            if member.failed is None and member.owes:
                self.on_member_lost(member, member.overdue_error())

    async def _replace_failed(self) -> bool:
        """Put spare bookies that can be reached at failed positions; True if any was put."""
        failed = [member for member in self._members if member.failed is not None]
        if not failed:
            return False
        reachable = await self._reachable_spares(len(failed))
        for member, spare in zip(failed, reachable, strict=False):
            self._members[member.position] = EnsembleMember(
                self, member.position, spare, self._context.config.add_timeout_s
            )
        replaced = [member.position for member, _ in zip(failed, reachable, strict=False)]
        if replaced:
            first_entry = EntryId(self.machine.lac + 1)
            self.changes.append(Fragment(first_entry, tuple(member.bookie_id for member in self._members)))
            for position in replaced:
                self._connect(self._members[position])
            self.carry_out(self.machine.on_ensemble_changed(replaced, first_entry))
        elif not self.machine.can_confirm:
            self._error = self._too_few(failed)
        return bool(replaced)

    async def _reachable_spares(self, count: int) -> list[BookieId]:
        found: list[BookieId] = []
        while len(found) < count:
            ensemble = [member.bookie_id for member in self._members]
            spares = choose_replacements(
                self._context.bookies(),
                ensemble,
                self._tried,
                count - len(found),
                self._context.environment.chance,
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
            f"ledger {self._ledger_id} cannot be recovered now: entry {self.machine.lac + 1} reaches no ack "
            f"quorum of {self._quorum.ack} bookies ({reasons}); start the bookies and try again",
            ledger_id=self._ledger_id,
        )
