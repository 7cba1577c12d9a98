"""Planning, whatever is read: any ledgers of any logs, any ranges and sizes; read back as tasks read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import cast
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlog.model import MessageId
from ledger.client import LedgerClient
from spark_connector.extents import extent_reader
from spark_connector.extents.extent_reader import ExtentReader
from spark_connector.extents.partitions import Extent, Partition, between, partition_size
from spark_connector.options.log_choice import NamedLogs
from spark_connector.options.read_options import ReadOptions
from spark_connector.read import partitioning
from spark_connector.read.partitioning import partitioned
from tests.helpers.log.memory_ledgers import MemoryLedger, MemoryLedgers, entry_of


@dataclass(frozen=True)
class Ledger:
    """`counts`: messages of each entry. `is_counted`: whether its seal says how many it has in all."""

    counts: list[int]
    byte_count: int
    is_counted: bool
    is_numbered: bool


@dataclass(frozen=True)
class Log:
    ledgers: list[Ledger]
    start: MessageId
    end: MessageId


def stored(logs: list[Log]) -> tuple[MemoryLedgers, list[Extent], list[bytes]]:
    """The ledgers of all logs, the extents in the ranges, and the messages in them."""
    ledgers, extents, wanted = MemoryLedgers(), list[Extent](), list[bytes]()
    for number, log in enumerate(logs):
        whole = []
        for at, ledger in enumerate(log.ledgers):
            ledger_id = 10 * number + at
            before = [0, *accumulate(ledger.counts)]
            found = ledgers.ledgers[ledger_id] = MemoryLedger(sealed=True)
            for entry, count in enumerate(ledger.counts):
                ids = [MessageId(ledger_id, entry, index) for index in range(count)]
                payloads = [str(each).encode() for each in ids]
                messages_before = before[entry] if ledger.is_numbered else None
                found.entries.append(entry_of(*payloads, messages_before=messages_before))
                start, end = bounds_of(log, number)
                wanted += [str(each).encode() for each in ids if start <= each < end]
            found.confirm()
            whole.append(
                Extent(
                    log=f"log-{number}",
                    ledger_id=ledger_id,
                    first_entry=0,
                    last_entry=len(ledger.counts) - 1,
                    byte_count=ledger.byte_count,
                    messages=sum(ledger.counts) if ledger.is_counted else None,
                )
            )
        extents += between(whole, *bounds_of(log, number))
    return ledgers, extents, wanted


def bounds_of(log: Log, number: int) -> tuple[MessageId, MessageId]:
    start, end = (place._replace(ledger_id=10 * number + place.ledger_id) for place in (log.start, log.end))
    return start, end


def planned(ledgers: MemoryLedgers, extents: list[Extent], **options: int | None) -> list[Partition]:
    read = ReadOptions(metadata="m", logs=NamedLogs(("l",)), **options)  # type: ignore[arg-type]  # of the test
    reader = ExtentReader(cast(LedgerClient, ledgers), 5000)
    return asyncio.run(partitioned(extents, read, reader, count=True))


async def messages_of(ledgers: MemoryLedgers, extent: Extent) -> list[bytes]:
    reader = ExtentReader(cast(LedgerClient, ledgers), 5000)
    return [value async for entry in reader.columns(extent) for value in entry.payloads.to_pylist()]


@contextmanager
def nothing_is_small() -> Iterator[None]:
    """Every extent of more than one entry is looked into, and not read as a whole."""
    with mock.patch.object(extent_reader, "FETCH_ENTRIES", 1):
        yield


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


places = st.builds(MessageId, st.integers(0, 5), st.integers(0, 9), st.integers(0, 6))
ledger_lists = st.lists(
    st.builds(
        Ledger,
        st.lists(st.integers(1, 5), min_size=1, max_size=8),
        st.integers(0, 10_000),
        st.booleans(),
        st.booleans(),
    ),
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.builds(Log, ledger_lists, places, places), max_size=3),
    st.integers(1, 20_000),
    st.integers(1, 12),
    st.none() | st.integers(1, 12),
    st.sampled_from((as_it_is, nothing_is_small)),
)
def test_partitions_are_the_range_with_exact_counts_within_the_limits(
    logs: list[Log],
    partition_bytes: int,
    partitions_min: int,
    rows_max: int | None,
    read_as: object,
) -> None:
    ledgers, extents, wanted = stored(logs)
    with read_as():  # type: ignore[operator]  # one of the two above
        partitions = planned(
            ledgers,
            extents,
            partition_bytes=partition_bytes,
            partitions_min=partitions_min,
            partition_rows_max=rows_max,
        )
    size = partition_size(extents, partition_bytes=partition_bytes, partitions_min=partitions_min)
    found: list[bytes] = []
    for partition in partitions:
        in_partition = 0
        for extent in partition.extents:
            messages = asyncio.run(messages_of(ledgers, extent))
            is_cheap = read_as is as_it_is or rows_max is not None
            assert extent.messages == len(messages) or (extent.messages is None and not is_cheap)
            in_partition += len(messages)
            found += messages
        if rows_max is not None:
            assert 0 < in_partition <= rows_max
        assert len(partition.extents) == 1 or sum(e.byte_count for e in partition.extents) <= size
    assert found == wanted
    assert ledgers.open_handles == 0


def test_one_message_above_the_limit_makes_two_tasks() -> None:
    """13 messages in entries of five, five and three."""
    ledgers, extents, _ = stored(
        [Log([Ledger([5, 5, 3], 100, True, True)], MessageId(0, 0, 0), MessageId(9, 0, 0))]
    )
    for most, sizes in ((13, [13]), (12, [6, 7]), (6, [4, 4, 5]), (1, [1] * 13)):
        partitions = planned(ledgers, extents, partition_rows_max=most)
        assert [[extent.messages for extent in each.extents] for each in partitions] == [
            [size] for size in sizes
        ]


def test_what_is_expensive_to_count_is_not_counted_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many bytes, too many pieces, or entries that do not say what is before them."""

    def known(is_numbered: bool = True) -> set[bool]:
        ledgers, extents, _ = stored(
            [
                Log(
                    [Ledger([3] * 50, 5000, False, is_numbered)] * 4,
                    MessageId(0, 0, 0),
                    MessageId(9, 0, 0),
                )
            ]
        )
        with nothing_is_small():
            partitions = planned(ledgers, extents, partition_bytes=1000)
        return {extent.messages is not None for part in partitions for extent in part.extents}

    assert known() == {True}
    assert known(is_numbered=False) == {False}
    monkeypatch.setattr(partitioning, "COUNT_PIECES_MAX", 19)
    assert known() == {False}
    monkeypatch.undo()
    monkeypatch.setattr(partitioning, "COUNT_BYTES_MAX", 3999)
    assert known() == {False}
    monkeypatch.setattr(partitioning, "COUNT_BYTES_MAX", 4000)
    assert known() == {True}
