"""Some of the entries that a member must hold, as ranges of their positions among these. Pure.

Takes memory for each gap, not for each entry: a member that lost its disk lacks millions in a row, also where its
fragment is striped and their ids are not consecutive.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import overload


class SomeEntries(Sequence[int]):
    """A subsequence of `of`, which is not copied."""

    def __init__(self, of: Sequence[int] = ()) -> None:
        self._of = of
        self._starts = array("q")
        """Position in `of` where each range begins, ascending, with a gap before each."""
        self._before = array("q")
        """Number of entries in the ranges before each."""
        self._length = 0

    def add(self, positions: Iterable[int]) -> None:
        """Take in what is at these positions in `of`; they ascend, and are after those that were added before."""
        for position in positions:
            if not self._starts or position != self._end():
                self._starts.append(position)
                self._before.append(self._length)
            self._length += 1

    def _end(self) -> int:
        """Position after the last range."""
        return self._starts[-1] + self._length - self._before[-1]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        numbers = range(self._length)[index]
        return self._at(numbers) if isinstance(numbers, int) else [self._at(each) for each in numbers]

    def _at(self, number: int) -> int:
        at = bisect_right(self._before, number) - 1
        return self._of[self._starts[at] + number - self._before[at]]


def without(some: Collection[int], of: Sequence[int]) -> Sequence[int]:
    """`of` but for these entries."""
    if not some:
        return of
    rest = SomeEntries(of)
    rest.add(at for at, entry_id in enumerate(of) if entry_id not in some)
    return rest
