"""Messages of a ledger by number: the same as counting all of them, with a few entries read."""

from __future__ import annotations

import asyncio
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.errors import EntryFormatError
from dlog.format.entry import Envelope
from dlog.model import MessageId
from spark_connector.extents.message_numbers import MessageNumbers, NotNumberedError
from spark_connector.extents.partitions import Extent, within_bounds

FAR = MessageId(2**62, 0, 0)


class Entries:
    """A ledger of entries with these numbers of messages. Counts what is read of it."""

    def __init__(self, counts: list[int], *, is_numbered: bool = True) -> None:
        self.counts = counts
        self.before = [0, *accumulate(counts)]
        self.is_numbered = is_numbered
        self.reads = 0

    @property
    def extent(self) -> Extent:
        return Extent(log="l", ledger_id=7, first_entry=0, last_entry=len(self.counts) - 1, byte_count=1)

    async def read(self, entry_id: int) -> Envelope:
        self.reads += 1
        return Envelope(
            epoch=1,
            count=self.counts[entry_id],
            append_time_us=1,
            body_bytes=1,
            messages_before=self.before[entry_id] if self.is_numbered else None,
        )

    def ids(self) -> list[MessageId]:
        return [MessageId(7, entry, at) for entry, count in enumerate(self.counts) for at in range(count)]


def find(entries: Entries, numbers: list[int], extent: Extent | None = None) -> tuple[list[MessageId], int]:
    return asyncio.run(MessageNumbers(extent or entries.extent, entries.read).find(numbers))


counts = st.lists(st.integers(1, 5) | st.integers(1, 1000), min_size=1, max_size=30)
places = st.builds(MessageId, st.just(7), st.integers(0, 30), st.integers(0, 6))


@given(counts, places, places, st.sets(st.integers(1, 200)))
def test_what_is_found_is_what_counting_finds(
    sizes: list[int], low: MessageId, high: MessageId, numbers: set[int]
) -> None:
    entries = Entries(sizes)
    extent = within_bounds(entries.extent, low, high)
    if extent is None:
        return
    inside = [each for each in entries.ids() if low <= each < high]
    found, total = find(entries, sorted(numbers), extent)
    assert total == len(inside)
    assert len(found) == len([number for number in numbers if number <= total])
    for number, after in zip(sorted(numbers), found, strict=False):
        assert [each for each in inside if each < after] == inside[:number]


def test_entries_of_one_size_are_found_at_the_first_guess() -> None:
    entries = Entries([10] * 100_000)
    found, total = find(entries, [123_456, 765_432])
    assert (found, total) == ([MessageId(7, 12_345, 6), MessageId(7, 76_543, 2)], 1_000_000)
    assert entries.reads == 4


@pytest.mark.parametrize("sizes", [[1] * 9_999 + [10**6], [10**6] + [1] * 9_999])
def test_guesses_that_mislead_cost_little_more_than_halving(sizes: list[int]) -> None:
    entries = Entries(sizes)
    find(entries, [5_000])
    find(entries, [1_004_000])
    assert entries.reads < 60


def test_entries_that_do_not_say_it_are_not_guessed() -> None:
    with pytest.raises(NotNumberedError):
        find(Entries([3, 3], is_numbered=False), [1])


@pytest.mark.parametrize("before", [[0, 3, 1, 9], [0, 50, 6, 9], [20, 3, 6, 9]])
def test_entries_that_contradict_each_other_are_reported(before: list[int]) -> None:
    """Entries of three messages."""
    entries = Entries([3, 3, 3, 3])
    entries.before = before
    with pytest.raises(
        EntryFormatError, match=r"of ledger 7 has .* contradicts that: one of them is damaged"
    ):
        find(entries, list(range(1, 13)))
