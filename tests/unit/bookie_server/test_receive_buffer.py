"""Bytes become complete frames however they arrive, and memory follows what arrived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie_server.receive_buffer import STEADY_BYTES, ReceiveBuffer
from ledger.errors import ProtocolError

FRAME_BYTES_MAX = 1024 * 1024


def feed(buffer: ReceiveBuffer, data: bytes) -> None:
    """Hand over `data` as a socket would: as much as there is space for, as often as needed."""
    view = memoryview(data)
    while view:
        space = buffer.space()
        count = min(len(space), len(view))
        space[:count] = view[:count]
        buffer.received(count)
        view = view[count:]


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def frames_of(block: bytes) -> tuple[list[bytes], int]:
    """Complete frame bodies of a block and how many bytes they take."""
    bodies, position = [], 0
    while len(block) - position >= 4:
        stop = position + 4 + int.from_bytes(block[position : position + 4], "big")
        if stop > len(block):
            break
        bodies.append(block[position + 4 : stop])
        position = stop
    return bodies, position


def test_half_a_frame_gives_no_block() -> None:
    buffer = ReceiveBuffer(FRAME_BYTES_MAX)
    feed(buffer, framed(b"hello")[:-1])
    assert buffer.block() is None
    assert buffer.partial_bytes == 8


@given(
    bodies=st.lists(st.binary(max_size=40_000), max_size=8),
    cuts=st.lists(st.integers(min_value=1, max_value=30_000), min_size=1, max_size=8),
)
def test_any_cutting_of_the_stream_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    """Frames come out whole and in order, wherever the network cut the stream."""
    buffer, stream, found = ReceiveBuffer(FRAME_BYTES_MAX), b"".join(map(framed, bodies)), []
    turn = 0
    while stream:
        size = cuts[turn % len(cuts)]
        turn += 1
        feed(buffer, stream[:size])
        stream = stream[size:]
        if (block := buffer.block()) is not None:
            got, consumed = frames_of(block)
            buffer.keep(block, consumed)
            found += got
    assert found == bodies
    assert buffer.partial_bytes == 0


@pytest.mark.parametrize("length", [FRAME_BYTES_MAX - 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_length_over_the_limit_is_refused_by_its_prefix_alone(length: int) -> None:
    buffer = ReceiveBuffer(FRAME_BYTES_MAX)
    feed(buffer, length.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="limit is 1048576"):
        buffer.block()


def test_the_largest_frame_is_taken() -> None:
    buffer = ReceiveBuffer(FRAME_BYTES_MAX)
    frame = framed(bytes(FRAME_BYTES_MAX - 4))
    feed(buffer, frame)
    assert buffer.block() == frame


def test_a_promised_frame_costs_only_what_was_sent_of_it() -> None:
    """A thousand peers that announce a megabyte and send ten bytes must not cost a gigabyte."""
    buffer = ReceiveBuffer(FRAME_BYTES_MAX)
    feed(buffer, (FRAME_BYTES_MAX - 4).to_bytes(4, "big") + b"0123456789")
    assert buffer.block() is None
    assert len(buffer.space()) < 17 * 1024


def test_a_large_frame_is_forgotten_after_it() -> None:
    buffer = ReceiveBuffer(FRAME_BYTES_MAX)
    feed(buffer, framed(bytes(FRAME_BYTES_MAX - 4)))
    block = buffer.block()
    assert block is not None
    buffer.keep(block, len(block))
    assert len(buffer.space()) <= STEADY_BYTES


def test_space_is_never_empty() -> None:
    buffer = ReceiveBuffer(FRAME_BYTES_MAX)
    feed(buffer, framed(bytes(200_000))[:-1])
    assert len(buffer.space()) > 0
