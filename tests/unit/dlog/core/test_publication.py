"""Whether the batch of a sink may be listed, and whether it is, by the record alone.

Source: docs/log-semantics.md#rule-37.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.core.metadata_changes import shrunk
from dlog.core.publication import (
    MARK_KEPT_US,
    Barred,
    NoRoom,
    NotOwner,
    Ownership,
    Publish,
    Published,
    SinkBatch,
    StagedLedger,
    Verdict,
    publication,
    raised,
)
from dlog.format.log_metadata import SINKS_MAX, decode_record, encode_record
from dlog.ledger_list.trim_cut import TrimCut
from dlog.model import LogMetadata, LogState, MessageId, SinkMark
from ledger.errors import ConfigurationError
from ledger.model import LedgerId
from tests.helpers.log.records import ALICE, BOB, ids, listed, record

OURS = Ownership("uuid-1", 3, BOB)
BATCH = SinkBatch(writer_id="query", number=7)
HELD = record(listed(1, 4), listed(5, 2, epoch=2), epoch=3, owner=BOB)


def staged(ledger_id: int) -> StagedLedger:
    return StagedLedger(
        ledger_id=LedgerId(ledger_id),
        created_us=50 + ledger_id,
        last_entry=2,
        message_count=30,
        byte_count=400,
    )


BOTH = (staged(12), staged(9))


def decided(
    found: LogMetadata, batch: SinkBatch | None = BATCH, ledgers: tuple[StagedLedger, ...] = BOTH
) -> Verdict:
    return publication(found, OURS, batch, ledgers, append_time_us=700, now_us=900, nonce=77)


def published(found: LogMetadata = HELD, batch: SinkBatch | None = BATCH) -> LogMetadata:
    verdict = decided(found, batch)
    assert isinstance(verdict, Publish)
    return verdict.record


def test_one_change_lists_every_ledger_in_order_and_raises_the_mark() -> None:
    after = published()
    assert ids(after.ledgers) == [1, 5, 9, 12]
    assert after.last_ledger_id == 12
    assert after.sinks == (SinkMark(writer_id="query", batch=7, time_us=900),)
    assert (after.epoch, after.owner, after.nonce) == (3, BOB, 77)
    new = after.ledgers[-1]
    assert (new.epoch, new.created_us) == (3, 62)
    assert new.seal is not None
    assert (new.seal.last_entry, new.seal.message_count, new.seal.byte_count) == (2, 30, 400)
    assert new.seal.first_append_us == new.seal.last_append_us == 700
    assert decode_record(encode_record(after)) == after


@pytest.mark.parametrize("batch", [BATCH, None])
def test_a_fresh_record_shows_that_the_change_was_made(batch: SinkBatch | None) -> None:
    """The answer was lost; since then another client took the log over, and trimmed it."""
    after = published(batch=batch)
    assert decided(after, batch) == Published(frozenset({LedgerId(9), LedgerId(12)}))
    later = replace(after, epoch=4, owner=ALICE)
    assert decided(later, batch) == Published(frozenset({LedgerId(9), LedgerId(12)}))
    cut = TrimCut(floor=LedgerId(12), end=MessageId(9, 2, 0))
    trimmed = shrunk(later, MessageId(12, 0, 0), cut, 78)
    assert ids(trimmed.ledgers) == [12]
    assert decided(trimmed, batch) == Published(frozenset({LedgerId(9), LedgerId(12)}))


@pytest.mark.parametrize("number", [7, 6, 0])
def test_a_batch_at_or_below_the_mark_is_a_replay(number: int) -> None:
    found = replace(HELD, sinks=(SinkMark(writer_id="query", batch=7, time_us=1),))
    assert decided(found, SinkBatch(writer_id="query", number=number)) == Published(frozenset())
    assert isinstance(decided(found, SinkBatch(writer_id="query", number=8)), Publish)
    assert isinstance(decided(found, SinkBatch(writer_id="other", number=number)), Publish)
    assert isinstance(decided(found, None), Publish)


@pytest.mark.parametrize(
    "found",
    [
        replace(HELD, epoch=4),
        replace(HELD, owner=ALICE),
        replace(HELD, log_uuid="uuid-2"),
        replace(HELD, state=LogState.SEALED),
        replace(HELD, state=LogState.DELETING),
    ],
)
def test_only_the_owner_of_the_epoch_publishes(found: LogMetadata) -> None:
    assert decided(found) == NotOwner()


def test_an_id_that_the_log_has_passed_bars_the_whole_batch() -> None:
    """A sweep has raised the mark to the lower one of the two ids (docs/log-semantics.md#rule-3)."""
    assert decided(replace(HELD, last_ledger_id=9)) == Barred()
    assert isinstance(decided(replace(HELD, last_ledger_id=8)), Publish)


def test_a_mark_makes_way_only_when_it_is_old() -> None:
    marks = tuple(SinkMark(writer_id=f"s{n}", batch=n, time_us=1000 + n) for n in range(SINKS_MAX))
    soon, late = 1000 + MARK_KEPT_US - 1, 1000 + MARK_KEPT_US
    assert raised(marks, BATCH, soon) is None
    after = raised(marks, BATCH, late)
    assert after == (*marks[1:], SinkMark(writer_id="query", batch=7, time_us=late))
    known = raised(marks, SinkBatch(writer_id="s0", number=9), soon)
    assert known == (*marks[1:], SinkMark(writer_id="s0", batch=9, time_us=soon))
    verdict = publication(
        replace(HELD, sinks=marks), OURS, BATCH, BOTH, append_time_us=1, now_us=soon, nonce=2
    )
    assert verdict == NoRoom()


@pytest.mark.parametrize(("writer_id", "number"), [("", 1), ("x" * 201, 1), ("x", -1), ("x", 2**63)])
def test_what_cannot_be_recorded_is_refused(writer_id: str, number: int) -> None:
    with pytest.raises(ConfigurationError):
        SinkBatch(writer_id=writer_id, number=number)
