"""Bytes become complete frames however they arrive, and memory follows what arrived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie_server.net.receive_buffer import SMALL_BYTES, SPACE_BYTES, ReceiveBudget, ReceiveBuffer
from ledger.errors import ProtocolError

FRAME_BYTES_MAX = 1024 * 1024


def new_buffer() -> ReceiveBuffer:
    return ReceiveBuffer(ReceiveBudget(1 << 30), FRAME_BYTES_MAX, lambda: None)


def feed(buffer: ReceiveBuffer, data: bytes) -> None:
    """Hand over `data` as a socket would: as much as there is space for, as often as needed.

    Every piece but the last leaves the first frame incomplete.
    """
    view = memoryview(data)
    while True:
        space = buffer.space()
        count = min(len(space), len(view))
        space[:count] = view[:count]
        buffer.received(count)
        view = view[count:]
        if not view:
            return
        assert buffer.block() is None


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
    buffer = new_buffer()
    feed(buffer, framed(b"hello")[:-1])
    assert buffer.block() is None
    assert buffer.partial_bytes == 8


@given(
    bodies=st.lists(st.binary(max_size=40_000), max_size=8),
    cuts=st.lists(st.integers(min_value=1, max_value=30_000), min_size=1, max_size=8),
)
def test_any_cutting_of_the_stream_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    """Frames come out whole and in order, wherever the network cut the stream."""
    buffer, stream, found = new_buffer(), b"".join(map(framed, bodies)), []
    turn = 0
    while stream:
        size = cuts[turn % len(cuts)]
        turn += 1
        space = buffer.space()
        size = min(size, len(space), len(stream))
        space[:size] = stream[:size]
        buffer.received(size)
        stream = stream[size:]
        if (block := buffer.block()) is not None:
            got, consumed = frames_of(block)
            buffer.keep(block, consumed)
            found += got
    assert found == bodies
    assert buffer.partial_bytes == 0


@pytest.mark.parametrize("length", [FRAME_BYTES_MAX - 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_length_over_the_limit_is_refused_by_its_prefix_alone(length: int) -> None:
    buffer = new_buffer()
    feed(buffer, length.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="limit is 1048576"):
        buffer.block()


def test_the_largest_frame_is_taken() -> None:
    buffer = new_buffer()
    frame = framed(bytes(FRAME_BYTES_MAX - 4))
    feed(buffer, frame)
    assert buffer.block() == frame


def test_a_promised_frame_costs_only_what_was_sent_of_it() -> None:
    """A thousand peers that announce a megabyte and send ten bytes must not cost a gigabyte."""
    budget = ReceiveBudget(1 << 30)
    crowd = [ReceiveBuffer(budget, FRAME_BYTES_MAX, lambda: None) for _ in range(1000)]
    for each in crowd:
        feed(each, (FRAME_BYTES_MAX - 4).to_bytes(4, "big") + b"0123456789")
        assert each.block() is None
    assert budget.taken_bytes == 0


def test_a_large_frame_is_forgotten_after_it() -> None:
    budget = ReceiveBudget(1 << 30)
    buffer = ReceiveBuffer(budget, FRAME_BYTES_MAX, lambda: None)
    feed(buffer, framed(bytes(FRAME_BYTES_MAX - 4)))
    assert budget.taken_bytes == FRAME_BYTES_MAX
    block = buffer.block()
    assert block is not None
    buffer.keep(block, len(block))
    assert budget.taken_bytes == 0
    assert len(buffer.space()) == SPACE_BYTES


def test_space_is_never_empty() -> None:
    buffer = new_buffer()
    for size in range(0, 900_000, 4000):
        feed(buffer, framed(bytes(900_000))[size : size + 4000])
        assert buffer.block() is None
        assert len(buffer.space()) > 0


def test_a_frame_in_many_pieces_is_moved_a_bounded_number_of_times() -> None:
    """Its buffer doubles: what was received is not copied for each piece that comes."""
    buffer, homes = new_buffer(), set()
    frame = framed(bytes(FRAME_BYTES_MAX - 4))
    for at in range(0, len(frame) - 1000, 1000):
        feed(buffer, frame[at : at + 1000])
        assert buffer.block() is None
        if buffer.partial_bytes > SMALL_BYTES:
            homes.add(id(buffer.space().obj))
    assert len(homes) <= 12


# ---- the budget of all


class Peer:
    """A connection that sends frames in pieces, and is not read while it waits."""

    def __init__(self, budget: ReceiveBudget, frames: list[bytes]) -> None:
        self.left = memoryview(b"".join(map(framed, frames)))
        self.expected = frames
        self.got: list[bytes] = []
        self.buffer = ReceiveBuffer(budget, FRAME_BYTES_MAX, lambda: None)

    @property
    def may_send(self) -> bool:
        return bool(self.left) and not self.buffer.waits

    def send(self, size: int) -> None:
        space = self.buffer.space()
        assert len(space) > 0
        size = min(size, len(space), len(self.left))
        space[:size] = self.left[:size]
        self.left = self.left[size:]
        self.buffer.received(size)
        block = self.buffer.block()
        if block is not None:
            bodies, consumed = frames_of(block)
            self.buffer.keep(block, consumed)
            self.got += bodies


@given(data=st.data())
def test_the_budget_holds_for_any_peer_and_no_client_waits_indefinitely(data: st.DataObject) -> None:
    """Frames of all sizes in pieces of all sizes, from many at a time, some of which give up."""
    budget_bytes = data.draw(st.sampled_from((FRAME_BYTES_MAX, 3_000_000)))
    budget = ReceiveBudget(budget_bytes)
    sizes = st.sampled_from((10, 30_000, 33_000, 200_000, 300_000, FRAME_BYTES_MAX - 4))
    peers = [
        Peer(budget, [bytes((number,)) * each for each in data.draw(st.lists(sizes, max_size=3))])
        for number in range(data.draw(st.integers(1, 8)))
    ]
    chance = data.draw(st.randoms(use_true_random=False))
    gone: list[Peer] = []
    while sending := [each for each in peers if each.may_send]:
        peer = chance.choice(sending)
        if chance.random() < 0.02:
            peer.buffer.close()
            gone.append(peer)
            peers.remove(peer)
        else:
            peer.send(chance.choice((100, 5000, 60_000, SPACE_BYTES)))
        assert budget.taken_bytes <= budget_bytes
        assert budget.taken_bytes == sum(each.buffer.taken_bytes for each in peers)
    assert all(each.got == each.expected for each in peers), "somebody waits and nobody can go on"
    assert budget.taken_bytes == 0
    assert not budget.exhausted


def test_small_requests_pass_however_full_the_budget_is() -> None:
    budget = ReceiveBudget(FRAME_BYTES_MAX)
    stuck = [Peer(budget, [bytes(FRAME_BYTES_MAX - 4)]) for _ in range(3)]
    for _ in range(8):
        for each in stuck:
            if each.may_send:
                each.send(60_000)
    assert [each.buffer.waits for each in stuck] == [False, True, True]
    honest = Peer(budget, [bytes(each) for each in (0, 100, 30_000, SMALL_BYTES - 100)])
    while honest.may_send:
        honest.send(SPACE_BYTES)
    assert honest.got == honest.expected
    stuck[0].buffer.close()
    assert [each.buffer.waits for each in stuck[1:]] == [False, True]


def test_places_go_to_the_address_that_has_fewest() -> None:
    budget = ReceiveBudget(2 * FRAME_BYTES_MAX)
    crowd = [Peer(budget, [bytes(FRAME_BYTES_MAX - 4)]) for _ in range(6)]
    other = Peer(budget, [bytes(FRAME_BYTES_MAX - 4)])
    other.buffer.address = "another"
    for each in (*crowd, other):
        each.send(30_000)
        each.send(30_000)
    assert [each.buffer.waits for each in (*crowd, other)] == [False, False, True, True, True, True, True]
    crowd[0].buffer.close()
    assert [each.buffer.waits for each in (*crowd[2:], other)] == [True, True, True, True, False]
    crowd[1].buffer.close()
    assert [each.buffer.waits for each in crowd[2:]] == [False, True, True, True]
