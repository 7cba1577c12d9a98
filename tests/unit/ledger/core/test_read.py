"""What the answers of an entry's replicas prove, and which replica is asked next."""

from __future__ import annotations

from ledger.core.read import EntryRead, Verdict
from ledger.model import BookieId, QuorumSizes
from ledger.wire.status import Answer

REPLICAS = [BookieId(name) for name in "abc"]
QUORUM = QuorumSizes(ensemble=3, write=3, ack=2)


def asked(*, confirmed: bool = False, count: int = 3) -> EntryRead:
    read = EntryRead(REPLICAS, QUORUM, confirmed=confirmed)
    assert [read.ask_next() for _ in range(count)] == REPLICAS[:count]
    return read


def test_a_confirmed_entry_is_absent_only_if_every_replica_denies_it() -> None:
    read = asked(confirmed=True)
    verdicts = [read.on_answer(replica, Answer.PROVED_NO) for replica in REPLICAS]
    assert verdicts == [Verdict.PENDING, Verdict.PENDING, Verdict.ABSENT]


def test_any_other_entry_is_absent_when_no_ack_quorum_can_have_it() -> None:
    read = asked()
    verdicts = [read.on_answer(replica, Answer.PROVED_NO) for replica in REPLICAS[:2]]
    assert verdicts == [Verdict.PENDING, Verdict.ABSENT]


def test_no_replica_is_asked_after_the_verdict_which_stays() -> None:
    read = asked(count=1)
    assert read.on_answer(REPLICAS[0], Answer.YES) is Verdict.FOUND
    assert read.ask_next() is None
    assert read.on_answer(REPLICAS[1], Answer.PROVED_NO) is Verdict.FOUND


def test_it_is_undecided_only_when_nothing_is_awaited() -> None:
    """The second replica was asked because the first was slow: the first may still have the entry."""
    read = asked()
    assert read.on_answer(REPLICAS[1], Answer.UNKNOWN) is Verdict.PENDING
    assert read.on_answer(REPLICAS[2], Answer.UNKNOWN) is Verdict.PENDING
    assert read.on_answer(REPLICAS[0], Answer.UNKNOWN) is Verdict.UNDECIDED
