"""Limits of micro-batches, with ledgers in memory: read until the end, whatever is pending and whatever the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
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
from spark_connector.extents.partitions import Extent, between
from spark_connector.stream.batch_limits import BatchLimits
from tests.helpers.log.memory_ledgers import MemoryLedger, MemoryLedgers, entry_of

FAR = MessageId(2**62, 0, 0)

Logs = dict[str, list[list[int]]]
"""Of each log its ledgers, of each of them the messages of its entries."""

logs_of = st.dictionaries(
    st.sampled_from("abcde"),
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=6), min_size=1, max_size=3),
    min_size=1,
    max_size=5,
)


class Stream:
    """Every message has 10 bytes, but for what an entry needs."""

    def __init__(self, logs: Logs, *, is_numbered: bool, is_counted: bool) -> None:
        self.ledgers = MemoryLedgers()
        self.whole: dict[str, list[Extent]] = {}
        self.ids: dict[str, list[MessageId]] = {}
        self.sizes: dict[MessageId, int] = {}
        for number, (log, ledgers) in enumerate(sorted(logs.items())):
            self.whole[log], self.ids[log] = [], []
            for at, counts in enumerate(ledgers):
                self._add(log, 10 * number + at, counts, is_numbered, is_counted)
        self.at = {log: MessageId(0, 0, 0) for log in logs}
        reader = ExtentReader(cast(LedgerClient, self.ledgers), 5000)
        self.limits = BatchLimits(reader)

    def _add(self, log: str, ledger_id: int, counts: list[int], is_numbered: bool, is_counted: bool) -> None:
        ledger = self.ledgers.ledgers[ledger_id] = MemoryLedger(sealed=True)
        for entry, (count, before) in enumerate(zip(counts, [0, *accumulate(counts)], strict=False)):
            numbered = before if is_numbered else None
            ledger.entries.append(entry_of(*[b"0123456789"] * count, messages_before=numbered))
            self.sizes[MessageId(ledger_id, entry)] = len(ledger.entries[-1] or b"")
            self.ids[log] += [MessageId(ledger_id, entry, index) for index in range(count)]
        ledger.confirm()
        self.whole[log].append(
            Extent(
                log=log,
                ledger_id=ledger_id,
                first_entry=0,
                last_entry=len(counts) - 1,
                byte_count=sum(len(entry or b"") for entry in ledger.entries),
                messages=sum(counts) if is_counted else None,
            )
        )

    def pending(self) -> dict[str, list[Extent]]:
        found = {log: between(extents, self.at[log], FAR) for log, extents in self.whole.items()}
        return {log: parts for log, parts in found.items() if parts}

    def left(self) -> dict[str, list[MessageId]]:
        return {
            log: [each for each in ids if each >= self.at[log]]
            for log, ids in self.ids.items()
            if ids[-1] >= self.at[log]
        }

    def read(self, ends: dict[str, MessageId]) -> dict[str, list[MessageId]]:
        """The messages of a micro-batch with these ends."""
        found = {log: [each for each in self.left()[log] if each < end] for log, end in ends.items()}
        self.at |= ends
        return found

    def size_of(self, found: dict[str, list[MessageId]]) -> tuple[int, set[MessageId]]:
        """Bytes of the entries with these messages, and the entries."""
        entries = {each._replace(batch_index=0) for ids in found.values() for each in ids}
        return sum(self.sizes[entry] for entry in entries), entries


@settings(max_examples=75, deadline=None)
@given(logs_of, st.integers(1, 40), st.booleans(), st.booleans(), st.sampled_from((1, 1000)))
def test_a_limit_in_messages_is_used_and_kept(
    logs: Logs, most: int, is_numbered: bool, is_counted: bool, fetch_entries: int
) -> None:
    """Exactly that number; and of each log something, or, if there are more logs than messages, soon."""
    stream = Stream(logs, is_numbered=is_numbered, is_counted=is_counted)
    waiting = dict.fromkeys(logs, 0)
    with mock.patch.object(extent_reader, "FETCH_ENTRIES", fetch_entries):
        while pending := stream.pending():
            left = stream.left()
            total = sum(map(len, left.values()))
            assert asyncio.run(stream.limits.has_rows(pending, total))
            assert not asyncio.run(stream.limits.has_rows(pending, total + 1))
            found = stream.read(asyncio.run(stream.limits.after_rows(pending, most)))
            count = sum(map(len, found.values()))
            # Entries that do not say what is before them are estimated, but never too high.
            assert count == min(most, total) or (not is_numbered and 0 < count < most)
            assert all(found.values())
            for log in left:
                waiting[log] = 0 if log in found else waiting[log] + 1
                assert waiting[log] * most <= len(logs)
    assert stream.ledgers.open_handles == 0


@settings(max_examples=75, deadline=None)
@given(logs_of, st.integers(1, 1000))
def test_a_limit_in_bytes_is_kept_and_no_log_waits_for_long(logs: Logs, most: int) -> None:
    stream = Stream(logs, is_numbered=True, is_counted=True)
    waiting = dict.fromkeys(logs, 0)
    with sized(stream):
        while pending := stream.pending():
            left = stream.left()
            found = stream.read(asyncio.run(stream.limits.after_bytes(pending, most)))
            size, entries = stream.size_of(found)
            pending_size, _ = stream.size_of(left)
            assert size == pending_size or pending_size > most
            assert entries and (size <= most or len(entries) == 1)
            for log in pending:
                waiting[log] = 0 if log in found else waiting[log] + 1
                assert waiting[log] < len(logs)


@pytest.mark.parametrize("byte_count", [None, 0])
def test_a_limit_in_bytes_is_used_whatever_was_estimated(byte_count: int | None) -> None:
    """What is left of a ledger has larger entries than it had before; or a takeover could not read how many bytes."""
    stream = Stream({"a": [[1] * 20 + [50] * 5, [2]]}, is_numbered=True, is_counted=byte_count is None)
    if byte_count is not None:
        stream.whole["a"] = [replace(extent, byte_count=byte_count) for extent in stream.whole["a"]]
    stream.at["a"] = MessageId(0, 20, 0)
    with sized(stream):
        stream.read(asyncio.run(stream.limits.after_bytes(stream.pending(), 100_000)))
    assert not stream.pending()


def test_a_limit_in_messages_is_used_where_entries_do_not_say_how_many_there_are() -> None:
    stream = Stream({"a": [[6, 6, 6]], "b": [[6, 6]], "c": [[1]]}, is_numbered=False, is_counted=False)
    with mock.patch.object(extent_reader, "FETCH_ENTRIES", 1):
        found = stream.read(asyncio.run(stream.limits.after_rows(stream.pending(), 40)))
    assert {log: len(ids) for log, ids in found.items()} == {"a": 18, "b": 12, "c": 1}


def sized(stream: Stream) -> mock._patch[object]:
    """Handles in memory do not know the bytes of their ledgers, which a bookie's answers have."""

    async def bytes_through(_: object, handle: object, entry_id: int, extent: Extent) -> int:
        return sum(stream.sizes[MessageId(extent.ledger_id, entry)] for entry in range(entry_id + 1))

    return mock.patch.object(ExtentReader, "_bytes_through", bytes_through)
