"""The changes of a record, each against the rule it must keep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.core.metadata_changes import (
    due_for_deletion,
    ended,
    last_append_us,
    shrink_limit,
    taken_over,
    waiting_for_deletion,
    with_new_ledger,
    with_orphan_barred,
    with_seals,
    without_deleted,
)
from dlog.core.metadata_update import may_enter_list
from dlog.format.log_metadata import decode_record, encode_record
from dlog.ledger_list.page import LedgerPage, ref_to
from dlog.model import GRACE_US, RECORD_VERSION, LogMetadata, LogState, MessageId, PendingDelete
from ledger.model import LedgerId
from tests.helpers.log.lists import cut_of, trimmed
from tests.helpers.log.records import ALICE, BOB, ids, listed, record, seal

PAGE = ref_to("0-1-1-1", LedgerPage((listed(1, 4), listed(2, 4))))


def pending(ledger_id: int, not_before_us: int = 0) -> PendingDelete:
    return PendingDelete(ledger_id=LedgerId(ledger_id), not_before_us=not_before_us)


def test_a_rotation_keeps_epoch_and_owner_and_raises_the_high_water_mark() -> None:
    after = with_new_ledger(record(listed(1)), listed(4), {LedgerId(1): seal(2)}, nonce=5)
    assert (after.epoch, after.owner, after.last_ledger_id, after.nonce) == (1, ALICE, 4, 5)
    assert after.ledgers == (listed(1, 2), listed(4))


def test_an_id_at_or_below_the_high_water_mark_never_enters_the_list() -> None:
    """A rebase keeps an id that the sweep has already barred (docs/log-semantics.md#rule-3)."""
    barred = replace(record(listed(1)), last_ledger_id=4)
    with pytest.raises(AssertionError):
        with_new_ledger(barred, listed(4), {}, nonce=5)
    with pytest.raises(AssertionError):
        taken_over(barred, listed(3), BOB, {LedgerId(1): seal(0)}, now_us=0, nonce=5)


def test_recorded_seal_facts_never_change() -> None:
    """Whatever a later recovery believes (docs/log-semantics.md#i10)."""
    once = with_seals(record(listed(1, 4), listed(2)), {LedgerId(1): seal(9), LedgerId(2): seal(1)}, nonce=5)
    assert once.ledgers == (listed(1, 4), listed(2, 1))


def brief(log: LogMetadata) -> LogMetadata:
    return replace(log, grace_us=400)


def test_a_takeover_raises_the_epoch_and_drops_empty_ledgers_in_the_same_change() -> None:
    before = record(listed(1, 4), listed(2), listed(3))
    seals = {LedgerId(2): seal(7), LedgerId(3): seal(-1)}
    after = taken_over(brief(before), listed(8), BOB, seals, now_us=600, nonce=5, grace_us=400)
    assert (after.epoch, after.owner, after.last_ledger_id) == (2, BOB, 8)
    assert ids(after.ledgers) == [1, 2, 8]
    assert after.ledgers[-1].epoch == 2
    assert after.pending_delete == (pending(3, 1000),)
    assert decode_record(encode_record(after)) == after


def test_a_takeover_keeps_every_ledger_whose_seal_was_not_recorded_for_the_grace() -> None:
    """Not only the empty ones, and however they came to be sealed (docs/log-semantics.md#rule-25)."""
    before = record(listed(1, 4), listed(2), listed(3, -1))
    after = taken_over(brief(before), listed(8), BOB, {LedgerId(2): seal(7)}, now_us=600, nonce=5)
    assert [(one.ledger_id, one.keep_until_us) for one in after.ledgers] == [(1, 0), (2, 1000), (8, 0)]
    assert after.pending_delete == (pending(3, 0),)
    left = trimmed(after, MessageId(8, 0, 0), nonce=6)
    assert left.pending_delete == (pending(1, 0), pending(3, 0))
    later = trimmed(
        with_new_ledger(left, listed(9), {LedgerId(8): seal(1)}, nonce=7), MessageId(9, 0, 0), nonce=8
    )
    assert later.pending_delete == (pending(1, 0), pending(2, 1000), pending(3, 0))


def test_the_grace_is_the_logs_and_a_takeover_may_only_raise_it() -> None:
    """The owner that was deposed counted on at least as much. A seal or a delete is a takeover."""
    before, seals = brief(record(listed(1))), {LedgerId(1): seal(7)}
    for asked, kept in ((None, 400), (0, 400), (399, 400), (401, 401)):
        for after in (
            taken_over(before, listed(8), BOB, seals, now_us=600, nonce=5, grace_us=asked),
            ended(before, LogState.SEALED, BOB, seals, now_us=600, nonce=5, grace_us=asked),
        ):
            assert (after.grace_us, after.ledgers[0].keep_until_us) == (kept, 600 + kept)
    none = taken_over(replace(before, grace_us=0), listed(8), BOB, seals, now_us=600, nonce=5)
    assert none.ledgers[0].keep_until_us == 0


def test_a_record_of_version_1_becomes_one_of_version_2_at_the_next_takeover() -> None:
    """Its owner may be of a release that reads no other, until it is deposed."""
    before = replace(record(listed(1, 4), listed(2)), format_version=1)
    assert trimmed(before, MessageId(2, 0, 0), nonce=6).format_version == 1
    assert with_new_ledger(before, listed(3), {}, nonce=6).format_version == 1
    for after in (
        taken_over(before, listed(8), BOB, {LedgerId(2): seal(7)}, now_us=600, nonce=5),
        ended(before, LogState.DELETING, BOB, {LedgerId(2): seal(7)}, now_us=600, nonce=5),
    ):
        assert (after.format_version, after.grace_us) == (RECORD_VERSION, GRACE_US)


def test_a_takeover_that_did_not_fence_everything_is_our_own_bug() -> None:
    with pytest.raises(AssertionError):
        taken_over(record(listed(1), listed(2)), listed(8), BOB, {}, now_us=0, nonce=5)


def test_seal_ends_the_log_with_a_new_epoch_and_no_new_ledger() -> None:
    before = record(listed(1, 4), listed(2))
    after = ended(
        brief(before), LogState.SEALED, BOB, {LedgerId(2): seal(7)}, now_us=600, nonce=5, grace_us=400
    )
    assert (after.state, after.epoch, after.owner) == (LogState.SEALED, 2, BOB)
    assert [(one.ledger_id, one.seal) for one in after.ledgers] == [(1, seal(4)), (2, seal(7))]
    assert decode_record(encode_record(after)) == after


@pytest.mark.parametrize("state", [LogState.SEALED, LogState.ACTIVE])
def test_a_log_in_pages_ends_with_a_listed_ledger_although_that_is_empty(state: LogState) -> None:
    """The tail of a log is never in a page: readers, producers and trims begin at the last listed ledger."""
    before = replace(record(listed(8, -1), listed(9)), pages=(PAGE,))
    after = ended(before, state, BOB, {LedgerId(9): seal(-1)}, now_us=600, nonce=5)
    assert after.ledger_ids == (9,)
    assert [one.ledger_id for one in after.pending_delete] == [8]
    no_pages = ended(replace(before, pages=()), state, BOB, {LedgerId(9): seal(-1)}, now_us=600, nonce=5)
    assert no_pages.ledger_ids == ()


def test_of_a_ledger_without_entries_no_time_counts() -> None:
    """The clock may have been ahead when it was created, and no append has had that time."""
    ahead = replace(listed(2, -1), created_us=1_800_000_000_000_000)
    assert last_append_us(record(listed(1, 4), ahead)) == seal(4).last_append_us
    assert last_append_us(record(ahead)) == 0
    unread = replace(seal(4), last_append_us=0)
    assert last_append_us(record(replace(ahead, seal=unread))) == ahead.created_us


def test_delete_moves_every_ledger_to_pending_delete() -> None:
    before = record(listed(1, 4), listed(2))
    after = ended(brief(before), LogState.DELETING, BOB, {LedgerId(2): seal(7)}, now_us=600, nonce=5)
    assert after.ledgers == ()
    assert after.pending_delete == (pending(1, 0), pending(2, 1000))


@pytest.mark.parametrize(
    ("to", "left"),
    [
        (MessageId(1, 0, 0), [1, 2, 3, 9]),
        (MessageId(1, 99, 0), [1, 2, 3, 9]),
        (MessageId(2, 0, 0), [2, 3, 9]),
        (MessageId(2, 3, 0), [2, 3, 9]),
        (MessageId(3, 0, 0), [2, 3, 9]),
        (MessageId(9, 0, 0), [2, 3, 9]),
        (MessageId(9, 5, 0), [2, 3, 9]),
    ],
)
def test_shrink_removes_whole_older_ledgers_with_a_recorded_seal(to: MessageId, left: list[int]) -> None:
    """Ledger 3 has no recorded seal, 9 is the last, 2 the newest known to have entries: none of them leaves the list.

    Source: docs/log-semantics.md#rule-33, #rule-36.
    """
    before = record(listed(1, 4), listed(2, 7), listed(3), listed(9))
    after = trimmed(before, to, nonce=5)
    assert ids(after.ledgers) == left
    assert after.trim_before == to
    assert after.last_ledger_id == 9
    assert ids(before.ledgers)[: 4 - len(left)] == [one.ledger_id for one in after.pending_delete]


def test_shrink_never_lowers_the_trim_id_and_never_removes_the_last_ledger() -> None:
    before = replace(record(listed(1, 4), listed(2, 7)), trim_before=MessageId(2, 3, 1))
    after = trimmed(before, MessageId(1, 0, 0), nonce=5)
    assert after.trim_before == MessageId(2, 3, 1)
    assert ids(after.ledgers) == [2]


@pytest.mark.parametrize(
    ("to", "end"),
    [
        (MessageId(1, 9, 0), None),
        (MessageId(2, 0, 0), MessageId(1, 4, 0)),
        (MessageId(3, 0, 0), MessageId(1, 4, 0)),
        (MessageId(4, 0, 0), MessageId(3, 7, 0)),
        (MessageId(5, 0, 0), MessageId(3, 7, 0)),
    ],
)
def test_the_end_of_what_a_trim_removes_is_the_last_entry_that_there_was(
    to: MessageId, end: MessageId | None
) -> None:
    """Ledger 2 was empty; a trim mark that is above already counts as the trim itself."""
    before = record(listed(1, 4), listed(2, -1), listed(3, 7), listed(4, 0), listed(5))
    for found in (cut_of(before, to), cut_of(replace(before, trim_before=to), MessageId(0, 0, 0))):
        assert (None if found is None else found.end) == end
    earlier = replace(before, trimmed_end=MessageId(0, 8, 0))
    counted = trimmed(earlier, to, nonce=5, last_count=3).trimmed_end
    assert counted == (MessageId(0, 8, 0) if end is None else end._replace(batch_index=3))


def test_without_a_count_the_position_after_the_last_trimmed_message_is_unknown() -> None:
    """The end is put behind the entry, so a reader that returns to a place within it gets an error."""
    after = trimmed(record(listed(1, 4), listed(2, 1), listed(3)), MessageId(2, 0, 0), nonce=5)
    assert after.trimmed_end == MessageId(1, 5, 0)


def test_the_shrink_limit_is_the_first_ledger_without_a_recorded_seal() -> None:
    assert shrink_limit(record(listed(1, 4), listed(2), listed(3))) == MessageId(2, 0, 0)
    assert shrink_limit(record(listed(1, 4), listed(2, 6))) == MessageId(2, 7, 0)
    assert shrink_limit(record(epoch=0, owner=None)) == MessageId(0, 0, 0)
    emptied = replace(record(epoch=0, owner=None), trim_before=MessageId(3, 1, 0))
    assert shrink_limit(emptied) == MessageId(3, 1, 0)


def test_a_barred_orphan_can_never_be_listed() -> None:
    after = with_orphan_barred(record(listed(1)), LedgerId(7), nonce=5)
    assert (after.last_ledger_id, after.ledger_ids, after.pending_delete) == (7, (1,), ())
    assert not may_enter_list(after, LedgerId(7))


def test_a_ledger_out_of_the_list_waits_for_its_time() -> None:
    after = replace(record(listed(1)), pending_delete=(pending(7, 500),))
    assert (due_for_deletion(after, 499), waiting_for_deletion(after, 499)) == ([], [7])
    assert (due_for_deletion(after, 500), waiting_for_deletion(after, 500)) == ([7], [])
    assert without_deleted(after, [LedgerId(7)], nonce=6).pending_delete == ()


def test_a_listed_ledger_is_never_due_for_deletion() -> None:
    """Even if a record claims both (docs/log-semantics.md#i13)."""
    odd = replace(record(listed(1)), pending_delete=(pending(1, 500),))
    assert due_for_deletion(odd, 10**18) == []
    assert waiting_for_deletion(odd, 0) == []
