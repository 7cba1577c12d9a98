"""One position of a writer's ensemble: its connection, and the answers it owes."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ledger.core.append import AppendCommand, AppendMachine
from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, LedgerId
from ledger.transport.entry_connection import EntryConnection
from ledger.wire.status import Status
from ledger.writing.pending_adds import PendingAdds


class EnsembleMemberOwner(Protocol):
    """The stream that the member belongs to."""

    @property
    def machine(self) -> AppendMachine: ...

    @property
    def pending(self) -> PendingAdds: ...

    def execute(self, commands: list[AppendCommand]) -> None: ...

    def on_add_refused(self, member: EnsembleMember, entry_id: int, status: Status) -> None: ...

    def on_member_lost(self, member: EnsembleMember, error: Exception) -> None: ...


class EnsembleMember:
    """Receives a connection's answers for one ledger and passes them on with its position.

    A replaced member is detached, so a late answer of its bookie is dropped.
    """

    __slots__ = (
        "_awaited",
        "_extended_at",
        "_machine",
        "_now",
        "add_timeout_s",
        "bookie_id",
        "connection",
        "dropped",
        "failed",
        "missing_since",
        "owed_adds",
        "owed_lacs",
        "owner",
        "position",
        "quiet_since",
        "useful",
    )

    def __init__(
        self, owner: EnsembleMemberOwner, position: int, bookie_id: BookieId, add_timeout_s: float
    ) -> None:
        self.owner = owner
        self._machine = owner.machine
        self.position = position
        self.bookie_id = bookie_id
        self.add_timeout_s = add_timeout_s
        self._now = asyncio.get_running_loop().time
        self.connection: EntryConnection | None = None
        self.failed: Exception | None = None
        self.dropped = False
        """It has failed, was replaced, or its writer has ended: its answers count no more."""
        self.owed_adds = 0
        """Adds sent on the connection and not answered yet."""
        self.owed_lacs = 0
        """Explicit LACs sent, on a connection of their own, and not answered yet."""
        self.quiet_since = 0.0
        """Loop time since which nothing was received although an answer was owed."""
        self._extended_at = -1.0
        """The `quiet_since` that `_waits_in_line` has set."""
        self._awaited: int | None = None
        """Bytes that have to leave the connection before its next answer is due; None: they have left."""
        self.missing_since: float | None = None
        self.useful = False
        """Whether it has answered an add or an explicit LAC since it took this position."""

    def attach(self, ledger_id: LedgerId, connection: EntryConnection) -> None:
        self.connection = connection
        connection.attach(ledger_id, self)

    def detach(self, ledger_id: LedgerId) -> None:
        if self.connection is not None:
            self.connection.detach(ledger_id, self)
            self.connection = None

    def drop(self, ledger_id: LedgerId) -> None:
        """Count no more of its answers, including those to explicit LACs."""
        self.detach(ledger_id)
        self.dropped = True

    @property
    def owes(self) -> bool:
        return self.owed_adds > 0 or self.owed_lacs > 0

    def send_adds(self, frames: bytes, count: int) -> None:
        connection = self.connection
        if connection is None:
            return  # still connecting, or failed: a resend follows, or a replacement
        if not (self.owed_adds or self.owed_lacs):
            self.quiet_since = self._now()
        self.owed_adds += count
        connection.send(frames, self.add_timeout_s)

    def recount(self) -> None:
        """Correct the count: answers to adds of an earlier position may have been counted for later ones."""
        if self.connection is None or self.owes:
            return
        self.owed_adds = self._machine.unanswered(self.position)
        if self.owed_adds:
            self.quiet_since = self._now()

    def sent_lac(self) -> None:
        if not (self.owed_adds or self.owed_lacs):
            self.quiet_since = self._now()
        self.owed_lacs += 1

    def _adds_answered(self, count: int) -> None:
        self.quiet_since, self.useful = self._now(), True
        owed = self.owed_adds - count
        if owed <= 0:
            # Below 0: a bookie that was taken back still answers what it was sent before, which is not owed any more.
            self.owed_adds = 0
            return
        self.owed_adds = owed
        if self.connection is not None:
            self.connection.expect(self.add_timeout_s)

    def extend_deadlines(self, pause_s: float) -> None:
        """This process was stopped for this long; the bookie is not at fault."""
        self.quiet_since += pause_s
        if self.missing_since is not None:
            self.missing_since += pause_s

    def trouble(self, now: float) -> str | None:
        """Why adds may have to wait for this bookie, as a sentence; None if it answers."""
        if self.failed is not None:
            return str(self.failed)
        if self.connection is None:
            return f"bookie {self.bookie_id} is not connected yet"
        quiet_s = now - self.quiet_since
        if self.owes and quiet_s >= 1.0:
            return f"bookie {self.bookie_id} has not responded for {quiet_s:.0f} s"
        return None

    def overdue(self, now: float) -> bool:
        """Whether it owes an answer for longer than the add timeout, although what was sent has reached it."""
        if (self.owed_adds <= 0 and self.owed_lacs <= 0) or now - self.quiet_since <= self.add_timeout_s:
            return False
        return not (self.owed_adds > 0 and self._waits_in_line(now))

    def _waits_in_line(self, now: float) -> bool:
        """Whether its adds may still be behind those of other ledgers, whose answers come; then its time begins anew.

        One connection carries the adds of all writers of a client, so a bookie that is merely slow answers each of
        them late, and is not to be replaced for that.
        """
        connection = self.connection
        if connection is None or not connection.heard_since(now - self.add_timeout_s):
            return False
        if self._extended_at != self.quiet_since:
            self._awaited = connection.written
            if connection.left >= self._awaited:
                return False
        elif self._awaited is None:
            return False
        elif connection.left >= self._awaited:
            self._awaited = None  # it has reached the bookie only now
        self.quiet_since = self._extended_at = now
        return True

    def overdue_error(self) -> BookieUnavailableError:
        return BookieUnavailableError(
            f"bookie {self.bookie_id} did not respond within {self.add_timeout_s:g} s",
            bookie_id=self.bookie_id,
        )

    # ---- AddSink

    @property
    def unacknowledged_bytes(self) -> int:
        return self.owner.pending.frames_bytes

    def on_adds_acked(self, first: int, last: int) -> None:
        if self.owed_adds == 1 and first == last:
            # As `_adds_answered`, in one step: many logs with one append in flight.
            self.owed_adds, self.quiet_since, self.useful = 0, self._now(), True
        else:
            self._adds_answered(last - first + 1)
        machine = self._machine
        lac = machine.lac
        commands = machine.on_adds_acked(self.position, first, last)
        if commands or lac < machine.lac:  # two of three answers change nothing
            self.owner.execute(commands)

    def on_scattered_adds_acked(self, entry_ids: list[int]) -> None:
        self._adds_answered(len(entry_ids))
        self.owner.execute(self._machine.on_scattered_adds_acked(self.position, entry_ids))

    def on_add_refused(self, entry_id: int, status: Status) -> None:
        self.owner.on_add_refused(self, entry_id, status)

    def on_connection_lost(self, error: Exception) -> None:
        self.owner.on_member_lost(self, error)

    # ---- LacSink

    def on_lac_written(self, lac: int, outcome: Status | Exception) -> None:
        if self.dropped:
            return
        if self.owed_lacs:
            self.owed_lacs -= 1
        if outcome is Status.EOK:
            self.quiet_since, self.useful = self._now(), True
            commands = self._machine.on_lac_stored(self.position, lac)
            if commands:
                self.owner.execute(commands)
        elif isinstance(outcome, Exception):
            self.owner.on_member_lost(self, outcome)
        else:
            self.owner.on_add_refused(self, lac, outcome)
