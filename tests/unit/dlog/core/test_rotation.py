"""The rotation machine, event by event. Each test names the rule that it checks."""

from __future__ import annotations

from dataclasses import replace

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
from dlog.core.metadata_update import Applied, NotOurs
from dlog.core.rotation import Phase, Rotation
from dlog.model import LogMetadata, MessageId
from ledger.model import LedgerId, Versioned
from tests.helpers.log.records import BOB, ids, listed, record, seal

P, N, M = LedgerId(2), LedgerId(5), LedgerId(9)
START = record(listed(1, 4), listed(P))


def machine() -> Rotation:
    rotation = Rotation(START, 5, P)
    assert rotation.start() == [SubmitTo(P), Release(P)]
    return rotation


def written(commands: list[Command]) -> LogMetadata:
    assert isinstance(commands[-1], WriteRecord)
    return commands[-1].record


def listing(rotation: Rotation, new: LedgerId = N) -> LogMetadata:
    assert rotation.on_rotation_due() == [CreateLedger(1)]
    return written(rotation.on_ledger_created(new, 1000, 77))


def draining(rotation: Rotation, new: LedgerId = N) -> None:
    sent = listing(rotation, new)
    assert rotation.on_answer(Applied(sent, 6), 1000, 78) == [Hold(), Drain(P)]


def closing(rotation: Rotation) -> None:
    draining(rotation)
    assert rotation.on_drained(P) == [CloseLedger(P), SubmitTo(N)]


def test_a_rotation_lists_drains_closes_and_only_then_releases() -> None:
    """Source: docs/log-semantics.md#rule-15, #i11."""
    rotation = machine()
    sent = listing(rotation)
    assert (ids(sent.ledgers), sent.epoch, sent.owner) == ([1, 2, 5], START.epoch, START.owner)
    assert rotation.on_answer(Applied(sent, 6), 1000, 78) == [Hold(), Drain(P)]
    assert rotation.on_drained(P) == [CloseLedger(P), SubmitTo(N)]
    assert rotation.on_closed(P, seal(3), 79) == [SubmitTo(N), Release(N)]
    assert (rotation.phase, rotation.current) == (Phase.STEADY, N)


def test_nothing_starts_a_second_rotation_before_the_first_seal() -> None:
    """Never three unsealed ledgers (docs/log-semantics.md#rule-16)."""
    rotation = machine()
    closing(rotation)
    assert rotation.on_rotation_due() == []
    rotation.on_closed(P, seal(3), 79)
    assert rotation.on_rotation_due() == [CreateLedger(1)]


def test_the_next_rotation_records_the_seal_of_the_last() -> None:
    rotation = machine()
    closing(rotation)
    rotation.on_closed(P, seal(3), 79)
    sent = listing(rotation, M)
    assert [(one.ledger_id, one.seal) for one in sent.ledgers] == [
        (1, seal(4)),
        (2, seal(3)),
        (5, None),
        (9, None),
    ]


def test_a_failed_create_leaves_the_old_ledger_in_use() -> None:
    """Best effort; no Hold is among the commands (docs/log-semantics.md#rule-17)."""
    rotation = machine()
    rotation.on_rotation_due()
    assert rotation.on_create_failed() == [Retry(1)]
    assert rotation.on_retry(1, 1) == [CreateLedger(1)]
    assert rotation.on_create_failed() == [Retry(2)]


def test_an_unreachable_store_leaves_the_old_ledger_in_use_and_keeps_the_new_one() -> None:
    rotation = machine()
    listing(rotation)
    assert rotation.on_store_unavailable() == [Retry(1)]
    assert ids(written(rotation.on_retry(2000, 99)).ledgers) == [1, 2, 5]


