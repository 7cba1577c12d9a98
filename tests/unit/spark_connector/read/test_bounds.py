"""Where a read begins and ends: words, ids, trimmed logs, and what lies beyond the tail."""

from __future__ import annotations

import pytest

from dlog.errors import TrimmedError, UnknownPositionError
from dlog.model import EARLIEST_ID, ListedLedger, LogMetadata, MessageId, SealFacts
from ledger.model import LedgerId
from spark_connector.extents.partitions import Extent
from spark_connector.extents.readable import Readable
from spark_connector.options.bounds import EndingBound, StartingBound
from spark_connector.read.bounds import bounded

LEDGERS = [
    Extent(log="orders", ledger_id=3, first_entry=0, last_entry=9, byte_count=1000, messages=30),
    Extent(log="orders", ledger_id=7, first_entry=0, last_entry=4, byte_count=500, messages=None),
]


def _sealed(last_entry: int) -> SealFacts:
    return SealFacts(last_entry=last_entry, message_count=-1, byte_count=0)


def ids(
    starting: StartingBound,
    ending: EndingBound,
    trim: MessageId = EARLIEST_ID,
    *,
    last_is_open: bool = True,
) -> list[str]:
    ledgers = tuple(
        ListedLedger(ledger_id=LedgerId(ledger_id), epoch=1, created_us=0, seal=seal)
        for ledger_id, seal in ((3, _sealed(9)), (7, _sealed(4)), (8, None if last_is_open else _sealed(-1)))
    )
    record = LogMetadata(log_uuid="u", instance_id="i", ledgers=ledgers, last_ledger_id=8, trim_before=trim)
    return [
        f"{part.start} {part.end}" for part in bounded("orders", Readable(record, LEDGERS), starting, ending)
    ]


def test_words() -> None:
    assert ids("earliest", "latest") == ["3:0:0 3:10:0", "7:0:0 7:5:0"]
    assert ids("latest", "latest") == []


def test_ids_bound_a_read_start_included_end_excluded() -> None:
    assert ids(MessageId(3, 8, 2), MessageId(7, 1, 0)) == ["3:8:2 3:10:0", "7:0:0 7:1:0"]
    assert ids(MessageId(5, 0, 0), MessageId(6, 0, 0)) == []


def test_an_end_above_the_tail_is_the_tail() -> None:
    assert ids(MessageId(7, 3, 0), MessageId(99, 0, 0)) == ["7:3:0 7:5:0"]


def test_earliest_is_what_a_shrink_left() -> None:
    assert ids("earliest", "latest", trim=MessageId(3, 9, 1)) == ["3:9:1 3:10:0", "7:0:0 7:5:0"]


def test_a_trimmed_start_is_an_error() -> None:
    with pytest.raises(
        TrimmedError, match="messages at startingId 3:2:0 of log orders were trimmed: it begins at 3:9:1"
    ):
        ids(MessageId(3, 2, 0), "latest", trim=MessageId(3, 9, 1))


def test_a_start_at_the_end_of_a_trimmed_ledger_has_missed_nothing() -> None:
    assert ids(MessageId(3, 10, 0), "latest", trim=MessageId(7, 0, 0)) == ["7:0:0 7:5:0"]
    with pytest.raises(
        TrimmedError, match="startingId 3:10:0 of log orders were trimmed: it begins at 7:1:0"
    ):
        ids(MessageId(3, 10, 0), "latest", trim=MessageId(7, 1, 0))


def test_a_start_in_a_ledger_to_come_is_an_error() -> None:
    """Ledger 8 is known to the log (its last one, empty); ledger 9 is not."""
    assert ids(MessageId(8, 0, 0), "latest") == []
    with pytest.raises(
        UnknownPositionError, match="startingId 9:0:0 is in a ledger that log orders does not have"
    ):
        ids(MessageId(9, 0, 0), "latest")


def test_the_position_after_a_log_whose_ledgers_are_all_sealed_is_none_to_come() -> None:
    """A reader ends there that has passed a lost last ledger; with a writer at work it would be one to come."""
    assert ids(MessageId(9, 0, 0), "latest", last_is_open=False) == []
    for position in (MessageId(9, 0, 1), MessageId(9, 1, 0), MessageId(10, 0, 0)):
        with pytest.raises(UnknownPositionError):
            ids(position, "latest", last_is_open=False)


def test_an_empty_log_reads_as_nothing() -> None:
    record = LogMetadata(log_uuid="u", instance_id="i")
    assert bounded("orders", Readable(record), "earliest", "latest") == []
    assert bounded("orders", Readable(record), "latest", "latest") == []
    assert bounded("orders", Readable(record), EARLIEST_ID, EARLIEST_ID) == [], (
        "its tail, and the position of each time"
    )
    with pytest.raises(UnknownPositionError):
        bounded("orders", Readable(record), MessageId(0, 1, 0), "latest")
