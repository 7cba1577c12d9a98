"""What a producer has left out: ranges that stay apart, whatever is added and appended, as a set of sequences would."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from dlog.write.left_out import RANGES_MAX, LeftOut, keep_above, leave_out


def test_they_are_as_a_set_of_sequences() -> None:
    random = Random(0)
    for _ in range(200):
        ranges: LeftOut = ()
        expected: set[int] = set()
        for _ in range(10):
            first = random.randrange(30)
            if random.random() < 0.7:
                last = first + random.randrange(4)
                ranges = leave_out(ranges, first, last)
                expected.update(range(first, last + 1))
            else:
                ranges = keep_above(ranges, first)
                expected = {each for each in expected if each > first}
            assert {each for low, high in ranges for each in range(low, high + 1)} == expected
            assert all(low <= high for low, high in ranges)
            assert all(before[1] + 1 < after[0] for before, after in pairwise(ranges))


def test_of_too_many_the_newest_become_one() -> None:
    """What is missing stays missing, and the lowest sequence, from which a program appends again, is exact."""
    ranges: LeftOut = ()
    for sequence in range(0, 4 * RANGES_MAX, 2):
        ranges = leave_out(ranges, sequence, sequence)
    assert len(ranges) == RANGES_MAX
    assert ranges[0] == (0, 0)
    assert ranges[-1] == (2 * RANGES_MAX - 2, 4 * RANGES_MAX - 2)