def test_the_barrier_is_lifted_while_nothing_was_submitted_to_the_new_ledger() -> None:
    rotation = machine()
    draining(rotation)
    assert rotation.on_store_unreachable() == [SubmitTo(P), Retry(1)]
    assert rotation.on_drained(P) == []
    assert rotation.on_retry(1, 1) == [ProbeStore()]
    assert rotation.on_store_unreachable() == [Retry(2)]
    assert rotation.on_store_reachable() == []
    assert rotation.on_retry(1, 1) == [ProbeStore()]
    assert rotation.on_store_reachable() == [Hold(), Drain(P)]
    assert rotation.on_store_reachable() == []
    assert rotation.on_drained(P) == [CloseLedger(P), SubmitTo(N)]


def test_the_barrier_is_raised_for_good_when_the_writer_ends() -> None:
    """Seed 647: each answer took longer than a probe waits, and a writer that had nothing in flight did not end."""
    rotation = machine()
    draining(rotation)
    assert rotation.on_store_unreachable() == [SubmitTo(P), Retry(1)]
    assert rotation.on_close_requested(holding=False) == [Hold(), Drain(P)]
    assert rotation.on_retry(1, 1) == []
    assert rotation.on_store_unreachable() == []
    assert rotation.on_drained(P) == [CloseLedger(P), SubmitTo(N)]
    assert rotation.on_closed(P, seal(3), 79) == [SubmitTo(N), Release(N), Drain(N)]


def test_the_barrier_is_never_lifted_once_the_close_is_sent() -> None:
    """An append to P after its close may be after the seal (docs/log-semantics.md#rule-17)."""
    rotation = machine()
    closing(rotation)
    assert rotation.on_store_unreachable() == []
    assert rotation.on_close_undecided() == [Retry(1)]
    assert rotation.on_retry(1, 1) == [CloseLedger(P)]
    assert rotation.on_closed(P, seal(3), 79) == [SubmitTo(N), Release(N)]


def test_a_concurrent_shrink_makes_the_owner_rebase_with_the_same_ledger() -> None:
    """A refusal is no deposition (docs/log-semantics.md#rule-9)."""
    rotation = machine()
    listing(rotation)
    shrunk = replace(START, trim_before=MessageId(2, 1), nonce=500)
    sent = written(rotation.on_answer(NotOurs(Versioned(shrunk, 6), definite=True), 1000, 80))
    assert (sent.trim_before, ids(sent.ledgers)) == (MessageId(2, 1), [1, 2, 5])


def test_a_rebase_never_keeps_an_id_at_or_below_the_high_water_mark() -> None:
    """The sweep has barred ledger 5 (docs/log-semantics.md#rule-3)."""
    rotation = machine()
    listing(rotation)
    barred = replace(START, last_ledger_id=5, nonce=500)
    commands = rotation.on_answer(NotOurs(Versioned(barred, 6), definite=True), 1000, 80)
    assert commands == [DiscardLedger(N), CreateLedger(1)]
    assert ids(written(rotation.on_ledger_created(M, 1, 2)).ledgers) == [1, 2, 9]


def test_a_refusal_by_a_new_owner_deposes_and_deletes_nothing() -> None:
    """Source: docs/log-semantics.md#rule-9, #rule-10."""
    rotation = machine()
    listing(rotation)
    winner = replace(START, epoch=2, owner=BOB)
    for definite in (True, False):
        again = machine()
        listing(again)
        commands = again.on_answer(NotOurs(Versioned(winner, 6), definite=definite), 1, 2)
        assert commands == [Hold(), Depose(winner)]
        assert again.over


def test_a_lost_answer_that_turns_out_applied_goes_on_draining() -> None:
    rotation = machine()
    sent = listing(rotation)
    on_top = replace(sent, trim_before=MessageId(2, 0), nonce=500)
    answer = NotOurs(Versioned(on_top, 7), definite=False)
    assert rotation.on_answer(answer, 1, 2) == [Hold(), Drain(P)]


def recovered(rotation: Rotation, new: LedgerId | None, *others: LedgerId) -> list[Command]:
    """The takeover of the own log lists `new` after the ledgers that it has sealed."""
    sealed = [*START.ledgers[:-1], listed(P, 3), *(listed(one, 3) for one in others)]
    record = replace(
        START, ledgers=tuple(sealed if new is None else [*sealed, listed(new)]), last_ledger_id=new or P
    )
    return rotation.on_recovered(record, 7, new, 80)


