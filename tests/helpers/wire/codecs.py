"""One face over the two codecs, for tests that hold for both."""

from types import ModuleType
from typing import Any

from ledger.wire import v2, v3
from ledger.wire.messages import AuthMessage
from tests.helpers.wire.golden_frames import GoldenFrame, conversations, wire_frames

NEEDS_AUTHENTICATION = ("unauthenticated_", "auth_wrong_plugin", "auth_bad_token")
"""Well-formed frames that a bookie with an authentication provider refuses by closing."""


def codec_of(golden: GoldenFrame) -> ModuleType:
    return v3 if golden.is_v3 else v2


def decode(golden: GoldenFrame, body: bytes) -> Any:
    codec = codec_of(golden)
    return codec.decode_request(body) if golden.is_request else codec.decode_response(body)


def encode(golden: GoldenFrame, message: Any) -> bytes:
    codec = codec_of(golden)
    frame: bytes = codec.encode_request(message) if golden.is_request else codec.encode_response(message)
    return frame


def is_exact(message: Any) -> bool:
    """Whether equal messages have equal bytes: true of v2 but for AUTH, whose rest is protobuf."""
    return type(message).__module__ == "ledger.wire.messages" and not (
        isinstance(message, AuthMessage) or hasattr(message, "txn_id")
    )


def well_formed(golden: GoldenFrame) -> bool:
    return not golden.closes_connection or golden.name.startswith(NEEDS_AUTHENTICATION)


def all_frames() -> list[GoldenFrame]:
    """Every distinct golden frame: single ones first, then those of the conversations."""
    frames = [*wire_frames("v2"), *wire_frames("v3")]
    for steps in conversations().values():
        frames += steps
    distinct: dict[tuple[bytes, bool, bool], GoldenFrame] = {}
    for golden in frames:
        distinct.setdefault((golden.frame, golden.is_request, golden.is_v3), golden)
    return list(distinct.values())
