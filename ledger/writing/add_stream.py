"""The adds of one writer to one ensemble. Every kind of writer sends through this stream, with a policy of its own.

    send ──► PendingAdds: frames ──► EnsembleMember of each bookie in the write set
    answers ──► AppendMachine ──► ReleaseThrough ──► policy;  Resend ──► member;  WriteLac ──► policy

    policy               adds      LAC in their headers      a failed member is        done
    WriteHandle          normal    the machine's             replaced in metadata      confirmed; strict: visible
    DeferredWriteHandle  deferred  that of the last force    the end of the writer     stored on an ack quorum
    WriteBack            recovery  that recovery began with  replaced, in memory only  confirmed

Invariants: an entry is framed once, and resent with the same bytes. Answers count only for the member that is at its
position now; a failed or replaced one is detached from its connection first.

Entries that are sent together leave together: one LAC in their headers, one join, and the same bytes to every bookie.
No task, timer or future is created per entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Protocol, assert_never

from ledger.config import Visibility
from ledger.core.append import AppendCommand, AppendMachine, ReleaseThrough, Resend, WriteLac
from ledger.errors import BookieUnavailableError, LogStoreError
from ledger.model import NO_ENTRY, BookieId, EntryId, Fragment, LedgerId, LedgerMetadata
from ledger.refusal import fenced, unauthorized
from ledger.tasks import start_task
from ledger.transport.entry_connection import EntryConnection
from ledger.wire.status import Status
from ledger.writing.ensemble_member import EnsembleMember
from ledger.writing.pending_adds import AddKind, PendingAdds


class Connections(Protocol):
    """Where the stream's connections come from: `ConnectionSet`."""

    def now(self, bookie_id: BookieId) -> EntryConnection | None: ...

    async def get(self, bookie_id: BookieId) -> EntryConnection: ...


class AddPolicy:
    """What each kind of writer decides for itself. The stream calls it on the loop."""

    __slots__ = ()

    def on_sent(self) -> None:
        """Adds were sent: answers are owed from now on."""

    def on_confirmed(self) -> None:
        """Some pending adds are confirmed, and their bytes dropped."""

    def on_done(self, entry_id: EntryId) -> None:
        """Adds up to `entry_id` are done, in the sense of the machine's visibility."""

    def on_member_failed(self, member: EnsembleMember) -> None:
        """The member counts no more: replace it, wait for it, or fail."""
        raise NotImplementedError

    def on_entries_missed(self, member: EnsembleMember) -> None:
        """The member lacks confirmed entries, which it is not sent again."""

    def on_copies_late(self, connection: EntryConnection, last: EntryId) -> None:
        """The stream has stopped, and this bookie owes answers to confirmed entries up to `last`."""

    def write_lac(self, members: list[EnsembleMember], lac: EntryId) -> None:
        """Store the explicit LAC at these members; asked for by machines of strict visibility only."""
        raise NotImplementedError

    def fail(self, error: LogStoreError) -> None:
        """The writer cannot go on."""
        raise NotImplementedError


