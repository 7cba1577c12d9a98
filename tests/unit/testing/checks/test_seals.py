"""Two who found different ends of one ledger are found out, also if one of them was refused."""

from __future__ import annotations

from dlog.format.log_metadata import encode_record
from dlog.model import ListedLedger
from dlog.testing.checks.seals import c12_recoverers_agree
from dlog.testing.metadata.history import Outcome, RegisterCall, RegisterHistory
from ledger.metadata.format.ledger import encode_ledger_metadata
from tests.helpers.log.records import listed, record
from tests.helpers.metadata.register_history import CLOSED


def proposal(client: str, *ledgers: ListedLedger, outcome: Outcome = Outcome.DONE) -> RegisterCall:
    version = 1 if outcome is Outcome.DONE else None
    value = encode_record(record(*ledgers))
    return RegisterCall(client, "/logs/x/record", "write", 0, value, 1, 2, outcome, version)


def found(*calls: RegisterCall) -> list[str]:
    history = RegisterHistory()
    closed = RegisterCall("r", "ledger/1", "write", 0, encode_ledger_metadata(CLOSED), 0, 1, Outcome.DONE, 1)
    history.calls += [closed, *calls]
    return list(c12_recoverers_agree(history))


def test_equal_ends_are_sound() -> None:
    assert found(proposal("a", listed(1, 9)), proposal("b", listed(1, 9), listed(2))) == []


def test_a_refused_proposal_with_another_end_is_found() -> None:
    wrong = found(proposal("a", listed(1, 9)), proposal("b", listed(1, 8), outcome=Outcome.REFUSED))
    assert wrong == [
        "the end of ledger 1 was found at 8 by b, 9 by a",
        "b took 8 for the end of ledger 1, its metadata says 9",
    ]


def test_an_end_that_is_not_the_one_in_the_ledgers_metadata_is_found() -> None:
    assert len(found(proposal("a", listed(1, 10)))) == 1
