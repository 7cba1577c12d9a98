"""Whether a stream has missed something that was trimmed: it has not if it had read all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.model import LogMetadata, MessageId
from dlog.testing import SimulatedCluster, simulate
from ledger.model import LedgerId
from spark_connector.extents.partitions import Extent
from spark_connector.extents.readable import Readable, readable_extents
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
    assert has_missed(Readable(record(trim_before, trimmed_end)), position) is missed


@pytest.mark.parametrize(
    ("position", "missed"),
    [(A(2, 3, 0), True), (A(2, 4, 0), True), (A(2, 5, 0), False), (A(2, 6, 0), False), (A(1, 9, 0), True)],
)
def test_ledgers_in_pages_are_known_by_their_extents(position: MessageId, missed: bool) -> None:
    """Ledger 2, with entries 0 to 5, is in a page, and the log is trimmed to its entry 5."""
    trimmed = record(A(2, 5, 0), A(1, 7, 0))
    extent = Extent(log="l", ledger_id=LedgerId(2), first_entry=0, last_entry=5, byte_count=9, messages=None)
    assert has_missed(Readable(trimmed, (extent,)), position) is missed


@pytest.mark.parametrize(
    ("position", "complete_below", "missed"),
    [(A(5, 2, 0), 6, False), (A(5, 1, 0), 6, True), (A(3, 10, 0), 6, True), (A(5, 2, 0), 5, True)],
)
def test_a_ledger_whose_seal_is_not_recorded_yet_is_known_by_its_extent(
    position: MessageId, complete_below: int, missed: bool
) -> None:
    """Ledger 5, with entries 0 and 1, is sealed in its own metadata, and the log is trimmed to the one after it."""
    trimmed = record(A(7, 0, 0), A(1, 7, 0))
    trimmed = replace(trimmed, ledgers=(*trimmed.ledgers, listed(7)), last_ledger_id=7)
    extent = Extent(log="l", ledger_id=LedgerId(5), first_entry=0, last_entry=1, byte_count=9, messages=None)
    assert has_missed(Readable(trimmed, (extent,), complete_below), position) is missed


def test_the_end_of_the_ledger_before_the_last_one_has_missed_nothing() -> None:
    """A writer records the seal of a ledger with its next change of the list only."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            last = await writer.append(b"one")
            await writer.rotate()
            await client.shrink("orders", await writer.append(b"two"))
            ref = (await client.describe("orders")).ref
            found = await readable_extents(client.logs, ref, client.ledgers, last)
            assert [one.seal for one in found.record.ledgers] == [None, None]
            assert not has_missed(found, MessageId(last.ledger_id, last.entry_id + 1, 0))
            assert has_missed(found, last)

    simulate(main)