def test_a_failed_ledger_is_recovered_before_a_new_one_takes_appends() -> None:
    """Source: docs/log-semantics.md#rule-19."""
    rotation = machine()
    assert rotation.on_failed(P, fenced=False) == [Hold(), Recover(fenced=False)]
    assert rotation.on_failed(P, fenced=True) == []
    assert recovered(rotation, N) == [SubmitTo(N), Release(N)]
    assert (rotation.phase, rotation.current, rotation.record.find_recent(P)) == (
        Phase.STEADY,
        N,
        listed(P, 3),
    )


def test_a_failure_of_either_ledger_during_a_rotation_recovers_both() -> None:
    """Nothing of N is decided before P is sealed (docs/log-semantics.md#rule-19)."""
    for failed in (P, N):
        for prepare in (draining, closing):
            rotation = machine()
            prepare(rotation)
            assert rotation.on_failed(failed, fenced=False) == [Hold(), Recover(fenced=False)]
            assert rotation.on_drained(P) == []
            assert rotation.on_closed(P, seal(3), 79) == []
            assert recovered(rotation, M, N) == [SubmitTo(M), Release(M)]


def test_a_close_that_ends_after_its_ledger_was_recovered_means_nothing_any_more() -> None:
    """P's close hangs, N fails, both are recovered, the writer goes on in M and closes; then P's close returns."""
    rotation = machine()
    closing(rotation)
    rotation.on_failed(N, fenced=False)
    assert recovered(rotation, M, N) == [SubmitTo(M), Release(M)]
    assert rotation.on_close_requested(holding=False) == [Drain(M)]
    assert rotation.on_closed(P, seal(3), 81) == []
    assert written([*rotation.on_drained(M), *rotation.on_closed(M, seal(0), 82)]).ledgers[-1].seal == seal(0)


def test_a_failure_during_the_compare_and_set_waits_for_its_answer() -> None:
    """Until then nobody knows whether N is listed, and has to be recovered too."""
    rotation = machine()
    sent = listing(rotation)
    assert rotation.on_failed(P, fenced=False) == [Hold()]
    assert rotation.on_answer(Applied(sent, 6), 1, 2) == [Hold(), Recover(fenced=False)]
    rotation = machine()
    listing(rotation)
    rotation.on_failed(P, fenced=False)
    shrunk = replace(START, trim_before=MessageId(2, 1), nonce=500)
    commands = rotation.on_answer(NotOurs(Versioned(shrunk, 6), definite=True), 1, 2)
    assert commands == [Hold(), DiscardLedger(N), Recover(fenced=False)]


def test_a_failure_while_a_ledger_is_being_created_waits_for_it_too() -> None:
    rotation = machine()
    rotation.on_rotation_due()
    assert rotation.on_failed(P, fenced=False) == [Hold()]
    assert rotation.on_ledger_created(N, 1, 2) == [DiscardLedger(N), Hold(), Recover(fenced=False)]
    rotation = machine()
    rotation.on_rotation_due()
    rotation.on_failed(P, fenced=False)
    assert rotation.on_create_failed() == [Hold(), Recover(fenced=False)]


def test_a_successor_that_dies_before_its_listing_is_known_holds_what_goes_to_its_predecessor() -> None:
    """P is alive and in use, and is recovered together with N: nothing may be handed to it from then on."""
    rotation = machine()
    sent = listing(rotation)
    assert rotation.on_failed(N, fenced=False) == []
    assert rotation.on_answer(Applied(sent, 6), 1000, 78) == [Hold(), Recover(fenced=False)]


def test_a_successor_that_dies_unlisted_is_replaced_while_its_predecessor_goes_on() -> None:
    """No Hold is among the commands (docs/log-semantics.md#rule-17)."""
    rotation = machine()
    listing(rotation)
    assert rotation.on_failed(N, fenced=False) == []
    assert rotation.on_store_unavailable() == [DiscardLedger(N), CreateLedger(1)]
    rotation = machine()
    listing(rotation)
    rotation.on_store_unavailable()
    assert rotation.on_failed(N, fenced=False) == [DiscardLedger(N), CreateLedger(1)]
    assert rotation.on_retry(1, 2) == []


