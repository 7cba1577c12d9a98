"""The order in which a recovery does things, and where it ends the ledger."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ledger.core.recovery import (
    AwaitEntry,
    Close,
    FenceEnsemble,
    Finish,
    FinishWriteBack,
    GiveUp,
    MarkInRecovery,
    ReadEntries,
    ReadLength,
    RecoveryMachine,
    WriteBackEntry,
)
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, LedgerState, QuorumSizes
from ledger.wire.status import Answer

A, B, C, D, E = (BookieId(f"b{number}") for number in range(5))


def ledger(*fragments: tuple[int, tuple[BookieId, ...]], write: int = 3) -> LedgerMetadata:
    ensemble = len(fragments[0][1])
    return LedgerMetadata(
        quorum=QuorumSizes(ensemble=ensemble, write=write, ack=2),
        fragments=tuple(Fragment(EntryId(first), members) for first, members in fragments),
        state=LedgerState.IN_RECOVERY,
    )


def marked(metadata: LedgerMetadata, read_ahead_max: int = 32) -> RecoveryMachine:
    machine = RecoveryMachine(metadata, read_ahead_max)
    assert machine.start() == MarkInRecovery()
    assert machine.on_marked(metadata) == FenceEnsemble(metadata.last_fragment.ensemble)
    return machine


def fenced_at(lac: int, length: int, read_ahead_max: int = 32) -> RecoveryMachine:
    machine = marked(ledger((0, (A, B, C))), read_ahead_max)
    assert machine.on_fence_answer(0, Answer.YES, lac, length, "") is None
    count = min(2, read_ahead_max)
    assert machine.on_fence_answer(1, Answer.PROVED_NO, -1, 0, "") == ReadEntries(EntryId(lac + 1), count)
    return machine


def test_a_ledger_that_another_client_has_closed_is_left_alone() -> None:
    metadata = ledger((0, (A, B, C)))
    machine = RecoveryMachine(metadata, 32)
    assert machine.on_marked(metadata.closed_at(EntryId(4), 40)) == Finish()


def test_reading_starts_after_the_highest_lac_once_every_write_set_is_covered() -> None:
    """Bookies 2 and 4 are an ack quorum of the write set 2, 3, 4: three fenced ones of five are too few."""
    machine = marked(ledger((0, (A, B, C, D, E))))
    assert machine.on_fence_answer(0, Answer.YES, 3, 30, "") is None
    assert machine.on_fence_answer(1, Answer.YES, 7, 70, "") is None
    assert machine.on_fence_answer(2, Answer.UNKNOWN, -1, 0, "b2 is down") is None
    assert machine.on_fence_answer(3, Answer.YES, 5, 50, "") is None
    assert machine.on_fence_answer(4, Answer.PROVED_NO, -1, 0, "") == ReadEntries(EntryId(8), 2)


def test_reading_never_starts_below_the_last_fragment() -> None:
    machine = marked(ledger((0, (A, B, C)), (10, (A, B, D))))
    machine.on_fence_answer(0, Answer.YES, 4, 40, "")
    assert machine.on_fence_answer(2, Answer.PROVED_NO, -1, 0, "") == ReadEntries(EntryId(10), 2)


def test_a_member_lacks_what_it_held_nothing_of_below_the_lac() -> None:
    """Entries of earlier fragments are not its own; of a striped ensemble it holds some only."""
    machine = marked(ledger((0, (A, B, C)), (5, (A, B, D))))
    machine.on_fence_answer(0, Answer.YES, 9, 90, "")
    machine.on_fence_answer(1, Answer.YES, 8, 80, "")
    assert [machine.lacks_confirmed(2, last) for last in (-1, 4, 8, 9, 11)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    striped = marked(ledger((0, (A, B, C)), write=2))
    striped.on_fence_answer(0, Answer.YES, 4, 40, "")
    striped.on_fence_answer(1, Answer.YES, 4, 40, "")
    assert [striped.lacks_confirmed(2, last) for last in (1, 2, 3, 4)] == [True, True, True, False]


def test_too_few_fenced_bookies_end_the_recovery_with_their_reasons() -> None:
    machine = marked(ledger((0, (A, B, C))))
    machine.on_fence_answer(0, Answer.UNKNOWN, -1, 0, "b0 is down")
    machine.on_fence_answer(1, Answer.YES, 4, 40, "")
    given_up = machine.on_fence_answer(2, Answer.UNKNOWN, -1, 0, "b2 is silent")
    assert given_up == GiveUp("too few bookies could be fenced", ("b0 is down", "b2 is silent"))


def test_each_entry_found_is_written_back_with_the_lac_that_recovery_began_with() -> None:
    machine = fenced_at(4, 40)
    for entry_id, after in ((5, AwaitEntry()), (6, ReadEntries(EntryId(7), 4))):
        assert machine.on_found(EntryId(entry_id), 10 * entry_id) == WriteBackEntry(EntryId(4))
        assert machine.on_sent_back() == after
    assert machine.on_absent() == FinishWriteBack()
    assert machine.on_written_back() == Close(EntryId(6), 60)


@pytest.mark.parametrize(("maximum", "counts"), [(32, [2, 4, 8, 16, 32, 32]), (1, [1, 1]), (5, [2, 4, 5, 5])])
def test_few_entries_are_read_first_and_then_more(maximum: int, counts: list[int]) -> None:
    machine = fenced_at(-1, 0, maximum)
    next_entry = 0
    for count, next_count in pairwise(counts):
        for entry_id in range(next_entry, next_entry + count):
            machine.on_found(EntryId(entry_id), entry_id)
            command = machine.on_sent_back()
        next_entry += count
        assert command == ReadEntries(EntryId(next_entry), next_count)


def test_without_an_entry_above_it_the_ledger_ends_at_the_lac() -> None:
    machine = fenced_at(4, 40)
    assert machine.on_absent() == FinishWriteBack()
    assert machine.on_written_back() == ReadLength(EntryId(4))
    assert machine.on_length(44) == Close(EntryId(4), 44)


def test_the_length_of_a_ledger_with_one_confirmed_entry_is_read() -> None:
    machine = fenced_at(0, 40)
    machine.on_absent()
    assert machine.on_written_back() == ReadLength(EntryId(0))


def test_of_headers_with_the_same_lac_the_first_claims_the_length() -> None:
    machine = marked(ledger((0, (A, B, C))))
    machine.on_fence_answer(0, Answer.YES, 4, 40, "")
    machine.on_fence_answer(1, Answer.YES, 4, 70, "")
    assert machine.claimed_length == 40


def test_a_confirmed_entry_that_cannot_be_read_does_not_stop_the_close() -> None:
    machine = fenced_at(4, 40)
    machine.on_absent()
    machine.on_written_back()
    assert machine.on_length(None) == Close(EntryId(4), 40)


def test_an_empty_ledger_is_closed_without_reading_anything() -> None:
    machine = fenced_at(-1, 0)
    machine.on_absent()
    assert machine.on_written_back() == Close(EntryId(-1), 0)


def test_bookies_that_answered_are_asked_first() -> None:
    machine = marked(ledger((0, (A, B, C))))
    machine.on_fence_answer(2, Answer.YES, 4, 40, "")
    assert machine.replicas(6) == [C, A, B]
    machine.on_fence_answer(1, Answer.YES, 4, 40, "")
    machine.on_unresponsive(C)
    assert machine.replicas(6) == [B, A, C]
