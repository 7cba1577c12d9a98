"""Whole conversations of Apache's client and bookies, frame by frame."""

import pytest

from ledger.errors import ProtocolError
from ledger.wire.frame import FrameSplitter
from ledger.wire.messages import V3Request
from tests.helpers.wire.codecs import decode, encode
from tests.helpers.wire.golden_frames import GoldenFrame, conversations, load
from tests.helpers.wire.request_decoder import RequestDecoder

NAMES = sorted(name for name, frames in conversations().items() if frames)


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_comes_out_byte_for_byte(name: str) -> None:
    for golden in conversations()[name]:
        if not _closes(name, golden):
            assert encode(golden, decode(golden, golden.body)) == golden.frame, golden.name


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("java_")])
def test_a_connection_speaks_the_protocol_of_its_requests(name: str) -> None:
    """Each hand-made conversation is one connection; the sniffing must find v3 where v3 was sent."""
    decoder = RequestDecoder()
    for golden in conversations()[name]:
        if golden.is_request and not _closes(name, golden):
            message = decoder.decode(golden.body)
            assert isinstance(message, V3Request) is golden.is_v3
            assert decoder.speaks_v2 is not golden.is_v3


def test_v3_after_v2_ends_the_connection() -> None:
    """In the conversation of this name the bookie answers v3, then v2, and closes on the next v3 frame."""
    decoder = RequestDecoder()
    *served, last = [golden for golden in conversations()["mixed_v3_then_v2"] if golden.is_request]
    for golden in served:
        decoder.decode(golden.body)
    with pytest.raises(ProtocolError):
        decoder.decode(last.body)


def test_a_frame_in_two_pieces_is_one_frame() -> None:
    steps = next(c for c in load("conversations.json") if c["name"] == "v2_split_frame")["steps"]
    first, second = (bytes.fromhex(step["frame_hex"]) for step in steps if step.get("partial"))
    splitter = FrameSplitter()
    assert splitter.feed(first) == []
    assert splitter.feed(second) == [(first + second)[4:]]


def _closes(name: str, golden: GoldenFrame) -> bool:
    """The frames after which these two conversations record that the bookie closed the connection."""
    if name not in ("v2_unknown_opcode_closes", "mixed_v3_then_v2"):
        return False
    return golden is [frame for frame in conversations()[name] if frame.is_request][-1]
