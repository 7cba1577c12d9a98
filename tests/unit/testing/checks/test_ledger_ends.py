"""Ledgers with two ends, acknowledgements after the end, forgotten fences and wrong deletions are found."""

from __future__ import annotations

import pytest

from dlog.core.metadata_keys import DEFAULT_ROOT, ledger_tags, record_key
from dlog.format.log_metadata import encode_record
from dlog.model import ListedLedger, LogName, MessageId
from dlog.testing.checks.history import Append, History, Outcome, Takeover
from dlog.testing.checks.ledger_ends import (
    c1_acknowledged_within_its_ledger,
    c6_each_ledger_has_the_messages_of_one_epoch,
    c12_recoverers_agree,
    c13_ledgers_are_deleted_by_their_own_log,
    c15_fences_are_permanent,
)
from dlog.testing.metadata.history import CallOutcome, Operation, RegisterCall, RegisterHistory
from ledger.metadata.format.ledger import encode_ledger_metadata
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, LedgerState, QuorumSizes
from tests.helpers.log.records import ALICE, listed, record
from tests.helpers.metadata.register_history import CHANGED, CLOSED, history

# ---- C12


def proposal(client: str, *ledgers: ListedLedger, outcome: CallOutcome = CallOutcome.DONE) -> RegisterCall:
    version = 1 if outcome is CallOutcome.DONE else None
    value = encode_record(record(*ledgers))
    return RegisterCall(client, "/logs/x/record", "write", 0, value, 1, 2, outcome, version)


def found(*calls: RegisterCall) -> list[str]:
    history = RegisterHistory()
    closed = RegisterCall(
        "r", "ledger/1", "write", 0, encode_ledger_metadata(CLOSED), 0, 1, CallOutcome.DONE, 1
    )
    history.calls += [closed, *calls]
    return list(c12_recoverers_agree(history))


def test_equal_ends_are_sound() -> None:
    assert found(proposal("a", listed(1, 9)), proposal("b", listed(1, 9), listed(2))) == []


def test_a_refused_proposal_with_another_end_is_found() -> None:
    wrong = found(proposal("a", listed(1, 9)), proposal("b", listed(1, 8), outcome=CallOutcome.REFUSED))
    assert wrong == [
        "recoveries of ledger 1 found different ends: 8 by b, 9 by a",
        "b recorded 8 as the end of ledger 1, its metadata says 9",
    ]


def test_an_end_that_is_not_the_one_in_the_ledgers_metadata_is_found() -> None:
    assert len(found(proposal("a", listed(1, 10)))) == 1


# ---- C1


@pytest.mark.parametrize(
    ("ledger_id", "entry_id", "outcome", "sound"),
    [
        (1, 9, Outcome.ACKED, True),
        (1, 10, Outcome.ACKED, False),
        (1, 10, Outcome.INDETERMINATE, True),
        (2, 10, Outcome.ACKED, True),
    ],
)
def test_an_acknowledgement_after_the_end_is_found(
    ledger_id: int, entry_id: int, outcome: Outcome, sound: bool
) -> None:
    appends = [Append("one", 0, b"m", 1, 2, outcome, MessageId(ledger_id, entry_id, 0))]
    recorded = history("ledger/1", *map(encode_ledger_metadata, (CHANGED, CLOSED)))
    assert (not list(c1_acknowledged_within_its_ledger(History(appends), recorded))) == sound


# ---- C6


@pytest.mark.parametrize(
    ("epoch", "ledger_id", "outcome", "sound"),
    [
        (1, 7, Outcome.ACKED, True),
        (2, 7, Outcome.ACKED, False),
        (2, 7, Outcome.INDETERMINATE, False),
        (2, 7, Outcome.REJECTED, True),
        (1, 8, Outcome.ACKED, False),
    ],
)
def test_a_message_in_a_ledger_of_another_epoch_is_found(
    epoch: int, ledger_id: int, outcome: Outcome, sound: bool
) -> None:
    place = MessageId(ledger_id, 0, 0)
    appended = History([Append("one", 0, b"m", 1, 2, outcome, place)], [Takeover("one", 0.5, epoch)])
    appended.final = [(place, b"m")]
    recorded = RegisterHistory()
    recorded.calls += [call(1, "ledger/7", "create", metadata(TAGS))]
    assert (not list(c6_each_ledger_has_the_messages_of_one_epoch(appended, recorded))) == sound


# ---- C15


BOOKIES = tuple(BookieId(f"b{n}:1") for n in range(4))
OPEN = LedgerMetadata(
    quorum=QuorumSizes(ensemble=4, write=3, ack=2), fragments=(Fragment(EntryId(0), BOOKIES),)
)
STATES = (OPEN, OPEN.with_state(LedgerState.IN_RECOVERY), OPEN.closed_at(EntryId(3), 10))


@pytest.mark.parametrize(
    ("fenced", "sound"),
    [("0123", True), ("012", True), ("02", False), ("013", True), ("01", False), ("", False)],
)
def test_each_write_set_must_keep_too_few_bookies_that_take_adds(fenced: str, sound: bool) -> None:
    recorded = history("ledger/7", *map(encode_ledger_metadata, STATES))
    found = list(c15_fences_are_permanent(recorded, lambda bookie, _: bookie[1] in fenced))
    assert (not found) == sound


def test_a_ledger_closed_by_its_writer_needs_no_fence() -> None:
    recorded = history("ledger/7", *map(encode_ledger_metadata, (STATES[0], STATES[2])))
    assert list(c15_fences_are_permanent(recorded, lambda *_: False)) == []


# ---- C13


LOG = LogName(namespace="default", name="orders")
TAGS = ledger_tags(root=DEFAULT_ROOT, log=LOG, log_uuid="uuid-1", epoch=1, owner=ALICE, created_us=1)
KEY = record_key(DEFAULT_ROOT, LOG, "uuid-1")


def call(moment: int, register: str, operation: Operation, value: bytes | None = None) -> RegisterCall:
    return RegisterCall("alice", register, operation, None, value, moment, moment, CallOutcome.DONE, 0)


def metadata(custom: tuple[tuple[str, bytes], ...]) -> bytes:
    return encode_ledger_metadata(
        LedgerMetadata(
            quorum=QuorumSizes(ensemble=1, write=1, ack=1),
            fragments=(Fragment(EntryId(0), (BookieId("b1:1"),)),),
            custom=custom,
        )
    )


def findings(
    custom: tuple[tuple[str, bytes], ...], *reads: RegisterCall, root: str | None = DEFAULT_ROOT
) -> list[str]:
    history = RegisterHistory()
    history.calls += [call(1, "ledger/7", "create", metadata(custom)), *reads, call(5, "ledger/7", "remove")]
    return list(c13_ledgers_are_deleted_by_their_own_log(history, lambda client: root))


def test_a_ledger_that_left_its_list_may_go() -> None:
    before = call(2, KEY, "read", encode_record(record(listed(7), listed(8))))
    after = call(9, KEY, "read", encode_record(record(listed(8))))
    assert findings(TAGS, before, after) == []


def test_a_ledger_of_another_root_or_of_no_log_may_not() -> None:
    assert len(findings(TAGS, root="/neighbour")) == 1
    assert len(findings(TAGS, root=None)) == 1
    assert len(findings(TAGS[1:])) == 1
    assert len(findings(())) == 1


def test_a_ledger_that_is_listed_afterwards_may_not() -> None:
    assert len(findings(TAGS, call(9, KEY, "read", encode_record(record(listed(7)))))) == 1
