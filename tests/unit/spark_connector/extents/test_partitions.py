"""Cutting and packing: sizes near what was asked for, and exact bounds.

That nothing is lost or doubled, whatever is read: test_partitioning.py.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dlog.model import EARLIEST_ID, MessageId
from spark_connector.extents.partitions import (
    LEDGERS_MAX,
    Extent,
    Partition,
    cut_at,
    packed,
    partition_size,
    pieces,
    shares_of,
    within_bounds,
)

FAR = MessageId(2**62, 0, 0)


def ledger(ledger_id: int, entries: int, byte_count: int = 1000, messages: int | None = None) -> Extent:
    return Extent(
        log="orders",
        ledger_id=ledger_id,
        first_entry=0,
        last_entry=entries - 1,
        byte_count=byte_count,
        messages=messages,
    )


def plan(extents: list[Extent], *, partition_bytes: int, partitions_min: int = 1) -> list[Partition]:
    size = partition_size(extents, partition_bytes=partition_bytes, partitions_min=partitions_min)
    return list(packed(pieces(extents, size), size))


def test_small_ledgers_share_a_partition() -> None:
    """Four ledgers of 1,000 bytes and a wish of 2,500: two and two."""
    partitions = plan([ledger(n, 10, messages=50) for n in range(4)], partition_bytes=2500)
    assert [len(partition.extents) for partition in partitions] == [2, 2]
    assert [extent.messages for partition in partitions for extent in partition.extents] == [50] * 4


def test_a_large_ledger_is_cut_at_entry_borders() -> None:
    """10,000 bytes in 7 entries, 3,000 wanted: four pieces that meet without a gap."""
    partitions = plan([ledger(5, 7, 10_000, messages=70)], partition_bytes=3000)
    assert [(part.start, part.end) for partition in partitions for part in partition.extents] == [
        (MessageId(5, 0, 0), MessageId(5, 1, 0)),
        (MessageId(5, 1, 0), MessageId(5, 3, 0)),
        (MessageId(5, 3, 0), MessageId(5, 5, 0)),
        (MessageId(5, 5, 0), MessageId(5, 7, 0)),
    ]
    assert all(extent.messages is None for partition in partitions for extent in partition.extents)


def test_a_partition_has_so_many_ledgers_however_small_they_are() -> None:
    partitions = plan([ledger(n, 1, 10) for n in range(2 * LEDGERS_MAX + 1)], partition_bytes=10**9)
    assert [len(partition.extents) for partition in partitions] == [LEDGERS_MAX, LEDGERS_MAX, 1]


def test_ledgers_of_several_logs_share_a_partition() -> None:
    logs = [Extent(log=log, ledger_id=1, first_entry=0, last_entry=0, byte_count=100) for log in "abc"]
    [partition] = plan(logs, partition_bytes=300)
    assert [extent.log for extent in partition.extents] == ["a", "b", "c"]


def test_a_limit_in_messages_ends_a_partition() -> None:
    """Ledgers of 40 messages: two are 80, three would be more than 100."""
    found = packed([ledger(n, 10, messages=40) for n in range(5)], 10**9, 100)
    assert [len(partition.extents) for partition in found] == [2, 2, 1]


@given(st.integers(0, 10_000), st.integers(1, 2_000))
def test_shares_are_the_fewest_and_nearly_equal(messages: int, most: int) -> None:
    borders = [0, *shares_of(messages, most), messages]
    sizes = [through - before for before, through in pairwise(borders)]
    assert len(sizes) == max(1, -(-messages // most))
    assert max(sizes) <= most and max(sizes) - min(sizes) <= 1


def test_a_piece_is_cut_inside_an_entry() -> None:
    """Entries of ten messages, from message 3 of entry 2 on, cut after 1 and after 17 messages."""
    extent = Extent(
        log="l", ledger_id=4, first_entry=2, last_entry=5, byte_count=400, messages=32, skip=3, limit=5
    )
    parts = cut_at(extent, [MessageId(4, 2, 4), MessageId(4, 4, 0)], [1, 17])
    assert [(part.start, part.end, part.messages) for part in parts] == [
        (MessageId(4, 2, 3), MessageId(4, 2, 4), 1),
        (MessageId(4, 2, 4), MessageId(4, 4, 0), 16),
        (MessageId(4, 4, 0), MessageId(4, 5, 5), 15),
    ]


def test_a_single_huge_entry_stays_whole() -> None:
    assert len(plan([ledger(1, 1, 10**9)], partition_bytes=10)) == 1


def test_nothing_to_read_gives_no_partition() -> None:
    assert plan([], partition_bytes=10, partitions_min=8) == []


def test_more_partitions_than_bytes_would_need_can_be_asked_for() -> None:
    assert len(plan([ledger(1, 100)], partition_bytes=10**9, partitions_min=8)) == 8


def test_bounds_inside_an_entry_keep_its_other_messages_out() -> None:
    whole = ledger(4, 10, messages=100)
    part = within_bounds(whole, MessageId(4, 2, 3), MessageId(4, 5, 1))
    assert part is not None
    assert (part.start, part.end) == (MessageId(4, 2, 3), MessageId(4, 5, 1))
    assert (part.first_entry, part.last_entry, part.skip, part.limit) == (2, 5, 3, 1)
    assert part.messages is None


def test_bounds_at_the_edges_keep_the_count() -> None:
    whole = ledger(4, 10, messages=100)
    assert within_bounds(whole, EARLIEST_ID, FAR) is whole
    assert within_bounds(whole, MessageId(4, 0, 0), MessageId(4, 10, 0)) is whole


def test_bounds_elsewhere_leave_nothing() -> None:
    whole = ledger(4, 10)
    assert within_bounds(whole, MessageId(5, 0, 0), FAR) is None
    assert within_bounds(whole, EARLIEST_ID, MessageId(4, 0, 0)) is None
    assert within_bounds(whole, EARLIEST_ID, MessageId(3, 9, 9)) is None
    assert within_bounds(whole, MessageId(4, 10, 0), FAR) is None
    assert within_bounds(whole, MessageId(4, 3, 2), MessageId(4, 3, 2)) is None


def test_bounds_of_a_part_keep_what_was_cut_off_before() -> None:
    """From message 3 of entry 2 to message 5 of entry 5, exclusive: a bound outside changes nothing."""
    part = Extent(
        log="l", ledger_id=4, first_entry=2, last_entry=5, byte_count=400, messages=32, skip=3, limit=5
    )
    assert within_bounds(part, EARLIEST_ID, FAR) is part
    first = within_bounds(part, EARLIEST_ID, MessageId(4, 3, 0))
    last = within_bounds(part, MessageId(4, 5, 1), FAR)
    assert first is not None and (first.start, first.end) == (MessageId(4, 2, 3), MessageId(4, 3, 0))
    assert last is not None and (last.start, last.end) == (MessageId(4, 5, 1), MessageId(4, 5, 5))
    assert within_bounds(part, EARLIEST_ID, MessageId(4, 2, 3)) is None
    assert within_bounds(part, MessageId(4, 5, 5), FAR) is None


ids = st.builds(MessageId, st.integers(0, 9), st.integers(0, 45), st.integers(0, 3))


@given(st.integers(0, 9), st.integers(1, 40), ids, ids)
def test_bounds_select_exactly_the_ids_between_them(
    ledger_id: int, entries: int, start: MessageId, end: MessageId
) -> None:
    """Compared with the definition, entry by entry, for batches of four messages."""
    every = [MessageId(ledger_id, e, b) for e in range(entries) for b in range(4)]
    wanted = [message_id for message_id in every if start <= message_id < end]
    part = within_bounds(ledger(ledger_id, entries), start, end)
    got = [] if part is None else [message_id for message_id in every if part.start <= message_id < part.end]
    assert got == wanted
