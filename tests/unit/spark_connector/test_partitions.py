"""Planning: nothing lost, nothing doubled, sizes near what was asked for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dlog.model import EARLIEST_ID, MessageId
from spark_connector.partitions import Extent, Partition, plan, within_bounds

FAR = MessageId(2**62, 0, 0)


def ledger(ledger_id: int, entries: int, byte_count: int = 1000, messages: int | None = None) -> Extent:
    return Extent(
        ledger_id=ledger_id, first_entry=0, last_entry=entries - 1, byte_count=byte_count, messages=messages
    )


def entries_of(partitions: list[Partition]) -> list[tuple[int, int]]:
    return [
        (extent.ledger_id, entry)
        for partition in partitions
        for extent in partition.extents
        for entry in range(extent.first_entry, extent.last_entry + 1)
    ]


def test_small_ledgers_share_a_partition() -> None:
    """Four ledgers of 1,000 bytes and a wish of 2,500: two and two."""
    partitions = plan([ledger(n, 10, messages=50) for n in range(4)], partition_bytes=2500)
    assert [len(partition.extents) for partition in partitions] == [2, 2]
    assert [extent.messages for partition in partitions for extent in partition.extents] == [50] * 4


def test_a_large_ledger_is_cut_at_entry_borders() -> None:
    """10,000 bytes in 7 entries, 3,000 wanted: four pieces that meet without a gap."""
    partitions = plan([ledger(5, 7, 10_000, messages=70)], partition_bytes=3000)
    assert [(p.start, p.end) for p in partitions] == [
        (MessageId(5, 0, 0), MessageId(5, 1, 0)),
        (MessageId(5, 1, 0), MessageId(5, 3, 0)),
        (MessageId(5, 3, 0), MessageId(5, 5, 0)),
        (MessageId(5, 5, 0), MessageId(5, 7, 0)),
    ]
    assert all(extent.messages is None for partition in partitions for extent in partition.extents)


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


sizes = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 10_000)), max_size=8)
ids = st.builds(MessageId, st.integers(0, 9), st.integers(0, 45), st.integers(0, 3))


@given(sizes, st.integers(1, 20_000), st.integers(1, 12))
def test_partitions_concatenate_to_the_log(
    shapes: list[tuple[int, int]], partition_bytes: int, partitions_min: int
) -> None:
    """Whatever the sizes: every entry once, in order, and each partition begins where the last one ended."""
    extents = [ledger(n, entries, size) for n, (entries, size) in enumerate(shapes)]
    partitions = plan(extents, partition_bytes=partition_bytes, partitions_min=partitions_min)
    assert entries_of(partitions) == [
        (n, entry) for n, (entries, _) in enumerate(shapes) for entry in range(entries)
    ]
    assert all(a.end <= b.start for a, b in pairwise(partitions))


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