def test_a_failure_while_the_store_is_away_recovers_at_once_and_deletes_the_unlisted_ledger() -> None:
    rotation = machine()
    listing(rotation)
    rotation.on_store_unavailable()
    assert rotation.on_failed(P, fenced=False) == [Hold(), DiscardLedger(N), Recover(fenced=False)]
    assert rotation.on_retry(1, 2) == []
    assert recovered(rotation, M) == [SubmitTo(M), Release(M)]


def test_a_ledger_that_was_swept_while_its_listing_had_to_wait_is_given_up() -> None:
    """A sweep has raised the highest id above it (seed 9627) (docs/log-semantics.md#rule-3)."""
    rotation = machine()
    listing(rotation)
    rotation.on_store_unavailable()
    barred = Versioned(replace(START, last_ledger_id=N, nonce=500), 6)
    assert rotation.on_record_seen(barred) == []
    written(rotation.on_retry(1000, 80))
    assert rotation.on_answer(NotOurs(barred, definite=True), 1000, 81) == [
        DiscardLedger(N),
        CreateLedger(1),
    ]


def test_a_fenced_ledger_gives_a_candidate_time() -> None:
    """A repair tool, or a candidate under way (docs/log-semantics.md#rule-24b)."""
    for prepare in (lambda rotation: None, closing):
        rotation = machine()
        prepare(rotation)
        assert rotation.on_failed(P, fenced=True) == [Hold(), Recover(fenced=True)]
        assert recovered(rotation, M) == [SubmitTo(M), Release(M)]
        assert rotation.on_failed(M, fenced=False) == [Hold(), Recover(fenced=False)]


def test_a_recovery_that_finds_another_owner_deposes() -> None:
    for winner in (replace(START, epoch=2, owner=BOB), None):
        rotation = machine()
        rotation.on_failed(P, fenced=True)
        assert rotation.on_lost(winner) == [Hold(), Depose(winner)]
        assert rotation.on_lost(winner) == []


def test_a_watch_deposes_during_a_recovery_and_its_outcome_counts_no_more() -> None:
    winner = replace(START, epoch=2, owner=BOB)
    rotation = machine()
    rotation.on_failed(P, fenced=True)
    assert rotation.on_record_seen(Versioned(winner, 6)) == [Hold(), Depose(winner)]
    assert recovered(rotation, N) == []


def test_a_watch_that_shows_a_new_owner_deposes_an_idle_writer() -> None:
    winner = replace(START, epoch=2, owner=BOB)
    assert machine().on_record_seen(Versioned(winner, 6)) == [Hold(), Depose(winner)]


def test_a_watch_during_a_compare_and_set_leaves_the_judgement_to_its_answer() -> None:
    rotation = machine()
    listing(rotation)
    assert rotation.on_record_seen(Versioned(replace(START, epoch=2, owner=BOB), 6)) == []
    assert not rotation.over


def test_a_watch_that_shows_a_shrink_spares_the_next_rotation_a_refusal() -> None:
    rotation = machine()
    shrunk = replace(START, trim_before=MessageId(2, 1), nonce=500)
    assert rotation.on_record_seen(Versioned(shrunk, 6)) == []
    rotation.on_rotation_due()
    commands = rotation.on_ledger_created(N, 1, 2)
    assert isinstance(commands[-1], WriteRecord)
    assert (commands[-1].version, commands[-1].record.trim_before) == (6, MessageId(2, 1))


def test_close_drains_seals_records_the_seal_and_ends() -> None:
    rotation = machine()
    assert rotation.on_close_requested(holding=False) == [Drain(P)]
    assert rotation.on_drained(P) == [CloseLedger(P)]
    sent = written(rotation.on_closed(P, seal(3), 79))
    assert sent.ledgers == (listed(1, 4), listed(2, 3))
    assert rotation.on_answer(Applied(sent, 6), 1, 2) == [Hold(), Finished()]
    assert rotation.on_close_requested(holding=False) == []


