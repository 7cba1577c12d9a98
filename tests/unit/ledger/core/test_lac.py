"""Which answers count for a reader's LAC, and when no more are to come."""

from __future__ import annotations

from ledger.core.lac import LacCollector
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, QuorumSizes

METADATA = LedgerMetadata(
    quorum=QuorumSizes(ensemble=3, write=3, ack=2),
    fragments=(Fragment(EntryId(7), tuple(BookieId(f"b{number}") for number in range(3))),),
)


def test_the_start_of_the_last_fragment_is_the_floor() -> None:
    collector = LacCollector(METADATA)
    assert (collector.lac, collector.length, collector.covered, collector.exhausted) == (6, 0, False, False)
    collector.on_answer(0, 4, 100)
    assert (collector.lac, collector.length) == (6, 0)
    collector.on_answer(1, 9, 300)
    assert (collector.lac, collector.length, collector.covered) == (9, 300, True)


def test_a_part_of_an_answer_raises_the_lac_and_covers_nothing() -> None:
    collector = LacCollector(METADATA)
    for position in range(3):
        assert not collector.exhausted
        collector.on_part(position, 8 + position)
    assert (collector.lac, collector.covered, collector.exhausted) == (10, False, True)


def test_a_failure_is_an_answer_that_covers_nothing() -> None:
    collector = LacCollector(METADATA)
    collector.on_failure(0)
    collector.on_answer(1, -1)
    assert not collector.covered
    collector.on_failure(2)
    assert (collector.lac, collector.covered, collector.exhausted) == (6, False, True)
