"""Taking a log over: fence its tail, then claim it with one compare-and-set. Pure.

    ReadRecord     read linearizably
    FenceLedgers   recover all of them
    CreateLedger   may have begun during the fences, since nothing depends on a ledger that no record lists
    WriteRecord    one compare-and-set at the version read, only after every fence has succeeded

Nothing may be submitted to the new ledger before TakenOver. Seal and Delete, and the takeover by a sink, are the same
machine without a new ledger (docs/log-semantics.md#rule-20 to #rule-23, #rule-34b, #rule-37). So is a writer whose
ledger has failed, which takes its own log over: it recovers its unsealed ledgers and lists a new one, epoch and owner
unchanged. If another client has fenced it, it first gives a candidate time to win (docs/log-semantics.md#rule-19,
#rule-24b).

Pitfalls: docs/pitfalls.md#only-the-last-ledger-fenced, #record-changed-after-the-fence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dlog.core import metadata_changes
from dlog.core.commands import (
    CreateLedger,
    Depose,
    DiscardLedger,
    Fail,
    FenceLedgers,
    ReadRecord,
    TakenOver,
    WaitForCandidate,
    WriteRecord,
)
from dlog.core.commands import (
    TakeoverCommand as Command,
)
from dlog.core.metadata_update import (
    Applied,
    Deposed,
    Lost,
    NotOurs,
    OwnerVerdict,
    Rebase,
    StartOver,
    Won,
    may_enter_list,
    owner_verdict,
    same_ownership,
    takeover_verdict,
)
from dlog.errors import (
    DataLossError,
    LogNotFoundError,
    LogSealedError,
    TakeoverContendedError,
    TakeoverLostError,
)
from dlog.model import ListedLedger, LogMetadata, LogState, Owner, SealFacts
from ledger.errors import LogStoreError
from ledger.model import LedgerId, Versioned

TAKEOVER_ROUNDS_MAX = 10
"""Each round means that the owner rotated or the log was trimmed in the meantime; ten in a row is a storm."""

LOST_EMPTY = SealFacts(last_entry=-1, message_count=0, byte_count=0)
"""Recorded for a missing ledger that the operator has given up."""


class OnTakeoverLost(StrEnum):
    """What a client does whose takeover another one has forestalled (docs/log-semantics.md#rule-22)."""

    FAIL = "fail"
    RETRY = "retry"
    """After a pause with jitter take the log over from the winner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Inputs from the shell, since the machine has neither clock nor randomness."""

    nonce: int
    now_us: int


def ledgers_to_fence(record: LogMetadata) -> tuple[LedgerId, ...]:
    """The last two, and every one whose seal the record does not hold (docs/log-semantics.md#rule-20)."""
    last_two = record.ledger_ids[-2:]
    return tuple(one.ledger_id for one in record.ledgers if one.seal is None or one.ledger_id in last_two)


@dataclass(frozen=True, slots=True)
class OwnLog:
    """What a writer knows that takes its own log over."""

    record: LogMetadata
    """Shows the ownership; the newest record is read."""
    seals: Mapping[LedgerId, SealFacts]
    """Of ledgers that it has sealed, where the record does not hold them yet."""
    fenced: bool
    """Another client has fenced one of its ledgers."""


class Takeover:
    """One candidate for one log. `end` turns it into Seal (SEALED), Delete (DELETING), or that of a sink (ACTIVE).

    `given_up`: missing ledgers whose loss the operator accepts; of a log that is deleted also those that cannot be
    recovered. `grace_us`: raise the log's grace to this. `own`: the candidate is the log's writer. `after_epoch`: the
    epoch of the owner that was waited for; in another one the log is lost.
    """

    def __init__(
        self,
        log: str,
        owner: Owner,
        *,
        end: LogState | None = None,
        given_up: Collection[LedgerId] = (),
        grace_us: int | None = None,
        own: OwnLog | None = None,
        after_epoch: int | None = None,
    ) -> None:
        self._log = log
        self._after_epoch = after_epoch
        self._own = own
        self._grace_us = grace_us
        self._owner = owner
        self._end = end
        self._given_up = frozenset(given_up)
        self._rounds = 0
        self._waited = False
        self._before: Versioned[LogMetadata] | None = None
        self._missing: tuple[LedgerId, ...] = ()
        self._seals: Mapping[LedgerId, SealFacts] = {}
        self._new: LedgerId | None = None
        self._sent: LogMetadata | None = None

    def start(self) -> list[Command]:
        return [ReadRecord(0)]

    def on_record(self, read: Versioned[LogMetadata]) -> list[Command]:
        """Fence what this record lists, or fail for ledgers that are still missing in an unchanged record."""
        before, self._before = self._before, read
        if self._own is not None and not same_ownership(self._own.record, read.value):
            return [Depose(read.value)]
        if self._after_epoch not in (None, read.value.epoch):
            return [Fail(self._lost(read))]
        refusal = self._refusal(read.value)
        if refusal is not None:
            return [Fail(refusal)]
        if self._missing and before is not None and before.version == read.version:
            return [Fail(self._data_loss())]
        self._missing = ()
        return [FenceLedgers(self._to_fence(read.value))]

    @property
    def likely_epoch(self) -> int | None:
        """The epoch of the ledger that will be needed if the fences succeed; None if that is not certain."""
        return self._new_epoch if self._own is None and self._end is None else None

    def on_fenced(
        self,
        seals: Mapping[LedgerId, SealFacts],
        missing: Collection[LedgerId],
        stamp: Stamp,
        *,
        needs_ledger: bool = True,
    ) -> list[Command]:
        """All answered: `seals` of those recovered, and the ids that have neither a seal nor ledger metadata.

        `needs_ledger`: False for an own log that is being closed and for which no append waits.
        """
        record = self._record
        unexplained = [one for one in missing if one not in self._given_up]
        if unexplained:
            # A stale record may name a deleted ledger: read it again before reporting a loss.
            # Source: docs/log-semantics.md#rule-23.
            self._missing = tuple(unexplained)
            return self._next_round()
        self._seals = {**seals, **dict.fromkeys(missing, LOST_EMPTY)}
        if self._own is not None:
            self._seals = {**self._own.seals, **self._seals}
            if not needs_ledger:
                assert self._before is not None
                return [TakenOver(record, self._before.version)]
            if self._own.fenced and not self._waited:
                return [WaitForCandidate()]
            return [CreateLedger(self._new_epoch)]
        if self._end is None:
            return [CreateLedger(self._new_epoch)]
        return self._write(
            metadata_changes.ended(
                record,
                self._end,
                self._owner,
                self._seals,
                now_us=stamp.now_us,
                nonce=stamp.nonce,
                grace_us=self._grace_us,
            )
        )

    def on_waited(self) -> list[Command]:
        self._waited = True
        return [CreateLedger(self._new_epoch)]

    def on_ledger_created(self, ledger_id: LedgerId, stamp: Stamp) -> list[Command]:
        record = self._record
        if not may_enter_list(record, ledger_id):
            return [DiscardLedger(ledger_id), CreateLedger(self._new_epoch)]
        self._new = ledger_id
        new = ListedLedger(ledger_id=ledger_id, epoch=self._new_epoch, created_us=stamp.now_us)
        if self._own is not None:
            return self._write(metadata_changes.with_new_ledger(record, new, self._seals, stamp.nonce))
        return self._write(
            metadata_changes.taken_over(
                record,
                new,
                self._owner,
                self._seals,
                now_us=stamp.now_us,
                nonce=stamp.nonce,
                grace_us=self._grace_us,
            )
        )

    def on_answer(self, answer: Applied | NotOurs) -> list[Command]:
        """The outcome of the compare-and-set."""
        assert self._sent is not None
        if self._own is not None:
            return self._on_own_answer(owner_verdict(self._record, self._sent, answer))
        match takeover_verdict(self._record, self._sent, answer):
            case Won(record, version):
                return [TakenOver(record, version)]
            case StartOver():
                return [*self._discard(), *self._next_round()]
            case Lost(found, may_delete_new):
                discarded = self._discard() if may_delete_new else []
                return [*discarded, Fail(self._lost(found))]

    # ---- parts

    def _on_own_answer(self, verdict: OwnerVerdict) -> list[Command]:
        """The epoch is unchanged, so only the list shows whether the new ledger is in it."""
        match verdict:
            case Applied(record, version):
                return [TakenOver(record, version)]
            case Rebase():
                return [*self._discard(), *self._next_round()]
            case Deposed(found):
                return [Depose(found)]

    def _to_fence(self, record: LogMetadata) -> tuple[LedgerId, ...]:
        if self._own is None:
            return ledgers_to_fence(record)
        sealed = self._own.seals
        return tuple(
            one.ledger_id for one in record.ledgers if one.seal is None and one.ledger_id not in sealed
        )

    @property
    def _new_epoch(self) -> int:
        return self._record.epoch + (self._own is None)

    @property
    def _record(self) -> LogMetadata:
        assert self._before is not None
        return self._before.value

    def _write(self, record: LogMetadata) -> list[Command]:
        assert self._before is not None
        self._sent = record
        return [WriteRecord(record, self._before.version)]

    def _discard(self) -> list[Command]:
        new, self._new = self._new, None
        return [] if new is None else [DiscardLedger(new)]

    def _next_round(self) -> list[Command]:
        self._rounds += 1
        if self._rounds >= TAKEOVER_ROUNDS_MAX:
            return [Fail(self._contended())]
        return [ReadRecord(self._rounds)]

    def _refusal(self, record: LogMetadata) -> LogStoreError | None:
        if record.state is LogState.ACTIVE:
            return None
        if self._end is LogState.DELETING and record.state is LogState.SEALED:
            return None
        what = "is sealed" if record.state is LogState.SEALED else "is being deleted"
        return LogSealedError(
            f"log {self._log} {what} and accepts no writer: use another log",
            log=self._log,
            state=record.state,
        )

    def _data_loss(self) -> DataLossError:
        ids = ", ".join(str(one) for one in self._missing)
        options = " ".join(f"--given-up {one}" for one in self._missing)
        way_out = (
            f"end the log's writer and delete the log with {deletion_without(self._missing)}"
            if self._end is LogState.DELETING
            else f"accept the loss of its messages with open_writer(..., given_up=[{ids}]) or `dlog append {options}`"
        )
        return DataLossError(
            f"log {self._log} lists ledger {ids}, whose metadata is missing or damaged: restore the metadata store "
            f"from a backup, or {way_out}",
            log=self._log,
            first=self._missing[0],
            last=self._missing[-1],
        )

    def _contended(self) -> TakeoverContendedError:
        return TakeoverContendedError(
            f"log {self._log} changed during each of {self._rounds} takeover rounds: try again later",
            log=self._log,
            rounds=self._rounds,
        )

    def _lost(self, found: Versioned[LogMetadata] | None) -> LogStoreError:
        if found is None:
            return LogNotFoundError(f"log {self._log} was deleted during the takeover", log=self._log)
        record = found.value
        refusal = self._refusal(record)
        if refusal is not None:
            return refusal
        ends = self._end in (LogState.SEALED, LogState.DELETING)
        way_out = "call again to repeat it" if ends else "open it again to take it back"
        return TakeoverLostError(
            f"log {self._log} {describe_loss(record)}; {way_out}",
            log=self._log,
            epoch=record.epoch,
            owner=record.owner,
        )


def deletion_without(ledger_ids: Collection[int]) -> str:
    """How a log is deleted whose ledgers cannot be fenced, as an error message says it."""
    ids = ", ".join(str(one) for one in ledger_ids)
    options = " ".join(f"--given-up {one}" for one in ledger_ids)
    return f"delete(given_up=[{ids}]) or `dlog delete {options}`"


def describe_loss(record: LogMetadata) -> str:
    """What its newest owner has done with the log, as an error message continues after the log's name."""
    done = {
        LogState.ACTIVE: "was taken over",
        LogState.SEALED: "was sealed",
        LogState.DELETING: "is being deleted",
    }
    return f"{done[record.state]} by {describe_owner(record.owner)} in epoch {record.epoch}"


def describe_owner(owner: Owner | None) -> str:
    """The owner as an error message names it."""
    if owner is None:
        return "an unknown owner"
    name = f"{owner.name} " if owner.name else ""
    return f"{name}{owner.instance} (process {owner.process_id} on {owner.host or 'an unknown host'})"
