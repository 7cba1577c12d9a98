"""Whether a stream has missed something that was trimmed: it has not if it had read all of it."""

from __future__ import annotations

import pytest

from dlog.model import LogMetadata, MessageId
from ledger.model import LedgerId
from spark_connector.extents.partitions import Extent
from spark_connector.extents.trimming import has_missed
from tests.helpers.log.records import listed

A = MessageId


def record(trim_before: MessageId, trimmed_end: MessageId) -> LogMetadata:
    """Ledger 3 with entries 0 to 9 is sealed, ledger 5 is not; ledgers below 3 are dropped."""
    return LogMetadata(
        log_uuid="u",
        instance_id="i",
        ledgers=(listed(3, 9), listed(5)),
        last_ledger_id=5,
        trim_before=trim_before,
        trimmed_end=trimmed_end,
    )


@pytest.mark.parametrize(
    ("position", "trim_before", "trimmed_end", "missed"),
    [
        (A(3, 0, 0), A(3, 0, 0), A(1, 7, 0), False),
        (A(3, 5, 0), A(3, 5, 0), A(1, 7, 0), False),
        (A(3, 4, 9), A(3, 5, 0), A(1, 7, 0), True),
        (A(1, 7, 0), A(3, 0, 0), A(1, 7, 0), False),
        (A(1, 6, 0), A(3, 0, 0), A(1, 7, 0), True),
        (A(1, 7, 0), A(3, 1, 0), A(1, 7, 0), True),
        (A(3, 10, 0), A(5, 0, 0), A(1, 7, 0), False),
        (A(3, 9, 0), A(5, 0, 0), A(1, 7, 0), True),
        (A(3, 10, 0), A(5, 1, 0), A(1, 7, 0), True),
        (A(5, 3, 0), A(5, 2, 0), A(1, 7, 0), False),
    ],
)
def test_it_is_what_lies_between(
    position: MessageId, trim_before: MessageId, trimmed_end: MessageId, missed: bool
) -> None:
    assert has_missed(record(trim_before, trimmed_end), (), position) is missed


@pytest.mark.parametrize(
    ("position", "missed"),
    [(A(2, 3, 0), True), (A(2, 4, 0), True), (A(2, 5, 0), False), (A(2, 6, 0), False), (A(1, 9, 0), True)],
)
def test_ledgers_in_pages_are_known_by_their_extents(position: MessageId, missed: bool) -> None:
    """Ledger 2, with entries 0 to 5, is in a page, and the log is trimmed to its entry 5."""
    trimmed = record(A(2, 5, 0), A(1, 7, 0))
    extent = Extent(log="l", ledger_id=LedgerId(2), first_entry=0, last_entry=5, byte_count=9, messages=None)
    assert has_missed(trimmed, (extent,), position) is missed
