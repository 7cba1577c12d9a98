"""A fence that bookies have forgotten is found."""

from __future__ import annotations

import pytest

from dlog.testing.checks.fences import c15_fenced_for_ever
from ledger.metadata.format.ledger import encode_ledger_metadata
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, LedgerState, QuorumSizes
from tests.helpers.metadata.register_history import history

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
    found = list(c15_fenced_for_ever(recorded, lambda bookie, _: bookie[1] in fenced))
    assert (not found) == sound


def test_a_ledger_closed_by_its_writer_needs_no_fence() -> None:
    recorded = history("ledger/7", *map(encode_ledger_metadata, (STATES[0], STATES[2])))
    assert list(c15_fenced_for_ever(recorded, lambda *_: False)) == []