def test_a_record_changed_during_the_close_still_gets_the_seal() -> None:
    """Refused while we own the log, for a shrink or a garbage collection, is tried again on top of it.

    Source: docs/log-semantics.md#rule-9.
    """
    rotation = machine()
    rotation.on_close_requested(holding=False)
    rotation.on_drained(P)
    rotation.on_closed(P, seal(3), 79)
    shrunk = replace(START, trim_before=MessageId(2, 1), nonce=500)
    commands = rotation.on_answer(NotOurs(Versioned(shrunk, 6), definite=True), 1, 80)
    sent = written(commands)
    assert (sent.ledgers, sent.trim_before) == ((listed(1, 4), listed(2, 3)), MessageId(2, 1))
    assert commands == [WriteRecord(sent, 6)]
    taken = replace(shrunk, epoch=START.epoch + 1, owner=BOB, nonce=501)
    assert rotation.on_answer(NotOurs(Versioned(taken, 7), definite=True), 1, 81) == [Hold(), Finished()]


def test_close_during_a_rotation_lets_it_come_to_its_end() -> None:
    rotation = machine()
    closing(rotation)
    assert rotation.on_close_requested(holding=False) == []
    assert rotation.on_closed(P, seal(3), 79) == [SubmitTo(N), Release(N), Drain(N)]
    assert rotation.on_drained(N) == [CloseLedger(N)]


def test_close_while_a_ledger_is_being_created_discards_it() -> None:
    rotation = machine()
    rotation.on_rotation_due()
    assert rotation.on_close_requested(holding=False) == []
    assert rotation.on_ledger_created(N, 1, 2) == [DiscardLedger(N), Drain(P)]


def test_close_after_a_failure_ends_in_a_new_ledger_or_without_one() -> None:
    rotation = machine()
    rotation.on_close_requested(holding=False)
    assert rotation.on_failed(P, fenced=False) == [Hold(), Recover(fenced=False)]
    assert recovered(rotation, None) == [Hold(), Finished()]
    rotation = machine()
    rotation.on_close_requested(holding=False)
    rotation.on_failed(P, fenced=False)
    assert recovered(rotation, N) == [SubmitTo(N), Release(N), Drain(N)]


def test_close_after_a_failure_records_what_was_sealed_then() -> None:
    """A client that waits for the owner's end goes by the record (docs/log-semantics.md#rule-22b)."""
    rotation = machine()
    rotation.on_close_requested(holding=False)
    rotation.on_failed(P, fenced=False)
    rotation.on_sealed({P: seal(3)})
    [command] = rotation.on_recovered(START, 5, None, 80)
    sent = written([command])
    assert (sent.ledgers, sent.nonce) == ((listed(1, 4), listed(2, 3)), 80)
    assert rotation.on_answer(Applied(sent, 6), 1, 2) == [Hold(), Finished()]


def test_the_hard_limit_holds_until_the_successor_is_in_use() -> None:
    rotation = machine()
    assert rotation.on_hard_limit() == [CreateLedger(1)]
    assert rotation.on_hard_limit() == [Hold()]
    sent = written(rotation.on_ledger_created(N, 1, 2))
    rotation.on_answer(Applied(sent, 6), 1, 3)
    assert rotation.on_hard_limit() == []
    assert rotation.on_drained(P) == [CloseLedger(P), SubmitTo(N)]


def test_a_ledger_created_for_a_deposed_writer_is_discarded() -> None:
    rotation = machine()
    rotation.on_rotation_due()
    rotation.on_record_seen(Versioned(replace(START, epoch=2, owner=BOB), 6))
    assert rotation.on_ledger_created(N, 1, 2) == [DiscardLedger(N)]


def test_nothing_is_decided_any_more_after_the_end() -> None:
    rotation = machine()
    rotation.on_record_seen(None)
    assert rotation.over
    assert rotation.on_create_failed() == []
    assert rotation.on_store_unavailable() == []
    assert rotation.on_record_seen(None) == []
    assert rotation.on_close_requested(holding=False) == []
    assert not rotation.closing


