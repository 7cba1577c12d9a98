"""The check of sinks accepts whole batches in order, and finds each way in which they can be wrong."""

from __future__ import annotations

import pytest

from dlog.testing.checks.sinks import c22_each_batch_of_a_sink_is_in_the_log_once_and_whole

A, B, C = b"q 0 0 0", b"q 0 0 1", b"q 0 1 0"
NEXT = b"q 1 0 0"


def rows_of(query: str, number: int) -> list[list[bytes]]:
    return [[A, B], [C]] if number == 0 else [[b"q %d 0 0" % number]]


def found(*log: bytes, published: int = 0) -> list[str]:
    return list(c22_each_batch_of_a_sink_is_in_the_log_once_and_whole(log, {"q": published}, rows_of))


@pytest.mark.parametrize("log", [(A, B, C), (C, A, b"plain 1", B, NEXT), (A, C, B)])
def test_whole_batches_are_right(log: tuple[bytes, ...]) -> None:
    assert found(*log) == []


def test_nothing_is_right_as_long_as_nothing_was_published() -> None:
    assert found(published=-1) == []


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ((), r"q has batches [], and published up to 0"),
        ((A, B), "batch 0 of q is"),
        ((A, B, C, A, B, C), "batch 0 of q is"),
        ((B, A, C), "batch 0 of q is"),
        ((NEXT, A, B, C), "q has batches [1, 0]"),
        ((NEXT,), "q has batches [1]"),
    ],
)
def test_what_is_missing_twice_or_in_another_order_is_found(log: tuple[bytes, ...], words: str) -> None:
    assert words in found(*log)[0]
