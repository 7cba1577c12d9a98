"""Every truncation and every bit flip of every golden frame: a clean error, or a value that stands for them.

- v2: what decodes encodes to exactly the damaged bytes.
- v3 (and the AuthMessage in a v2 AUTH): what decodes encodes to bytes that decode to an equal value. They
  need not be the same bytes, because protobuf has several spellings of one value: a flip may make a field
  an unknown one (accepted and dropped), lengthen a varint without changing it, or change the order of fields.
- A digest finds every flip in an entry; the damaged entry is never taken for a whole one.

Nothing but ProtocolError and DigestMismatchError may come out, and a decoded value never holds more bytes
than the frame it came from.
"""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from ledger.errors import DigestMismatchError, ProtocolError
from ledger.model import DigestType
from ledger.wire import v2, v3
from ledger.wire.digest import make_digester, master_key
from ledger.wire.frame import FrameSplitter
from ledger.wire.messages import AuthMessage, BatchReadResponse, V3Request, V3Response
from tests.helpers.wire.codecs import all_frames, decode, encode
from tests.helpers.wire.golden_frames import GoldenFrame, load
from tests.helpers.wire.request_decoder import RequestDecoder

FRAMES = all_frames()
GROUPS = 16
"""The frames are dealt out to so many tests, so that they run in parallel and a failure names a few."""


def flips(data: bytes) -> Iterator[bytes]:
    """`data` with each bit inverted in turn."""
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            yield bytes(damaged)


def check(golden: GoldenFrame, body: bytes) -> None:
    try:
        message = decode(golden, body)
    except ProtocolError:
        return
    encoded = encode(golden, message)
    if isinstance(message, AuthMessage | V3Request | V3Response):
        assert decode(golden, encoded[4:]) == message
    else:
        assert encoded[4:] == body
        assert held_bytes(message) <= len(body)


def held_bytes(message: Any) -> int:
    if isinstance(message, BatchReadResponse):
        return sum(map(len, message.entries))
    return len(getattr(message, "entry", None) or b"")


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_bit_flip_of_a_body(group: int) -> None:
    for golden in FRAMES[group::GROUPS]:
        for damaged in flips(golden.body):
            check(golden, damaged)


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_truncation_of_a_body(group: int) -> None:
    for golden in FRAMES[group::GROUPS]:
        for end in range(len(golden.body)):
            check(golden, golden.body[:end])


def test_every_bit_flip_of_a_length() -> None:
    """A wrong length swallows, splits or delays; pieces that are no message are protocol errors as well."""
    for golden in FRAMES:
        for damaged_length in flips(golden.frame[:4]):
            splitter = FrameSplitter()
            try:
                bodies = splitter.feed(damaged_length + golden.body)
            except ProtocolError:
                continue
            assert splitter.partial_bytes <= len(golden.frame)
            for body in bodies:
                check(golden, bytes(body))


def test_a_bookie_survives_every_flip_whichever_protocol_it_takes_it_for() -> None:
    """One bit can turn a v3 request into one for the v2 decoder; nothing else may come out of that either."""
    for golden in FRAMES:
        if golden.is_request:
            for damaged in flips(golden.body[:8]):
                try:
                    RequestDecoder().decode(damaged + golden.body[8:])
                except ProtocolError:
                    continue


@pytest.mark.parametrize(
    "body",
    [
        bytes.fromhex("0207000000000000") + bytes(24) + bytes.fromhex("7fffffff") + bytes(50),
        bytes.fromhex("020300000affffffff07") + bytes(50),
    ],
    ids=["batch entry of 2 GiB", "auth name of 2 GiB"],
)
def test_a_length_inside_a_v2_body_allocates_nothing(body: bytes) -> None:
    assert _peak_bytes(lambda: v2.decode_response(body)) < 20_000


@pytest.mark.parametrize("tag", ["0a", "a206", "aa06", "c20c"])
def test_a_length_inside_a_v3_body_allocates_nothing(tag: str) -> None:
    body = bytes.fromhex("0a06080310011802" + tag + "ffffffff07") + bytes(50)
    assert _peak_bytes(lambda: v3.decode_request(body)) < 20_000


def _peak_bytes(decode_it: Any) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_it()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---- entries and LAC packets

DIGEST_TYPES = {"CRC32": DigestType.CRC32, "CRC32C": DigestType.CRC32C, "HMAC": DigestType.HMAC}


@pytest.mark.parametrize("name", DIGEST_TYPES)
def test_a_digest_finds_every_flip_and_every_truncation_of_an_entry(name: str) -> None:
    for vector in load("digests.json")["entries"]:
        if vector["digest_type"] not in (name, {"HMAC": "MAC"}.get(name)):
            continue
        digester = make_digester(DIGEST_TYPES[name], bytes.fromhex(vector["password_hex"]))
        whole = bytes.fromhex(vector["entry_hex"])
        step = max(1, len(whole) // 200)
        for damaged in [*list(flips(whole))[::step], *(whole[:end] for end in range(0, len(whole), step))]:
            with pytest.raises(DigestMismatchError):
                digester.verify(damaged, vector["ledger"], vector["entry"])
            with pytest.raises(DigestMismatchError):
                digester.verify(memoryview(damaged), vector["ledger"], None)


@pytest.mark.parametrize("name", DIGEST_TYPES)
def test_a_digest_finds_every_flip_and_every_truncation_of_a_lac_packet(name: str) -> None:
    for vector in load("digests.json")["lac_packets"]:
        if vector["digest_type"] not in (name, {"HMAC": "MAC"}.get(name)):
            continue
        digester = make_digester(DIGEST_TYPES[name], bytes.fromhex(vector["password_hex"]))
        whole = bytes.fromhex(vector["packet_hex"])
        for damaged in [*flips(whole), *(whole[:end] for end in range(len(whole)))]:
            with pytest.raises(DigestMismatchError):
                digester.verify_lac_packet(vector["ledger"], damaged)


def test_the_master_key_of_a_flipped_password_differs() -> None:
    keys = {master_key(password) for password in (b"secret", *flips(b"secret"))}
    assert len(keys) == 49
