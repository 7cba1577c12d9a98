"""The takeover machine, told event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
from dlog.core.metadata_update import Applied, NotOurs
from dlog.core.takeover import (
    TAKEOVER_ROUNDS_MAX,
    OwnLog,
    Stamp,
    Takeover,
    describe_owner,
    ledgers_to_fence,
)
from dlog.errors import (
    DataLossError,
    LogNotFoundError,
    LogSealedError,
    TakeoverContendedError,
    TakeoverLostError,
)
from dlog.model import ListedLedger, LogMetadata, LogState, MessageId
from ledger.errors import LogStoreError
from ledger.model import LedgerId, Versioned
from tests.helpers.log.records import ALICE, BOB, ids, listed, record, seal

STAMP = Stamp(nonce=88, now_us=5000)
BEFORE = replace(record(listed(1, 4), listed(2, 6), listed(3)), grace_us=4000)
SEALS = {LedgerId(2): seal(6), LedgerId(3): seal(9)}


def machine(**options: object) -> Takeover:
    return Takeover("default/orders", BOB, **options)  # type: ignore[arg-type]  # options of the test


def until_write(takeover: Takeover, read: LogMetadata = BEFORE, version: int = 5) -> WriteRecord:
    """Run an undisturbed takeover up to its compare-and-set."""
    takeover.start()
    [fence] = takeover.on_record(Versioned(read, version))
    assert isinstance(fence, FenceLedgers)
    assert takeover.on_fenced(SEALS, [], STAMP) == [CreateLedger(read.epoch + 1)]
    [write] = takeover.on_ledger_created(LedgerId(7), STAMP)
    assert isinstance(write, WriteRecord)
    return write


def error_of(commands: list[Command]) -> LogStoreError:
    assert isinstance(commands[-1], Fail)
    return commands[-1].error


def test_an_undisturbed_takeover_fences_creates_and_claims_in_this_order() -> None:
    takeover = machine()
    assert takeover.start() == [ReadRecord(0)]
    assert takeover.on_record(Versioned(BEFORE, 5)) == [FenceLedgers((LedgerId(2), LedgerId(3)))]
    assert takeover.on_fenced(SEALS, [], STAMP) == [CreateLedger(2)]
    [write] = takeover.on_ledger_created(LedgerId(7), STAMP)
    assert isinstance(write, WriteRecord)
    assert write.version == 5
    assert write.record.ledgers == (
        listed(1, 4),
        listed(2, 6),
        replace(listed(3, 9), keep_until_us=9000),
        ListedLedger(ledger_id=LedgerId(7), epoch=2, created_us=5000),
    )
    assert takeover.on_answer(Applied(write.record, 6)) == [TakenOver(write.record, 6)]


def test_the_last_two_and_every_unsealed_ledger_are_fenced() -> None:
    """Fencing only the last one lets the old writer ack in the one before (docs/log-semantics.md#rule-20)."""
    assert ledgers_to_fence(record(listed(1), listed(2, 3), listed(4, 5), listed(6))) == (1, 4, 6)
    assert ledgers_to_fence(record(listed(1, 3), listed(2, 3), listed(4, 5))) == (2, 4)
    assert ledgers_to_fence(record(epoch=0, owner=None)) == ()


def test_a_new_log_has_nothing_to_fence_and_starts_at_epoch_one() -> None:
    takeover = machine()
    takeover.start()
    assert takeover.on_record(Versioned(record(epoch=0, owner=None), 0)) == [FenceLedgers(())]
    assert takeover.on_fenced({}, [], STAMP) == [CreateLedger(1)]
    [write] = takeover.on_ledger_created(LedgerId(1), STAMP)
    assert isinstance(write, WriteRecord)
    assert (write.record.epoch, write.record.owner, ids(write.record.ledgers)) == (1, BOB, [1])


def test_the_epoch_of_the_next_ledger_is_known_only_to_a_candidate_that_surely_needs_one() -> None:
    for end, own, expected in (
        (None, None, 2),
        (LogState.SEALED, None, None),
        (LogState.ACTIVE, None, None),
        (None, OwnLog(BEFORE, {}, fenced=False), None),
    ):
        takeover = Takeover("default/orders", BOB, end=end, own=own)
        takeover.on_record(Versioned(BEFORE, 5))
        assert takeover.likely_epoch == expected


def test_a_refused_candidate_with_an_old_epoch_deletes_its_ledger_and_names_the_winner() -> None:
    takeover = machine()
    until_write(takeover)
    winner = replace(BEFORE, epoch=2, owner=ALICE)
    commands = takeover.on_answer(NotOurs(Versioned(winner, 6), definite=True))
    assert commands[0] == DiscardLedger(LedgerId(7))
    error = error_of(commands)
    assert isinstance(error, TakeoverLostError)
    assert (error.epoch, error.owner) == (2, ALICE)


def test_a_candidate_in_doubt_that_lost_keeps_its_ledger_for_the_sweep() -> None:
    """Its ledger may be listed; only a definite refusal permits deletion (docs/log-semantics.md#rule-10)."""
    takeover = machine()
    until_write(takeover)
    winner = replace(BEFORE, epoch=3, owner=ALICE)
    commands = takeover.on_answer(NotOurs(Versioned(winner, 7), definite=False))
    assert [type(one) for one in commands] == [Fail]


def test_a_refused_candidate_with_the_epoch_unchanged_fences_the_new_tail() -> None:
    """The owner rotated to ledger 6. It is fenced before anything is claimed (docs/log-semantics.md#rule-22)."""
    takeover = machine()
    until_write(takeover)
    rotated = record(listed(1, 4), listed(2, 6), listed(3, 9), listed(6))
    commands = takeover.on_answer(NotOurs(Versioned(rotated, 6), definite=True))
    assert commands == [DiscardLedger(LedgerId(7)), ReadRecord(1)]
    assert takeover.on_record(Versioned(rotated, 6)) == [FenceLedgers((LedgerId(3), LedgerId(6)))]
    assert takeover.on_fenced({LedgerId(3): seal(9), LedgerId(6): seal(0)}, [], STAMP) == [CreateLedger(2)]
    [write] = takeover.on_ledger_created(LedgerId(8), STAMP)
    assert isinstance(write, WriteRecord)
    assert write.version == 6
    assert ids(write.record.ledgers) == [1, 2, 3, 6, 8]


def test_a_takeover_in_doubt_with_a_shrink_on_top_has_won() -> None:
    takeover = machine()
    write = until_write(takeover)
    on_top = replace(write.record, trim_before=MessageId(3, 0), nonce=1)
    answer = NotOurs(Versioned(on_top, 7), definite=False)
    assert takeover.on_answer(answer) == [TakenOver(on_top, 7)]


def test_an_endless_storm_ends_in_a_typed_error() -> None:
    takeover = machine()
    commands: list[Command] = takeover.start()
    for version in range(TAKEOVER_ROUNDS_MAX):
        assert commands[-1] == ReadRecord(version)
        until_write(takeover, version=version)
        commands = takeover.on_answer(NotOurs(Versioned(BEFORE, version + 1), definite=True))
    assert isinstance(error_of(commands), TakeoverContendedError)


def test_a_ledger_id_at_or_below_the_high_water_mark_is_discarded() -> None:
    """A sleeping candidate's ledger never enters after a newer one (docs/log-semantics.md#rule-3)."""
    takeover = machine()
    takeover.start()
    takeover.on_record(Versioned(BEFORE, 5))
    takeover.on_fenced(SEALS, [], STAMP)
    assert takeover.on_ledger_created(LedgerId(3), STAMP) == [DiscardLedger(LedgerId(3)), CreateLedger(2)]


def test_a_missing_ledger_is_data_loss_once_a_second_read_agrees() -> None:
    takeover = machine()
    takeover.start()
    takeover.on_record(Versioned(BEFORE, 5))
    assert takeover.on_fenced({LedgerId(2): seal(6)}, [LedgerId(3)], STAMP) == [ReadRecord(1)]
    error = error_of(takeover.on_record(Versioned(BEFORE, 5)))
    assert isinstance(error, DataLossError)
    assert error.first == 3


def test_a_missing_ledger_of_a_stale_record_starts_over() -> None:
    takeover = machine()
    takeover.start()
    takeover.on_record(Versioned(BEFORE, 5))
    takeover.on_fenced({LedgerId(2): seal(6)}, [LedgerId(3)], STAMP)
    newer = record(listed(2, 6), listed(6))
    assert takeover.on_record(Versioned(newer, 8)) == [FenceLedgers((LedgerId(2), LedgerId(6)))]


def test_ledgers_recorded_empty_or_given_up_leave_the_list() -> None:
    before = record(listed(1, 4), listed(2, -1), listed(3))
    takeover = machine(given_up=[LedgerId(3)])
    takeover.start()
    takeover.on_record(Versioned(before, 5))
    assert takeover.on_fenced({}, [LedgerId(3)], STAMP) == [CreateLedger(2)]
    [write] = takeover.on_ledger_created(LedgerId(7), STAMP)
    assert isinstance(write, WriteRecord)
    assert ids(write.record.ledgers) == [1, 7]


@pytest.mark.parametrize("state", [LogState.SEALED, LogState.DELETING])
def test_an_ended_log_takes_no_writer(state: LogState) -> None:
    takeover = machine()
    takeover.start()
    assert isinstance(
        error_of(takeover.on_record(Versioned(replace(BEFORE, state=state), 5))), LogSealedError
    )


@pytest.mark.parametrize(
    ("state", "what"), [(LogState.SEALED, "is sealed"), (LogState.DELETING, "is being deleted")]
)
def test_a_log_that_ended_during_the_takeover_is_not_to_be_opened_again(state: LogState, what: str) -> None:
    """It has no new writer, and would refuse one."""
    ended = replace(BEFORE, state=state, epoch=2, owner=ALICE)
    waiting = machine(after_epoch=1)
    waiting.start()
    candidate = machine()
    until_write(candidate)
    for commands in (
        waiting.on_record(Versioned(ended, 6)),
        candidate.on_answer(NotOurs(Versioned(ended, 6), definite=True)),
    ):
        error = error_of(commands)
        assert isinstance(error, LogSealedError)
        assert error.state is state
        assert f"default/orders {what} and accepts no writer: use another log" in str(error)


def test_a_delete_that_a_seal_forestalls_is_repeated() -> None:
    takeover = machine(end=LogState.DELETING)
    takeover.start()
    takeover.on_record(Versioned(BEFORE, 5))
    takeover.on_fenced(SEALS, [], STAMP)
    sealed = replace(BEFORE, state=LogState.SEALED, epoch=2, owner=ALICE)
    error = error_of(takeover.on_answer(NotOurs(Versioned(sealed, 6), definite=True)))
    assert isinstance(error, TakeoverLostError)
    assert "was sealed by first alice" in str(error)
    assert str(error).endswith("in epoch 2; call again to repeat it")


def test_a_sealed_log_is_deleted_and_one_that_is_being_deleted_is_not_again() -> None:
    ended = {state: replace(BEFORE, state=state) for state in (LogState.SEALED, LogState.DELETING)}
    takeover = machine(end=LogState.DELETING)
    takeover.start()
    assert isinstance(takeover.on_record(Versioned(ended[LogState.SEALED], 5))[0], FenceLedgers)
    for end, state in [
        (LogState.DELETING, LogState.DELETING),
        (LogState.SEALED, LogState.SEALED),
        (LogState.SEALED, LogState.DELETING),
    ]:
        takeover = machine(end=end)
        takeover.start()
        assert isinstance(error_of(takeover.on_record(Versioned(ended[state], 5))), LogSealedError)


def test_an_owner_is_named_by_all_that_is_known_of_it() -> None:
    assert describe_owner(ALICE) == "first alice (process 11 on host-a)"
    assert describe_owner(replace(ALICE, name="", host="")) == "alice (process 11 on an unknown host)"
    assert describe_owner(None) == "an unknown owner"


@pytest.mark.parametrize("end", [LogState.SEALED, LogState.DELETING])
def test_seal_and_delete_fence_the_tail_before_their_one_change(end: LogState) -> None:
    """Without the fence the old writer goes on acking into a log that has ended (docs/log-semantics.md#rule-34b)."""
    takeover = machine(end=end)
    takeover.start()
    assert takeover.on_record(Versioned(BEFORE, 5)) == [FenceLedgers((LedgerId(2), LedgerId(3)))]
    [write] = takeover.on_fenced(SEALS, [], STAMP)
    assert isinstance(write, WriteRecord)
    assert (write.record.state, write.record.epoch, write.record.owner) == (end, 2, BOB)
    assert takeover.on_answer(Applied(write.record, 6)) == [TakenOver(write.record, 6)]


def test_a_log_deleted_during_the_takeover_is_not_found() -> None:
    takeover = machine()
    until_write(takeover)
    assert isinstance(error_of(takeover.on_answer(NotOurs(None, definite=True))), LogNotFoundError)


# ---- the own log (docs/log-semantics.md#rule-19, #rule-24b)

OWN = record(listed(1, 4), listed(2), listed(3))
LAST = {LedgerId(3): seal(9)}


def own_machine(*, fenced: bool = False, read: LogMetadata = OWN, version: int = 5) -> Takeover:
    """The writer has sealed ledger 2, ledger 3 has failed and is fenced."""
    takeover = Takeover("default/orders", ALICE, own=OwnLog(OWN, {LedgerId(2): seal(6)}, fenced))
    assert takeover.start() == [ReadRecord(0)]
    assert takeover.on_record(Versioned(read, version)) == [FenceLedgers((LedgerId(3),))]
    return takeover


def own_write(takeover: Takeover) -> LogMetadata:
    assert takeover.on_fenced(LAST, [], STAMP) == [CreateLedger(OWN.epoch)]
    [write] = takeover.on_ledger_created(LedgerId(7), STAMP)
    assert isinstance(write, WriteRecord)
    return write.record


def test_an_own_log_keeps_epoch_and_owner_and_gets_all_seals_with_the_new_ledger() -> None:
    takeover = own_machine()
    sent = own_write(takeover)
    assert (sent.epoch, sent.owner, ids(sent.ledgers)) == (OWN.epoch, OWN.owner, [1, 2, 3, 7])
    assert [one.seal for one in sent.ledgers] == [seal(4), seal(6), seal(9), None]
    assert takeover.on_answer(Applied(sent, 6)) == [TakenOver(sent, 6)]


def test_an_own_log_with_another_owner_is_lost_before_and_after_the_fence() -> None:
    winner = replace(OWN, epoch=2, owner=BOB)
    takeover = Takeover("default/orders", ALICE, own=OwnLog(OWN, {}, fenced=False))
    takeover.start()
    assert takeover.on_record(Versioned(winner, 6)) == [Depose(winner)]
    for definite in (True, False):
        takeover = own_machine()
        own_write(takeover)
        # In doubt, the new ledger may be in the winner's list: nothing is deleted.
        assert takeover.on_answer(NotOurs(Versioned(winner, 6), definite=definite)) == [Depose(winner)]


def test_an_own_change_in_doubt_with_a_trim_on_top_was_made() -> None:
    """The epoch says nothing here: only the list shows it, and the new ledger must not be deleted."""
    takeover = own_machine()
    on_top = replace(own_write(takeover), trim_before=MessageId(2, 0), nonce=500)
    assert takeover.on_answer(NotOurs(Versioned(on_top, 7), definite=False)) == [TakenOver(on_top, 7)]


def test_an_own_change_refused_by_a_trim_starts_over() -> None:
    takeover = own_machine()
    own_write(takeover)
    shrunk = replace(OWN, trim_before=MessageId(2, 1), nonce=500)
    commands = takeover.on_answer(NotOurs(Versioned(shrunk, 6), definite=True))
    assert commands == [DiscardLedger(LedgerId(7)), ReadRecord(1)]


def test_a_fenced_own_log_waits_once_after_its_appends_are_decided() -> None:
    takeover = own_machine(fenced=True)
    assert takeover.on_fenced(LAST, [], STAMP) == [WaitForCandidate()]
    assert takeover.on_waited() == [CreateLedger(OWN.epoch)]
    takeover.on_ledger_created(LedgerId(7), STAMP)
    shrunk = replace(OWN, trim_before=MessageId(2, 1), nonce=500)
    takeover.on_answer(NotOurs(Versioned(shrunk, 6), definite=True))
    takeover.on_record(Versioned(shrunk, 6))
    assert takeover.on_fenced(LAST, [], STAMP) == [CreateLedger(OWN.epoch)]


def test_an_own_log_that_needs_no_ledger_changes_nothing() -> None:
    takeover = own_machine(fenced=True)
    assert takeover.on_fenced(LAST, [], STAMP, needs_ledger=False) == [TakenOver(OWN, 5)]


def test_a_missing_own_ledger_is_another_owner_or_data_loss() -> None:
    takeover = own_machine()
    assert takeover.on_fenced({}, [LedgerId(3)], STAMP) == [ReadRecord(1)]
    winner = replace(OWN, epoch=2, owner=BOB)
    assert takeover.on_record(Versioned(winner, 6)) == [Depose(winner)]
    takeover = own_machine()
    takeover.on_fenced({}, [LedgerId(3)], STAMP)
    assert isinstance(error_of(takeover.on_record(Versioned(OWN, 5))), DataLossError)


def test_a_sink_takes_the_log_over_without_a_ledger() -> None:
    """The tail is fenced, the epoch rises, empty ledgers leave, and the log stays active.

    Source: docs/log-semantics.md#rule-37.
    """
    takeover = machine(end=LogState.ACTIVE)
    takeover.start()
    assert takeover.on_record(Versioned(BEFORE, 5)) == [FenceLedgers((LedgerId(2), LedgerId(3)))]
    [write] = takeover.on_fenced({LedgerId(2): seal(6), LedgerId(3): seal(-1)}, [], STAMP)
    assert isinstance(write, WriteRecord)
    after = write.record
    assert (after.state, after.epoch, after.owner) == (LogState.ACTIVE, BEFORE.epoch + 1, BOB)
    assert ids(after.ledgers) == [1, 2]
    assert after.last_ledger_id == BEFORE.last_ledger_id
    assert takeover.on_answer(Applied(after, 6)) == [TakenOver(after, 6)]
    sealed = machine(end=LogState.ACTIVE)
    sealed.start()
    [fail] = sealed.on_record(Versioned(replace(BEFORE, state=LogState.SEALED), 5))
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, LogSealedError)
