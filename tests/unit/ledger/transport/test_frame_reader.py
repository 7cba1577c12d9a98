"""Cutting a stream at frame borders, however it arrives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import ProtocolError
from ledger.transport.frame_reader import FrameReader

BODIES = st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=12)


def frames_of(reader: FrameReader, piece: bytes) -> list[bytes]:
    data, position, found = reader.feed(piece), 0, []
    while end := reader.frame_end(data, position):
        found.append(data[position + 4 : end])
        position = end
    return found


@given(BODIES, st.lists(st.integers(1, 97), min_size=1))
def test_frames_come_out_whole_however_they_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    reader, found, position, turn = FrameReader(1000), [], 0, 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        found += frames_of(reader, stream[position : position + size])
        position += size
        turn += 1
    assert found == bodies


def test_a_large_frame_is_joined_once() -> None:
    reader, frame = FrameReader(1000), (996).to_bytes(4, "big") + bytes(996)
    returned = []
    for position in range(0, len(frame), 10):
        data = reader.feed(frame[position : position + 10])
        returned.append(len(data))
        end = reader.frame_end(data, 0)
    assert end == len(frame)
    assert returned == [10, *(98 * [0]), 1000]


@pytest.mark.parametrize("length", [0, 997, 2**31, 2**32 - 1])
def test_a_length_outside_the_limit_is_refused_immediately(length: int) -> None:
    """Zero, one byte too long, negative as Java writes it: refused before any of the body arrives."""
    with pytest.raises(ProtocolError, match="limit of 5 to 1000"):
        frames_of(FrameReader(1000), length.to_bytes(4, "big"))


def test_the_largest_frame_is_accepted() -> None:
    assert frames_of(FrameReader(1000), (996).to_bytes(4, "big") + bytes(996)) == [bytes(996)]