def test_a_ledger_that_drains_in_no_rotation_means_nothing() -> None:
    rotation = machine()
    assert rotation.on_drained(P) == []
    assert rotation.on_drained(N) == []
    assert rotation.phase is Phase.STEADY


def test_an_id_that_the_sweep_has_barred_is_replaced_before_it_is_listed() -> None:
    """Source: docs/log-semantics.md#rule-3."""
    rotation = machine()
    rotation.on_record_seen(Versioned(replace(START, last_ledger_id=N, nonce=500), 6))
    rotation.on_rotation_due()
    assert rotation.on_ledger_created(N, 1, 2) == [DiscardLedger(N), CreateLedger(1)]
    assert ids(written(rotation.on_ledger_created(M, 1, 2)).ledgers) == [1, 2, 9]


def test_a_writer_is_merely_full_while_its_ledger_works_and_is_being_replaced() -> None:
    rotation = machine()
    assert not rotation.merely_full
    rotation.on_rotation_due()
    assert rotation.merely_full
    sent = written(rotation.on_ledger_created(N, 1, 2))
    assert rotation.merely_full
    rotation.on_answer(Applied(sent, 6), 1, 3)
    assert not rotation.merely_full
    rotation = machine()
    rotation.on_rotation_due()
    rotation.on_failed(P, fenced=False)
    assert not rotation.merely_full


def test_close_while_the_store_is_away_ends_in_the_old_ledger_unless_appends_wait() -> None:
    for holding, expected in ((False, [Drain(P)]), (True, [])):
        rotation = machine()
        rotation.on_rotation_due()
        rotation.on_create_failed()
        assert rotation.on_close_requested(holding=holding) == expected
        assert rotation.closing
        assert rotation.on_close_requested(holding=not holding) == [], "the first request decides"
    assert rotation.on_retry(1, 2) == [CreateLedger(1)]
    assert rotation.on_create_failed() == [Retry(2)]
    rotation = machine()
    rotation.on_rotation_due()
    rotation.on_close_requested(holding=False)
    assert rotation.on_create_failed() == [Drain(P)]
    rotation = machine()
    listing(rotation)
    rotation.on_store_unavailable()
    assert rotation.on_close_requested(holding=False) == [], "N may be listed"


def test_a_success_makes_the_next_pause_short_again() -> None:
    def fails_once(rotation: Rotation) -> None:
        rotation.on_rotation_due()
        assert rotation.on_create_failed() == [Retry(1)]

    rotation = machine()
    closing(rotation)
    assert rotation.on_close_undecided() == [Retry(1)]
    rotation.on_closed(P, seal(3), 79)
    fails_once(rotation)
    rotation = machine()
    fails_once(rotation)
    rotation.on_failed(P, fenced=False)
    recovered(rotation, N)
    fails_once(rotation)
    rotation = machine()
    draining(rotation)
    assert rotation.on_store_unreachable() == [SubmitTo(P), Retry(1)]
    assert rotation.on_retry(1, 2) == [ProbeStore()]
    assert rotation.on_store_reachable() == [Hold(), Drain(P)]
    assert rotation.on_store_unreachable() == [SubmitTo(P), Retry(1)]


def test_a_successor_that_failed_says_nothing_about_the_next_one() -> None:
    """Whether it was listed, and recovered with its predecessor, or replaced before."""
    rotation = machine()
    sent = listing(rotation)
    rotation.on_failed(N, fenced=False)
    rotation.on_answer(Applied(sent, 6), 1000, 78)
    recovered(rotation, M, N)
    sent = listing(rotation, LedgerId(12))
    assert rotation.on_answer(Applied(sent, 9), 1000, 80) == [Hold(), Drain(M)]
    rotation = machine()
    listing(rotation)
    rotation.on_failed(N, fenced=False)
    rotation.on_store_unavailable()
    sent = written(rotation.on_ledger_created(M, 1, 2))
    assert rotation.on_answer(Applied(sent, 6), 1000, 78) == [Hold(), Drain(P)]
