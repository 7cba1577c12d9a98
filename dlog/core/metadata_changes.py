"""The changes a log's record can go through, each a pure function from the record read to the record to set.

Every change carries the nonce of its request and is made by compare-and-set at the version that was read. The
caller checks the result of the set.

Source: docs/log-semantics.md#rule-1, #rule-3, #rule-20, #rule-25, #rule-33, #rule-34b, #crash-windows.

Pitfall: docs/pitfalls.md#trim-under-a-reader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from dlog.ledger_list.trim_cut import PENDING_MAX, TrimCut
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
    SinkMark,
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
    kept, dropped = _without(fenced, _droppable(record, fenced))
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
    """A takeover without a new ledger: Seal, Delete (docs/log-semantics.md#rule-34b), or a sink's, which keeps ACTIVE.

    DELETING empties the list.
    """
    record = _with_grace(record, grace_us)
    fenced = _fenced(record, seals, now_us)
    deleting = state is LogState.DELETING
    leaving = [one.ledger_id for one in fenced] if deleting else _droppable(record, fenced)
    kept, dropped = _without(fenced, leaving)
    return replace(
        record,
        state=state,
        first_id=record.last_ledger_id + 1 if deleting and record.pages else record.first_id,
        epoch=record.epoch + 1,
        owner=owner,
        ledgers=kept,
        pending_delete=_merged(record.pending_delete, dropped),
        nonce=nonce,
    )


def with_published(
    record: LogMetadata, ledgers: Sequence[ListedLedger], sinks: tuple[SinkMark, ...], nonce: int
) -> LogMetadata:
    """A sink's batch: list + its sealed ledgers, in the order of their ids, and the sinks' marks; owner unchanged."""
    assert ledgers, "a batch without messages changes nothing"
    for one in ledgers:
        _assert_may_enter(record, one)
        assert one.seal is not None and one.seal.last_entry >= 0, "a sink lists sealed ledgers with entries"
    ordered = sorted(ledgers, key=lambda one: one.ledger_id)
    return replace(
        record,
        ledgers=(*record.ledgers, *ordered),
        last_ledger_id=ordered[-1].ledger_id,
        sinks=sinks,
        nonce=nonce,
    )


def shrunk(
    record: LogMetadata, before: MessageId, cut: TrimCut | None, nonce: int, *, last_count: int | None = None
) -> LogMetadata:
    """Trim: raise `trim_before`, and take what `cut` says out of the list.

    `last_count` is the number of messages in the entry at `cut.end`. Without it, a reader that returns to the position
    after the last of them gets an error: it cannot be proved any more that it has missed none.
    Source: docs/log-semantics.md#rule-33.
    """
    trimmed = replace(record, trim_before=max(record.trim_before, before), nonce=nonce)
    if cut is None:
        return trimmed
    below = [one for one in record.ledgers if one.ledger_id < cut.floor]
    assert all(one.seal is not None for one in below), (
        "a ledger leaves the list only after its seal is recorded"
    )
    kept, dropped = _without(record.ledgers, [one.ledger_id for one in below])
    assert kept, "the last ledger never leaves the list"
    return replace(
        trimmed,
        trimmed_end=max(record.trimmed_end, _end_of(cut, last_count)),
        ledgers=kept,
        first_id=max(record.first_id, cut.floor) if record.pages else record.first_id,
        pending_delete=_merged(record.pending_delete, dropped),
    )


def _end_of(cut: TrimCut, count: int | None) -> MessageId:
    """The position after all messages that it drops, of which the last entry has `count`, if that is known."""
    if cut.lost_through is not None:
        return MessageId(cut.lost_through + 1, 0, 0)
    end = cut.end
    if end is None:
        return EARLIEST_ID
    return MessageId(end.ledger_id, end.entry_id + 1, 0) if count is None else end._replace(batch_index=count)


def with_orphan_barred(record: LogMetadata, orphan: LedgerId, nonce: int) -> LogMetadata:
    """The sweep's step for a ledger newer than all listed ones: afterwards it can never be listed."""
    assert orphan > record.last_ledger_id, "an older orphan can never be listed and needs no change"
    return replace(record, last_ledger_id=orphan, nonce=nonce)


def without_deleted(record: LogMetadata, deleted: Collection[LedgerId], nonce: int) -> LogMetadata:
    """Remove pending deletions that are done."""
    left = tuple(one for one in record.pending_delete if one.ledger_id not in deleted)
    return replace(record, pending_delete=left, nonce=nonce)


def without_deleted_pages(record: LogMetadata, deleted_below: int, nonce: int) -> LogMetadata:
    """Ledgers in pages below this id, which have left the list, are deleted. Pages without any other are dropped."""
    assert deleted_below <= record.first_id, "a listed ledger is never deleted"
    kept = tuple(page for page in record.pages if page.last_id >= deleted_below)
    return replace(record, pages=kept, deleted_below=max(record.deleted_below, deleted_below), nonce=nonce)


def with_found_pending(
    record: LogMetadata, found: Collection[LedgerId], *, now_us: int, nonce: int
) -> LogMetadata:
    """Ledgers of a lost page, of which nothing is listed, wait for their deletion one by one.

    The page said until when each must be kept, at most for a grace that had begun already.
    Source: docs/log-semantics.md#rule-25, #pages.
    """
    not_before_us = now_us + record.grace_us if record.grace_us else 0
    known = {one.ledger_id for one in record.pending_delete}
    new = [PendingDelete(ledger_id=one, not_before_us=not_before_us) for one in found if one not in known]
    return replace(record, pending_delete=_merged(record.pending_delete, new), nonce=nonce)


def has_deletable(record: LogMetadata) -> bool:
    """Whether ledgers wait for their deletion."""
    return bool(record.pending_delete) or (bool(record.pages) and record.deleted_below < record.first_id)


def due_for_deletion(record: LogMetadata, now_us: int) -> list[LedgerId]:
    """Pending ledgers whose time has come. Never one of the newest listed (docs/log-semantics.md#i13)."""
    return [one.ledger_id for one in _unlisted(record) if one.not_before_us <= now_us]


def waiting_for_deletion(record: LogMetadata, now_us: int) -> list[LedgerId]:
    """Those whose time has not come: a paused writer may still add to them where deletions are forgotten."""
    return [one.ledger_id for one in _unlisted(record) if one.not_before_us > now_us]


def _unlisted(record: LogMetadata) -> list[PendingDelete]:
    listed = set(record.ledger_ids)
    return [one for one in record.pending_delete if one.ledger_id not in listed]


def last_append_us(record: LogMetadata) -> int:
    """The newest append time recorded: the next entry's is not below it, whatever the clock says.

    Of a ledger whose last entry could not be read when it was sealed only the creation time is known.
    """
    recent = (
        one.seal.last_append_us or one.created_us
        for one in record.ledgers
        if one.seal is not None and not one.known_empty
    )
    return max((*recent, *(page.last_append_us for page in record.pages)), default=0)


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


def _droppable(record: LogMetadata, fenced: tuple[ListedLedger, ...]) -> list[LedgerId]:
    """Empty ledgers; none while too many wait for their deletion, since an empty ledger may as well stay listed.

    Invariant: after the pages the record lists at least one ledger, so the tail is never in a page.
    """
    empty = [listed.ledger_id for listed in fenced if listed.known_empty]
    if record.pages and len(empty) == len(fenced):
        del empty[-1]
    return empty if len(record.pending_delete) + len(empty) <= PENDING_MAX else []


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
