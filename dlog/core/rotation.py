"""The ledgers of one writer: which takes submissions, whose acks are released, how one replaces the other. Pure.

P is the active ledger, N its listed successor. An undisturbed rotation:

    steady     P takes submissions
    creating   N is being created; P goes on
    listing    list + [N] by compare-and-set; P goes on
    draining   barrier: P takes nothing more, its in-flight appends are awaited
    closing    the close of P is sent; N takes submissions, but none of its acks is released
    steady     P is sealed: N's acks are released, N is the new P

Invariant (docs/log-semantics.md#rule-15 to #rule-19, #rule-24, #rule-24b): nothing is submitted to N before P is
drained, and nothing is acked in N before P is sealed. P takes nothing after its close was sent or N took something.
At most two ledgers are unsealed. When P fails, or N after it is listed, the writer takes its own log over: both are
recovered before anything else, and it goes on in a new ledger. Losing the record is final.

Pitfalls: docs/pitfalls.md#overlapping-rotation, #write-before-the-list, #lease-taken-for-safety.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from dlog.core import metadata_changes
from dlog.core.commands import (
    CloseLedger,
    CreateLedger,
    Depose,
    DiscardLedger,
    Drain,
    Finished,
    Hold,
    ProbeStore,
    Recover,
    Release,
    Retry,
    SubmitTo,
    WriteRecord,
)
from dlog.core.commands import (
    RotationCommand as Command,
)
from dlog.core.metadata_update import (
    Applied,
    Deposed,
    NotOurs,
    Rebase,
    may_enter_list,
    owner_verdict,
    same_ownership,
)
from dlog.model import ListedLedger, LogMetadata, SealFacts
from ledger.model import LedgerId, Versioned


class Phase(Enum):
    STEADY = "steady"
    CREATING = "creating"
    LISTING = "listing"
    DRAINING = "draining"
    LIFTED = "lifted"
    CLOSING = "closing"
    RECOVERING = "recovering"
    FINISHING = "finishing"
    RECORDING = "recording"
    OVER = "over"


class Rotation:
    """The decisions of one writer, from its takeover until it is closed or deposed."""

    def __init__(self, record: LogMetadata, version: int, current: LedgerId) -> None:
        self._record = record
        self._version = version
        self._current: LedgerId | None = current
        self._next: LedgerId | None = None
        self._next_failed = False
        """It failed before it was listed: another one is created instead."""
        self._sent: LogMetadata | None = None
        self._seals: dict[LedgerId, SealFacts] = {}
        self._phase = Phase.STEADY
        self._attempts = 0
        self._waits_for_retry = False
        self._failed = False
        """P, or a listed N, takes no more appends: recovered once the request in progress is answered."""
        self._fenced = False
        self._closing = False
        self._holding = False

    # ---- what others may look at

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def record(self) -> LogMetadata:
        return self._record

    @property
    def current(self) -> LedgerId | None:
        return self._current

    @property
    def over(self) -> bool:
        return self._phase is Phase.OVER

    @property
    def closing(self) -> bool:
        """The writer was asked to close."""
        return self._closing

    @property
    def seals(self) -> Mapping[LedgerId, SealFacts]:
        """Facts of sealed ledgers that the record does not hold yet."""
        return self._seals

    @property
    def merely_full(self) -> bool:
        """Whether P works, and appends wait only because it cannot be replaced at its hard limit."""
        replacing = self._phase in (Phase.CREATING, Phase.LISTING, Phase.LIFTED)
        return replacing and self._current is not None and not self._failed

    def start(self) -> list[Command]:
        assert self._current is not None
        return [SubmitTo(self._current), Release(self._current)]

    # ---- rotation

    def on_rotation_due(self) -> list[Command]:
        """A limit is reached, or a rotation was requested. Ignored during a rotation or a recovery."""
        if self._phase is not Phase.STEADY or self._closing:
            return []
        return self._create()

    def on_ledger_created(self, ledger_id: LedgerId, now_us: int, nonce: int) -> list[Command]:
        if self.over:
            return [DiscardLedger(ledger_id)]
        assert self._phase is Phase.CREATING
        self._attempts = 0
        if self._failed:
            return [DiscardLedger(ledger_id), *self._recover()]
        if self._closing and not self._holding:
            return [DiscardLedger(ledger_id), *self._finish()]
        if not may_enter_list(self._record, ledger_id):
            return [DiscardLedger(ledger_id), CreateLedger(self._record.epoch)]
        self._next = ledger_id
        return self._list(now_us, nonce)

    def on_create_failed(self) -> list[Command]:
        """Best effort while P works: P goes on beyond its limits, and the rotation is tried again.

        Source: docs/log-semantics.md#rule-17.
        """
        if self.over:
            return []
        assert self._phase is Phase.CREATING
        if self._failed:
            return self._recover()
        if self._closing and not self._holding:
            return self._finish()
        return self._retry()

    def on_answer(self, answer: Applied | NotOurs, now_us: int, nonce: int) -> list[Command]:
        """The outcome of the compare-and-set."""
        if self.over:
            return []
        assert self._sent is not None
        if self._phase is Phase.RECORDING:
            return self._on_record_answer(answer, nonce)
        assert self._phase is Phase.LISTING
        match owner_verdict(self._record, self._sent, answer):
            case Applied(record, version):
                self._attempts = 0
                self._adopt(record, version)
                return self._on_listed()
            case Rebase(found):
                self._adopt(found.value, found.version)
                return self._rebase(now_us, nonce)
            case Deposed(found_record):
                return self._over(Depose(found_record))

    def on_store_unavailable(self) -> list[Command]:
        """The compare-and-set was certainly not made: P goes on, and the same ledger is tried again."""
        if self.over:
            return []
        if self._phase is Phase.RECORDING:
            return self._over(Finished())
        if self._failed:
            return self._recover()
        return self._replace_next() if self._next_failed else self._retry()

    def on_drained(self, ledger_id: LedgerId) -> list[Command]:
        """P has nothing in flight: its close is sent, and from now on N may take submissions."""
        if ledger_id != self._current:
            return []
        if self._phase is Phase.FINISHING:
            return [CloseLedger(ledger_id)]
        if self._phase is not Phase.DRAINING:
            return []
        assert self._next is not None
        self._phase = Phase.CLOSING
        return [CloseLedger(ledger_id), SubmitTo(self._next)]

    def on_store_unreachable(self) -> list[Command]:
        """While P drains: lift the barrier, since nothing was submitted to N yet (docs/log-semantics.md#rule-17).

        Once the close of P is sent this is impossible, whatever its answer. So the barrier is raised again only after
        the store has answered.
        """
        if self._phase is Phase.LIFTED and not self._waits_for_retry:
            return self._retry()
        if self._phase is not Phase.DRAINING or self._closing:
            return []
        assert self._current is not None
        self._phase = Phase.LIFTED
        return [SubmitTo(self._current), *self._retry()]

    def on_store_reachable(self) -> list[Command]:
        """The store answers again: P may be drained and closed after all."""
        if self._phase is not Phase.LIFTED or self._waits_for_retry:
            return []
        self._attempts = 0
        return self._drain()

    def on_closed(self, ledger_id: LedgerId, seal: SealFacts, nonce: int) -> list[Command]:
        """P is sealed; only now are acks of N released.

        A close that was in progress when P was recovered may end later, when another ledger is active.
        """
        if ledger_id != self._current:
            return []
        self._seals.setdefault(ledger_id, seal)
        if self._phase not in (Phase.CLOSING, Phase.FINISHING):
            return []
        self._attempts = 0
        if self._phase is Phase.FINISHING:
            return self._record_seals(nonce)
        return self._go_on_in_next()

    def on_close_undecided(self) -> list[Command]:
        """The store did not answer. Acks of N wait until P's seal is decided."""
        return self._retry() if self._phase in (Phase.CLOSING, Phase.FINISHING) else []

    def on_hard_limit(self) -> list[Command]:
        """P is far beyond its limits and cannot be replaced: accept nothing until it is.

        Source: docs/log-semantics.md#rule-17.
        """
        replacing = self._phase in (Phase.CREATING, Phase.LISTING, Phase.LIFTED)
        return [Hold()] if replacing else self.on_rotation_due()

    def on_retry(self, now_us: int, nonce: int) -> list[Command]:
        """The pause is over: repeat the request of the current phase."""
        if not self._waits_for_retry:
            return []
        self._waits_for_retry = False
        match self._phase:
            case Phase.CREATING:
                return [CreateLedger(self._record.epoch)]
            case Phase.LISTING:
                return self._rebase(now_us, nonce)  # it may have been swept in the meantime
            case Phase.LIFTED:
                return [ProbeStore()]
            case Phase.CLOSING | Phase.FINISHING:
                assert self._current is not None
                return [CloseLedger(self._current)]
            case _:
                return []

    # ---- failure and fencing

    def on_failed(self, ledger_id: LedgerId, *, fenced: bool) -> list[Command]:
        """A handle has failed: too few members are left, or its ledger was fenced.

        Source: docs/log-semantics.md#rule-19, #rule-24b.
        """
        ours = ledger_id in (self._current, self._next) and ledger_id not in self._seals
        if self.over or not ours or self._phase is Phase.RECOVERING:
            return []
        if ledger_id == self._next and self._phase is Phase.LISTING:
            self._next_failed = True
            return self._replace_next() if self._waits_for_retry else []
        self._failed = True
        self._fenced = self._fenced or fenced
        if self._phase in (Phase.CREATING, Phase.LISTING) and not self._waits_for_retry:
            return [Hold()]  # the request in progress is decided first
        return self._recover()

    def on_sealed(self, seals: Mapping[LedgerId, SealFacts]) -> None:
        """Facts of ledgers that a recovery has sealed."""
        self._seals = {**seals, **self._seals}

    def on_recovered(
        self, record: LogMetadata, version: int, ledger_id: LedgerId | None, nonce: int
    ) -> list[Command]:
        """Everything before this ledger is sealed. None: the writer closes, and no append waits for a ledger.

        Then the record does not hold these seals yet, and would look as if the writer were still at work.
        """
        if self.over:
            return []
        assert self._phase is Phase.RECOVERING
        self._adopt(record, version)
        self._failed = self._fenced = False
        self._current = ledger_id
        if ledger_id is not None:
            return self._go_on()
        return self._record_seals(nonce) if self._seals else self._over(Finished())

    def on_lost(self, found: LogMetadata | None) -> list[Command]:
        """Another client owns the log, or has deleted it."""
        return [] if self.over else self._over(Depose(found))

    def on_record_seen(self, read: Versioned[LogMetadata] | None) -> list[Command]:
        """A watch or a confirmation of the epoch brought a fresh record: deposed, or a newer version."""
        if self.over:
            return []
        if read is None or not same_ownership(self._record, read.value):
            if self._phase is Phase.LISTING and not self._waits_for_retry:
                return []  # the pending answer decides it, and whether N may be listed
            return self._over(Depose(None if read is None else read.value))
        unlisted = self._phase is not Phase.LISTING
        if unlisted and read.version > self._version and read.value.ledger_ids[-1:] == self._tail:
            self._adopt(read.value, read.version)
        return []

    # ---- the end

    def on_close_requested(self, *, holding: bool) -> list[Command]:
        """Let a rotation in progress end, then drain and seal the last ledger.

        `holding`: appends wait for a ledger. None is accepted from now on.
        """
        if self._closing or self.over:
            return []
        self._closing, self._holding = True, holding
        if self._phase is Phase.LIFTED:
            # No append waits behind the barrier any more, so P is closed however slowly the store answers.
            self._waits_for_retry = False
            return self._drain()
        idle = self._phase is Phase.CREATING and self._waits_for_retry and not holding
        return self._finish() if idle or self._phase is Phase.STEADY else []

    def give_up(self) -> None:
        """The hard time limit has passed: nothing more is decided here."""
        self._phase = Phase.OVER

    # ---- parts

    @property
    def _tail(self) -> tuple[LedgerId, ...]:
        return self._record.ledger_ids[-1:]

    def _create(self) -> list[Command]:
        self._phase = Phase.CREATING
        self._waits_for_retry = False
        return [CreateLedger(self._record.epoch)]

    def _list(self, now_us: int, nonce: int) -> list[Command]:
        assert self._next is not None
        self._phase = Phase.LISTING
        self._waits_for_retry = False
        new = ListedLedger(ledger_id=self._next, epoch=self._record.epoch, created_us=now_us)
        self._sent = metadata_changes.with_new_ledger(self._record, new, self._seals, nonce)
        return [WriteRecord(self._sent, self._version)]

    def _rebase(self, now_us: int, nonce: int) -> list[Command]:
        """Refused while we own the log: the same ledger again if it may still enter the list, else another.

        Source: docs/log-semantics.md#rule-3, #rule-9.
        """
        assert self._next is not None
        if self._failed:
            return self._recover()
        if may_enter_list(self._record, self._next) and not self._next_failed:
            return self._list(now_us, nonce)
        return self._replace_next()

    def _replace_next(self) -> list[Command]:
        """N certainly is not listed: another one is created."""
        return [*self._discard_next(), *self._create()]

    def _discard_next(self) -> list[Command]:
        discarded, self._next, self._next_failed = self._next, None, False
        return [] if discarded is None else [DiscardLedger(discarded)]

    def _on_listed(self) -> list[Command]:
        self._phase = Phase.DRAINING
        return self._recover() if self._failed or self._next_failed else self._drain()

    def _drain(self) -> list[Command]:
        assert self._current is not None
        self._phase = Phase.DRAINING
        return [Hold(), Drain(self._current)]

    def _go_on_in_next(self) -> list[Command]:
        """N is the active ledger, since P is sealed."""
        self._current, self._next = self._next, None
        return self._go_on()

    def _go_on(self) -> list[Command]:
        assert self._current is not None
        self._phase = Phase.STEADY
        self._holding = False
        commands: list[Command] = [SubmitTo(self._current), Release(self._current)]
        return [*commands, *self._finish()] if self._closing else commands

    def _recover(self) -> list[Command]:
        """P takes no more appends, and N none either: an N that is certainly not listed is deleted."""
        unlisted = self._discard_next() if self._phase is Phase.LISTING else []
        self._phase = Phase.RECOVERING
        self._next, self._next_failed = None, False
        self._waits_for_retry = False
        self._attempts = 0
        return [Hold(), *unlisted, Recover(self._fenced)]

    def _adopt(self, record: LogMetadata, version: int) -> None:
        self._record, self._version = record, version
        unrecorded = {one.ledger_id for one in record.ledgers if one.seal is None}
        self._seals = {one: seal for one, seal in self._seals.items() if one in unrecorded}

    def _finish(self) -> list[Command]:
        assert self._current is not None
        self._phase = Phase.FINISHING
        self._waits_for_retry = False
        return [Drain(self._current)]

    def _record_seals(self, nonce: int) -> list[Command]:
        self._phase = Phase.RECORDING
        self._sent = metadata_changes.with_seals(self._record, self._seals, nonce)
        return [WriteRecord(self._sent, self._version)]

    def _on_record_answer(self, answer: Applied | NotOurs, nonce: int) -> list[Command]:
        """Record the seals again if another change came first and we still own the log.

        Otherwise the facts that only this writer has counted would be lost.
        """
        assert self._sent is not None
        verdict = owner_verdict(self._record, self._sent, answer)
        if isinstance(verdict, Rebase):
            self._adopt(verdict.found.value, verdict.found.version)
            return self._record_seals(nonce)
        return self._over(Finished())

    def _retry(self) -> list[Command]:
        self._attempts += 1
        self._waits_for_retry = True
        return [Retry(self._attempts)]

    def _over(self, command: Command) -> list[Command]:
        self._phase = Phase.OVER
        return [Hold(), command]
