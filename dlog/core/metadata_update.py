"""What the answer to a compare-and-set of the record means. Pure.

A refusal is definite only if no earlier attempt of the same request is in doubt. After a lost answer the record is
read again, linearizably. Our nonce means success. An unchanged version means that the same request may be sent again.
A version that moved on without our nonce decides the request permanently, and the record shows how
(docs/log-semantics.md#rule-9, #rule-10, #rule-22). A new ledger may be deleted only where the verdict is *refused*.

Pitfall: docs/pitfalls.md#lost-answer-to-a-compare-and-set.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dlog.model import LogMetadata, LogState
from ledger.model import LedgerId, Versioned


@dataclass(frozen=True, slots=True)
class Applied:
    """The change is in the store: `record` at `version`, perhaps with another client's change on top."""

    record: LogMetadata
    version: int


@dataclass(frozen=True, slots=True)
class NotOurs:
    """The record is not the expected one; `found` is None if it does not exist.

    `definite`: our request was certainly refused. Otherwise it was refused, or applied and then changed again.
    """

    found: Versioned[LogMetadata] | None
    definite: bool


class Look(Enum):
    """What a fresh read shows after an answer was lost."""

    APPLIED = "applied"
    SEND_AGAIN = "send again"
    DECIDED = "decided"


def look_again(sent: LogMetadata, expected_version: int, found: Versioned[LogMetadata] | None) -> Look:
    """Judge a fresh read made after the answer to `sent` (a change of `expected_version`) was lost."""
    if found is None or found.value.log_uuid != sent.log_uuid:
        return Look.DECIDED
    if found.value.nonce == sent.nonce:
        return Look.APPLIED
    return Look.SEND_AGAIN if found.version == expected_version else Look.DECIDED


@dataclass(frozen=True, slots=True)
class Won:
    """The takeover is in force."""

    record: LogMetadata
    version: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """Refused with the epoch unchanged: read, fence and try again. The new ledger can never be listed."""

    found: Versioned[LogMetadata]


@dataclass(frozen=True, slots=True)
class Lost:
    """Another client took the log over, or it ended. `may_delete_new`: the new ledger was definitely not listed."""

    found: Versioned[LogMetadata] | None
    may_delete_new: bool


TakeoverVerdict = Won | StartOver | Lost


def takeover_verdict(before: LogMetadata, sent: LogMetadata, answer: Applied | NotOurs) -> TakeoverVerdict:
    """Whether the candidate that sent `sent` (made from `before`) has won.

    Source: docs/log-semantics.md#rule-10, #rule-22.
    """
    if isinstance(answer, Applied):
        return Won(answer.record, answer.version)
    found = answer.found
    if found is None or found.value.log_uuid != before.log_uuid:
        return Lost(found, may_delete_new=answer.definite)
    now = found.value
    if now.epoch == before.epoch:
        # Whether it was applied or not, the request is not in force, and its version never comes back.
        return StartOver(found)
    if not answer.definite and now.epoch == sent.epoch and now.owner == sent.owner and _same_tail(now, sent):
        return Won(now, found.version)
    return Lost(found, may_delete_new=answer.definite)


@dataclass(frozen=True, slots=True)
class Rebase:
    """Refused while we still own the log: make the change again from `found`."""

    found: Versioned[LogMetadata]


@dataclass(frozen=True, slots=True)
class Deposed:
    """The log is no longer ours. Nothing may be deleted because of this."""

    found: LogMetadata | None


OwnerVerdict = Applied | Rebase | Deposed


def owner_verdict(before: LogMetadata, sent: LogMetadata, answer: Applied | NotOurs) -> OwnerVerdict:
    """The outcome of a change by the owner: a rotation, or a change that keeps the list.

    Source: docs/log-semantics.md#rule-9, #rule-10.
    """
    if isinstance(answer, Applied):
        return answer
    found = answer.found
    if found is None or not same_ownership(before, found.value):
        return Deposed(None if found is None else found.value)
    rotation = not _same_tail(before, sent)
    if rotation and not answer.definite and _same_tail(found.value, sent):
        return Applied(found.value, found.version)
    if _same_tail(found.value, before):
        return Rebase(found)
    return Deposed(found.value)


def same_ownership(ours: LogMetadata, found: LogMetadata) -> bool:
    """Whether `found` still names us: incarnation, epoch, owner, and a log that takes appends."""
    return (
        found.log_uuid == ours.log_uuid
        and found.epoch == ours.epoch
        and found.owner == ours.owner
        and found.state is LogState.ACTIVE
    )


def may_enter_list(record: LogMetadata, ledger_id: LedgerId) -> bool:
    """Only an id above everything ever listed or barred may enter; otherwise create another ledger.

    Source: docs/log-semantics.md#rule-3.
    """
    return ledger_id > record.last_ledger_id


def _same_tail(one: LogMetadata, other: LogMetadata) -> bool:
    return one.ledger_ids[-1:] == other.ledger_ids[-1:]
