"""What a bookie must hold of a ledger, compared with what it holds."""

import pytest

from bookie_server.storage.ranges import Range
from bookie_server.storage.scrub.completeness import lacks_entries
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, LedgerState, QuorumSizes

A, B, C, D = (BookieId(f"10.0.0.{number}:3181") for number in range(1, 5))


def ledger(quorum: QuorumSizes, *, closed: bool) -> LedgerMetadata:
    """Entries 0 to 9 on A, B and C, from 10 on D in place of A; closed at 19."""
    return LedgerMetadata(
        quorum=quorum,
        fragments=(Fragment(EntryId(0), (A, B, C)), Fragment(EntryId(10), (D, B, C))),
        state=LedgerState.CLOSED if closed else LedgerState.OPEN,
        last_entry=EntryId(19) if closed else EntryId(-1),
    )


ALL_ON_ALL = QuorumSizes(ensemble=3, write=3, ack=2)
STRIPED = QuorumSizes(ensemble=3, write=2, ack=2)


@pytest.mark.parametrize(
    ("bookie", "held", "lacks"),
    [
        (A, [(0, 9)], False),
        (A, [(0, 30)], False),
        (A, [(0, 8)], True),
        (A, [(0, 3), (5, 9)], True),
        (A, [], True),
        (D, [(10, 19)], False),
        (D, [(11, 19)], True),
        (B, [(0, 19)], False),
        (B, [(0, 18)], True),
        (BookieId("10.0.0.9:3181"), [], False),
    ],
)
def test_every_entry_of_a_closed_fragment_must_be_there(
    bookie: BookieId, held: list[Range], lacks: bool
) -> None:
    assert lacks_entries(ledger(ALL_ON_ALL, closed=True), bookie, held) is lacks


def test_the_last_fragment_of_an_open_ledger_does_not_count() -> None:
    assert not lacks_entries(ledger(ALL_ON_ALL, closed=False), D, [])
    assert not lacks_entries(ledger(ALL_ON_ALL, closed=False), B, [(0, 9)])
    assert lacks_entries(ledger(ALL_ON_ALL, closed=False), B, [(1, 9)])


def test_entries_of_other_members_need_not_be_there() -> None:
    """Striped: position 0 has entries 0, 2, 3, 5, 6, 8, 9."""
    metadata = ledger(STRIPED, closed=True)
    assert not lacks_entries(metadata, A, [(0, 0), (2, 3), (5, 6), (8, 9)])
    assert lacks_entries(metadata, A, [(0, 0), (2, 3), (5, 5), (8, 9)])