class AddStream:
    __slots__ = (
        "_connections",
        "_kind",
        "_loop",
        "_policy",
        "_replaced",
        "_striped",
        "_tasks",
        "ledger_id",
        "machine",
        "members",
        "pending",
        "stopped",
    )

    def __init__(
        self,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        policy: AddPolicy,
        connections: Connections,
        *,
        kind: AddKind,
        visibility: Visibility,
        txn_ids: Iterator[int] | None,
        add_timeout_s: float,
        lac: EntryId = NO_ENTRY,
    ) -> None:
        """Sends to the last ensemble in `metadata`; `lac` + 1 is the first entry. Connects when told to.

        `txn_ids`: transaction ids for frames of version 3; without them frames are of version 2.
        """
        self.ledger_id = ledger_id
        self.machine = AppendMachine(metadata.quorum, visibility, lac=lac)
        self.pending = PendingAdds(ledger_id, metadata, lac, kind, txn_ids)
        self.members = [
            EnsembleMember(self, position, bookie_id, add_timeout_s)
            for position, bookie_id in enumerate(metadata.last_fragment.ensemble)
        ]
        self.stopped = False
        self._policy = policy
        self._connections = connections
        self._kind = kind
        self._striped = metadata.quorum.ensemble > metadata.quorum.write
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._replaced: dict[BookieId, EnsembleMember] = {}
        """Members of an earlier fragment that lack confirmed entries of it. Reported at the end: many only restart, and
        a repair would copy the whole fragment to others (docs/repair.md#when-a-bookie-comes-back)."""

    # ---- sending

    def send(self, payloads: list[bytes], lac: EntryId) -> None:
        """Send the next entries, with this LAC in their headers, each to its write set."""
        count, machine = len(payloads), self.machine
        last = machine.sent_through + count
        pieces = self.pending.encode(payloads, lac)
        machine.on_sent(last, lac)
        if self._striped:
            by_position = self.pending.by_position(last - count + 1, count)
            for member, batch in zip(self.members, by_position, strict=True):
                if batch:
                    member.send_adds(b"".join(batch), len(batch) // 2)
        else:
            frames = b"".join(pieces)
            for member in self.members:
                member.send_adds(frames, count)
        self._policy.on_sent()

    def _resend(self, position: int) -> None:
        """Send everything unconfirmed, with its original bytes, to one member."""
        member = self.members[position]
        if member.connection is not None and self.machine.missed(position, self.pending.lac) is not None:
            self._policy.on_entries_missed(member)
        pieces = self.pending.for_position(position)
        if pieces:
            member.send_adds(b"".join(pieces), len(pieces) // 2)
            self._policy.on_sent()

    # ---- answers

    def on_add_refused(self, member: EnsembleMember, entry_id: int, status: Status) -> None:
        if status is Status.EFENCED and self._kind is not AddKind.RECOVERY:
            # Terminal: a writer that went on with another bookie could be acknowledged unnoticed by the recovery
            # (docs/pitfalls.md#fenced-bookie-replaced).
            self._policy.fail(fenced(self.ledger_id))
        elif status is Status.EUA:
            self._policy.fail(unauthorized(member.bookie_id, self.ledger_id))
        else:
            error = BookieUnavailableError(
                f"bookie {member.bookie_id} answered {status.name} to entry {entry_id} of ledger {self.ledger_id}",
                bookie_id=member.bookie_id,
            )
            self.on_member_lost(member, error)

    def on_member_lost(self, member: EnsembleMember, error: Exception) -> None:
        """Stop counting the member; the policy decides what comes next.

        Once the stream is stopped no member is lost any more, only what it was asked for: a LAC is to be sent again.
        """
        if self.members[member.position] is not member or member.failed:
            return
        if self.stopped:
            self.machine.on_lac_failed(member.position)
            return
        member.failed = error
        member.owed_adds = member.owed_lacs = 0
        member.drop(self.ledger_id)
        self.execute(self.machine.on_bookie_failed(member.position))
        self._policy.on_member_failed(member)

    def fail_overdue(self, now: float) -> None:
        """Fail the members that owe an answer for longer than the add timeout."""
        waits = self.machine.sent_through > self.machine.lac
        for member in self.members:
            if waits and not member.owes:
                member.recount()
            if member.overdue(now) and member.failed is None:
                self.on_member_lost(member, member.overdue_error())

    @property
    def awaits_members(self) -> bool:
        """Whether a member owes an answer, or is missing: its time may run out."""
        # `any` would cost as much again, and this runs at each tick of each writer.
        for member in self.members:
            if member.missing_since is not None:
                return True
            if member.failed is None and (member.owed_adds > 0 or member.owed_lacs > 0):
                return True
        return False

    def extend_deadlines(self, pause_s: float) -> None:
        """This process was stopped for this long: no bookie is at fault for not having answered."""
        for member in self.members:
            member.extend_deadlines(pause_s)

    def execute(self, commands: list[AppendCommand]) -> None:
        """Execute what the machine has decided.

        Invariant: what a command before them sends again is dropped after it only, even if it is confirmed by now: a
        new member gets everything from the first entry of its fragment on.
        """
        pending, machine = self.pending, self.machine
        for command in commands:
            # A comparison for each type, since a pattern costs more, and this runs twice for each strict append.
            if type(command) is ReleaseThrough:
                if pending.lac < machine.lac:
                    self._drop_confirmed()
                self._policy.on_done(command.entry_id)
            elif type(command) is WriteLac:
                self._policy.write_lac([self.members[each] for each in command.positions], command.lac)
            elif type(command) is Resend:
                self._resend(command.position)
            else:
                assert_never(command)
        if pending.lac < machine.lac:
            self._drop_confirmed()

    def _drop_confirmed(self) -> None:
        self.pending.confirm(self.machine.lac)
        self._policy.on_confirmed()

    # ---- members and their connections

    @property
    def failed_members(self) -> list[EnsembleMember]:
        return [member for member in self.members if member.failed is not None]

    def connect(self, member: EnsembleMember) -> None:
        """Use the connection that is up, or send what is pending as soon as one is made."""
        connection = self._connections.now(member.bookie_id)
        if connection is not None:
            member.attach(self.ledger_id, connection)
        else:
            self.start(self.connected(member))

    async def connected(self, member: EnsembleMember) -> None:
        """Return once the member is connected, and what is pending sent to it, or it has failed."""
        try:
            connection = await self._connections.get(member.bookie_id)
        except BookieUnavailableError as error:
            self.on_member_lost(member, error)
            return
        if self.members[member.position] is member and member.failed is None and not self.stopped:
            member.attach(self.ledger_id, connection)
            self._resend(member.position)

    def change_ensemble(self, fragment: Fragment) -> bool:
        """Go on with this fragment's ensemble, as the recorded one; True if any member is new."""
        changed = []
        for position, bookie_id in enumerate(fragment.ensemble):
            old = self.members[position]
            if old.bookie_id != bookie_id:
                if self.machine.missed(position, fragment.first_entry - 1) is not None:
                    self._replaced[old.bookie_id] = old
                old.drop(self.ledger_id)
                self.members[position] = EnsembleMember(self, position, bookie_id, old.add_timeout_s)
                changed.append(position)
        for position in changed:
            self.connect(self.members[position])
        if changed:
            self.execute(self.machine.on_ensemble_changed(changed, fragment.first_entry))
        return bool(changed)

    def rejoin(self, member: EnsembleMember) -> None:
        """The failed member's bookie is reachable again: use it at its old position."""
        fresh = EnsembleMember(self, member.position, member.bookie_id, member.add_timeout_s)
        self.members[member.position] = fresh
        self.connect(fresh)
        self.execute(self.machine.on_bookie_returned(member.position))

    # ---- the end

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a short task of this stream; it is cancelled when the stream stops and counts nothing more."""
        task: asyncio.Task[None] = start_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def stop(self, *, counts_lacs: bool = False) -> None:
        """Send no more adds and count no more answers. `counts_lacs`: except explicit LACs and the answers to them."""
        self.stopped = True
        replaced, self._replaced = self._replaced, {}
        for member in replaced.values():
            self._policy.on_entries_missed(member)
        for member in self.members:
            connection = member.connection
            if counts_lacs:
                member.detach(self.ledger_id)
            else:
                member.drop(self.ledger_id)
            last = self.machine.missed(member.position, self.machine.lac)
            if last is None:
                continue
            if connection is None:
                self._policy.on_entries_missed(member)  # it has failed, or is not connected yet
            else:
                self._policy.on_copies_late(connection, last)
        if not counts_lacs:  # a task may be about to send a LAC, which the machine takes for sent
            for task in list(self._tasks):
                task.cancel()
