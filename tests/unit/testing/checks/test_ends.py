"""An acknowledgement behind the end of a ledger is found, although nobody can read there any more."""

from __future__ import annotations

import pytest

from dlog.model import MessageId
from dlog.testing.checks.ends import c1_acknowledged_within_its_ledger
from dlog.testing.checks.history import Append, History, Outcome
from ledger.metadata.format.ledger import encode_ledger_metadata
from tests.helpers.metadata.register_history import CHANGED, CLOSED, history


@pytest.mark.parametrize(
    ("ledger_id", "entry_id", "outcome", "sound"),
    [
        (1, 9, Outcome.ACKED, True),
        (1, 10, Outcome.ACKED, False),
        (1, 10, Outcome.INDETERMINATE, True),
        (2, 10, Outcome.ACKED, True),
    ],
)
def test_an_acknowledgement_behind_the_end_is_found(
    ledger_id: int, entry_id: int, outcome: Outcome, sound: bool
) -> None:
    appends = [Append("one", 0, b"m", 1, 2, outcome, MessageId(ledger_id, entry_id, 0))]
    recorded = history("ledger/1", *map(encode_ledger_metadata, (CHANGED, CLOSED)))
    assert (not list(c1_acknowledged_within_its_ledger(History(appends), recorded))) == sound
