"""Which entries of a block the intervals of the index lead to."""

import pytest

from bookie_server.storage.index import Interval
from bookie_server.storage.scrub.coverage import all_found, by_interval

HERE, ELSEWHERE = (3, 64), (4, 1064)


def interval(first: int, last: int, place: tuple[int, int] = HERE, *, dense: bool = True) -> Interval:
    return Interval(first, last, *place, 1000, dense)


@pytest.mark.parametrize(
    ("intervals", "found"),
    [
        ([interval(10, 19)], True),
        ([interval(0, 99, ELSEWHERE)], True),
        ([interval(10, 14), interval(15, 15, ELSEWHERE), interval(16, 30)], True),
        ([interval(10, 19, dense=False)], True),
        ([interval(10, 19, ELSEWHERE, dense=False)], False),
        ([], False),
        ([interval(11, 19)], False),
        ([interval(10, 18)], False),
        ([interval(10, 14), interval(16, 19)], False),
    ],
)
def test_all_are_found_if_nothing_leaves_a_gap_or_doubt(intervals: list[Interval], found: bool) -> None:
    assert all_found(10, 19, HERE, intervals) is found


def test_no_more_intervals_are_taken_than_needed() -> None:
    rest = iter([interval(10, 19), interval(20, 29)])
    assert all_found(10, 19, HERE, rest)
    assert list(rest) == [interval(20, 29)]


def test_ids_are_put_together_by_interval() -> None:
    early, late = interval(12, 14), interval(16, 20, ELSEWHERE)
    found = list(by_interval([10, 11, 12, 14, 15, 18, 30], [early, interval(15, 15), late]))
    assert found == [
        (None, [10, 11]),
        (early, [12, 14]),
        (interval(15, 15), [15]),
        (late, [18]),
        (None, [30]),
    ]
    assert list(by_interval([1, 2], [])) == [(None, [1, 2])]
    assert list(by_interval([13], [early])) == [(early, [13])]
    assert list(by_interval([9, 21], [interval(10, 20)])) == [(None, [9]), (None, [21])]
