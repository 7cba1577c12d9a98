"""The changes a log's record can go through, each a pure function from the record read to the record to set.

Every change carries the nonce of its request and is made by compare-and-set at the version that was read. The
caller checks the result of the set.

Source: docs/log-semantics.md#rule-1, #rule-3, #rule-20, #rule-25, #rule-33, #rule-34b, #crash-windows.

Pitfall: docs/pitfalls.md#trim-under-a-reader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from dlog.model import (
    EARLIEST_ID,
    RECORD_VERSION,
    ListedLedger,
    LogMetadata,
    LogState,
    MessageId,
    Owner,
    PendingDelete,
    SealFacts,
)
from ledger.model import LedgerId

Seals = Mapping[LedgerId, SealFacts]


def with_seals(record: LogMetadata, seals: Seals, nonce: int) -> LogMetadata:
    """Record what is known of sealed ledgers. Facts once recorded never change (docs/log-semantics.md#i10)."""
    return replace(record, ledgers=tuple(_sealed(listed, seals) for listed in record.ledgers), nonce=nonce)


def with_new_ledger(record: LogMetadata, new: ListedLedger, seals: Seals, nonce: int) -> LogMetadata:
    """Rotation: list + [new], epoch and owner unchanged."""
    _assert_may_enter(record, new)
    sealed = with_seals(record, seals, nonce)
    return replace(sealed, ledgers=(*sealed.ledgers, new), last_ledger_id=new.ledger_id)


def taken_over(
    record: LogMetadata,
    new: ListedLedger,
    owner: Owner,
    seals: Seals,
    *,
    now_us: int,
    nonce: int,
    grace_us: int | None = None,
) -> LogMetadata:
    """Takeover: epoch + 1, owner, seal facts, list + [new]; empty ledgers leave the list.

    Every ledger whose seal the record did not hold is kept for the log's grace, which `grace_us` may raise.
    Source: docs/log-semantics.md#rule-20, #rule-25.
    """
    _assert_may_enter(record, new)
    record = _with_grace(record, grace_us)
    fenced = _fenced(record, seals, now_us)
    kept, dropped = _without(fenced, [listed.ledger_id for listed in fenced if listed.known_empty])
    return replace(
        record,
        epoch=record.epoch + 1,
        owner=owner,
        ledgers=(*kept, replace(new, epoch=record.epoch + 1)),
        last_ledger_id=new.ledger_id,
        pending_delete=_merged(record.pending_delete, dropped),
        nonce=nonce,
    )


def ended(
    record: LogMetadata,
    state: LogState,
    owner: Owner,
    seals: Seals,
    *,
    now_us: int,
    nonce: int,
    grace_us: int | None = None,
) -> LogMetadata:
    """Seal and Delete: a takeover without a new ledger (docs/log-semantics.md#rule-34b). DELETING empties the list."""
    record = _with_grace(record, grace_us)
    fenced = _fenced(record, seals, now_us)
    gone = [one.ledger_id for one in fenced if state is LogState.DELETING or one.known_empty]
    kept, dropped = _without(fenced, gone)
    return replace(
        record,
        state=state,
        epoch=record.epoch + 1,
        owner=owner,
        ledgers=kept,
        pending_delete=_merged(record.pending_delete, dropped),
        nonce=nonce,
    )


def shrunk(
    record: LogMetadata, before: MessageId, nonce: int, *, last_count: int | None = None
) -> LogMetadata:
    """Trim: raise `trim_before`; ledgers completely below it whose seal is recorded leave the list.

    Never removes the last ledger, nor one whose seal the record does not hold, nor any after such a one.
    `last_count` is the number of messages in the entry at `end_of_trimmed`. Without it, a reader that returns to the
    position after the last of them gets an error: it cannot be proved any more that it has missed none.
    Source: docs/log-semantics.md#rule-33.
    """
    trim = max(record.trim_before, before)
    gone = _wholly_below(record, trim)
    kept, dropped = _without(record.ledgers, [one.ledger_id for one in gone])
    end = end_of_trimmed(record, before)
    if end is None:
        end = record.trimmed_end
    elif last_count is None:
        end = MessageId(end.ledger_id, end.entry_id + 1, 0)
    else:
        end = end._replace(batch_index=last_count)
    return replace(
        record,
        trim_before=trim,
        trimmed_end=end,
        ledgers=kept,
        pending_delete=_merged(record.pending_delete, dropped),
        nonce=nonce,
    )


def end_of_trimmed(record: LogMetadata, before: MessageId) -> MessageId | None:
    """The last entry of the ledgers that a trim to `before` removes, as its first message's id; None if none."""
    for listed in reversed(_wholly_below(record, max(record.trim_before, before))):
        if listed.seal is not None and not listed.known_empty:
            return MessageId(listed.ledger_id, listed.seal.last_entry, 0)
    return None


def _wholly_below(record: LogMetadata, trim: MessageId) -> list[ListedLedger]:
    gone: list[ListedLedger] = []
    for listed, successor in zip(record.ledgers, record.ledgers[1:], strict=False):
        if listed.seal is None or MessageId(successor.ledger_id, 0, 0) > trim:
            break
        gone.append(listed)
    return gone


def with_orphan_barred(record: LogMetadata, orphan: LedgerId, nonce: int) -> LogMetadata:
    """The sweep's step for a ledger newer than all listed ones: afterwards it can never be listed."""
    assert orphan > record.last_ledger_id, "an older orphan can never be listed and needs no change"
    return replace(record, last_ledger_id=orphan, nonce=nonce)


def without_deleted(record: LogMetadata, deleted: Collection[LedgerId], nonce: int) -> LogMetadata:
    """Remove pending deletions that are done."""
    left = tuple(one for one in record.pending_delete if one.ledger_id not in deleted)
    return replace(record, pending_delete=left, nonce=nonce)


def due_for_deletion(record: LogMetadata, now_us: int) -> list[LedgerId]:
    """Ledgers whose time has come. Never one that is listed (docs/log-semantics.md#i13)."""
    listed = set(record.ledger_ids)
    return [
        one.ledger_id
        for one in record.pending_delete
        if one.not_before_us <= now_us and one.ledger_id not in listed
    ]


def waiting_for_deletion(record: LogMetadata, now_us: int) -> list[LedgerId]:
    """Ledgers whose time has not come: a paused writer may still add to them where deletions are forgotten."""
    listed = set(record.ledger_ids)
    return [
        one.ledger_id
        for one in record.pending_delete
        if one.not_before_us > now_us and one.ledger_id not in listed
    ]


def shrink_limit(record: LogMetadata) -> MessageId:
    """Highest id to which a trim is safe without asking a bookie (docs/log-semantics.md#rule-33)."""
    for listed in record.ledgers:
        if listed.seal is None:
            return MessageId(listed.ledger_id, 0, 0)
    if not record.ledgers:
        return max(record.trim_before, EARLIEST_ID)
    tail = record.ledgers[-1]
    assert tail.seal is not None
    return MessageId(tail.ledger_id, tail.seal.last_entry + 1, 0)


# ---- parts


def _assert_may_enter(record: LogMetadata, new: ListedLedger) -> None:
    # Source: docs/log-semantics.md#rule-3.
    assert new.ledger_id > record.last_ledger_id, "a ledger enters the list above every earlier id"


def _sealed(listed: ListedLedger, seals: Seals) -> ListedLedger:
    if listed.seal is not None or listed.ledger_id not in seals:
        return listed
    return replace(listed, seal=seals[listed.ledger_id])


def _with_grace(record: LogMetadata, grace_us: int | None) -> LogMetadata:
    """In the newest format, with the grace raised: earlier owners have relied on less. It never falls."""
    raised = record.grace_us if grace_us is None else max(record.grace_us, grace_us)
    return replace(record, format_version=RECORD_VERSION, grace_us=raised)


def _fenced(record: LogMetadata, seals: Seals, now_us: int) -> tuple[ListedLedger, ...]:
    """The list with the seals that fencing found; the record's own facts win."""
    found = []
    keep_until_us = now_us + record.grace_us if record.grace_us else 0
    for listed in record.ledgers:
        if listed.seal is None:
            assert listed.ledger_id in seals, "a takeover fences every ledger without a recorded seal"
            listed = replace(_sealed(listed, seals), keep_until_us=max(listed.keep_until_us, keep_until_us))
        found.append(listed)
    return tuple(found)


def _without(
    ledgers: tuple[ListedLedger, ...], gone: Collection[LedgerId]
) -> tuple[tuple[ListedLedger, ...], list[PendingDelete]]:
    """Split the list into what stays and what becomes pending for deletion."""
    left = set(gone)
    kept = tuple(one for one in ledgers if one.ledger_id not in left)
    dropped = [
        PendingDelete(ledger_id=one.ledger_id, not_before_us=one.keep_until_us)
        for one in ledgers
        if one.ledger_id in left
    ]
    return kept, dropped


def _merged(pending: tuple[PendingDelete, ...], more: Collection[PendingDelete]) -> tuple[PendingDelete, ...]:
    return tuple(sorted((*pending, *more), key=lambda one: one.ledger_id))
