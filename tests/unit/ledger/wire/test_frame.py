"""Frames out of a byte stream, whatever its pieces, and limits before allocation."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import ProtocolError
from ledger.model import FRAME_BYTES_MAX
from ledger.wire.frame import LENGTH_BYTES, FrameSplitter, frame
from tests.helpers.wire.codecs import all_frames

bodies_lists = st.lists(st.binary(max_size=30), max_size=8)


@given(bodies_lists, st.lists(st.integers(0, 250), max_size=10))
def test_any_pieces_give_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, bodies))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = FrameSplitter()
    found: list[memoryview] = []
    for start, end in pairwise(edges):
        found += splitter.feed(stream[start:end])
    assert found == bodies
    assert splitter.partial_bytes == 0


def test_golden_frames_one_byte_at_a_time() -> None:
    goldens = [golden for golden in all_frames() if _announces_its_length(golden.frame)]
    splitter = FrameSplitter()
    found: list[bytes] = []
    for golden in goldens:
        for position in range(len(golden.frame)):
            found += map(bytes, splitter.feed(golden.frame[position : position + 1]))
    assert found == [golden.body for golden in goldens]


def test_the_largest_frame_is_served_and_one_byte_more_is_not() -> None:
    """The limit counts the prefix: a body of 5,242,876 bytes passes, 5,242,877 do not."""
    largest = FRAME_BYTES_MAX - LENGTH_BYTES
    assert largest == 5_242_876
    assert [len(body) for body in FrameSplitter().feed(frame(bytes(largest)))] == [largest]
    with pytest.raises(ProtocolError, match=f"{FRAME_BYTES_MAX + 1} bytes .* {FRAME_BYTES_MAX} is the limit"):
        FrameSplitter().feed((largest + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1])
def test_an_impossible_length_is_refused_before_its_body(length: int) -> None:
    with pytest.raises(ProtocolError):
        FrameSplitter().feed(length.to_bytes(4, "big", signed=True))


def test_a_length_that_arrives_in_pieces_is_judged_when_it_is_complete() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b"\xff\xff") == []
    assert splitter.feed(b"\xff") == []
    with pytest.raises(ProtocolError):
        splitter.feed(b"\xff")


def test_an_announced_frame_costs_nothing_until_it_comes() -> None:
    """Ten thousand connections may each announce 5 MiB and send a few bytes."""
    prefix = (FRAME_BYTES_MAX - LENGTH_BYTES).to_bytes(4, "big") + bytes(100)
    tracemalloc.start()
    try:
        splitters = [FrameSplitter() for _ in range(100)]
        for splitter in splitters:
            assert splitter.feed(prefix) == []
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_a_large_frame_in_small_pieces_is_not_copied_again_and_again() -> None:
    """Memory stays near twice the frame; time is linear, or this test would not end."""
    whole = frame(bytes(FRAME_BYTES_MAX - LENGTH_BYTES))
    splitter = FrameSplitter()
    found: list[memoryview] = []
    for start in range(0, len(whole), 100):
        found += splitter.feed(whole[start : start + 100])
    assert found == [whole[LENGTH_BYTES:]]


def test_small_limit_is_kept() -> None:
    splitter = FrameSplitter(frame_bytes_max=10)
    assert splitter.feed(frame(b"123456")) == [b"123456"]
    with pytest.raises(ProtocolError, match="11 bytes"):
        splitter.feed(frame(b"1234567"))


def _announces_its_length(whole: bytes) -> bool:
    return len(whole) >= LENGTH_BYTES and int.from_bytes(whole[:4], "big") == len(whole) - LENGTH_BYTES
