"""Entry and message bytes: golden files both ways, every truncation and bit flip, hostile claims.

Pitfall: docs/pitfalls.md#half-a-batch.
"""

import importlib.util
import json
import struct
import sys
import threading
from dataclasses import replace
from typing import Any

import msgpack
import msgpack.fallback
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlog.errors import EntryFormatError, MessageTooLargeError
from dlog.format import message
from dlog.format.entry import (
    BODY_BYTES_MAX,
    Codec,
    Envelope,
    ProducerMark,
    SnapshotPlace,
    decode_entry,
    decode_envelope,
    encode_entry,
    encode_message,
    moved_entry,
)
from dlog.format.message import (
    HEADERS_MAX,
    Columns,
    as_bin,
    as_bin_column,
    columns_bytes,
    decode_messages,
    encode_messages,
    flat_headers,
    message_bytes,
)
from ledger.errors import ConfigurationError
from tests.helpers.repository import ROOT

VECTORS = json.loads((ROOT / "tests" / "vectors" / "dlog" / "entries.json").read_text(encoding="utf-8"))[
    "entries"
]
PLAIN = [vector for vector in VECTORS if vector["envelope"]["codec"] == 0]


def vector_bytes(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["hex"])


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def vector_columns(vector: dict[str, Any]) -> Columns:
    messages = vector["messages"]
    return Columns(
        tuple(unhex(message["key"]) for message in messages),
        tuple(unhex(message["payload"]) for message in messages),
        tuple(
            tuple(bytes.fromhex(part) for pair in message["headers"] for part in pair) for message in messages
        ),
    )


def vector_envelope(vector: dict[str, Any]) -> Envelope:
    fields = dict(vector["envelope"])
    fields["codec"] = Codec(fields["codec"])
    if "producer" in fields:
        producer_id, sequence = fields["producer"]
        fields["producer"] = ProducerMark(bytes.fromhex(producer_id), sequence)
    if "producers" in fields:
        distance, snapshot = fields["producers"]
        fields["producers"] = SnapshotPlace(distance, unhex(snapshot))
    return Envelope(**fields)


def encode(columns: Columns, envelope: Envelope) -> bytes:
    return b"".join(
        encode_entry(
            columns,
            epoch=envelope.epoch,
            append_time_us=envelope.append_time_us,
            codec=envelope.codec,
            producer=envelope.producer,
            messages_before=envelope.messages_before,
            producers=envelope.producers,
        )
    )


def encode_one(columns: Columns) -> bytes:
    return b"".join(encode_entry(columns, epoch=1, append_time_us=1))


def entry_around(body: bytes, count: int) -> bytes:
    return struct.pack(">BBBQIQI", 0xD1, 0, 0, 1, count, 1, len(body)) + body


columns_strategy = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=300),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), max_size=9),
    ),
    min_size=1,
    max_size=40,
).map(
    lambda rows: Columns(
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        tuple(tuple(part for pair in row[2] for part in pair) for row in rows),
    )
)


# ---- golden bytes


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_golden_entries_decode(vector: dict[str, Any]) -> None:
    """Each golden entry decodes to the envelope and the messages that stand beside it."""
    assert decode_entry(memoryview(vector_bytes(vector))) == (vector_envelope(vector), vector_columns(vector))


@pytest.mark.parametrize("vector", PLAIN, ids=lambda vector: str(vector["name"]))
def test_golden_entries_encode(vector: dict[str, Any]) -> None:
    """And the messages encode to exactly the golden bytes."""
    assert encode(vector_columns(vector), vector_envelope(vector)) == vector_bytes(vector)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_every_truncation_is_a_clean_error(vector: dict[str, Any]) -> None:
    """An entry cut off anywhere is refused."""
    whole = vector_bytes(vector)
    for size in range(len(whole)):
        with pytest.raises(EntryFormatError):
            decode_entry(whole[:size])


@pytest.mark.parametrize("vector", PLAIN, ids=lambda vector: str(vector["name"]))
def test_every_bit_flip_is_a_clean_error_or_the_only_encoding_of_its_value(vector: dict[str, Any]) -> None:
    """A flipped bit gives EntryFormatError, or a value that encodes to exactly the flipped bytes."""
    whole = vector_bytes(vector)
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            envelope, columns = decode_entry(flipped)
        except EntryFormatError:
            continue
        assert encode(columns, envelope) == flipped


@pytest.mark.parametrize("vector", [v for v in VECTORS if v not in PLAIN], ids=lambda v: str(v["name"]))
def test_every_bit_flip_of_a_compressed_entry_is_a_clean_error_or_a_value(vector: dict[str, Any]) -> None:
    """Compression has many encodings of one value, so only the kind of error is promised."""
    whole = vector_bytes(vector)
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            envelope, columns = decode_entry(flipped)
        except EntryFormatError:
            continue
        assert envelope.count == len(columns.payloads)


# ---- properties


@given(columns_strategy, st.sampled_from(Codec), st.integers(0, 2**63 - 1))
def test_round_trip(columns: Columns, codec: Codec, epoch: int) -> None:
    """Whatever is encoded decodes to the same, whichever the codec."""
    entry = b"".join(encode_entry(columns, epoch=epoch, append_time_us=5, codec=codec))
    envelope, decoded = decode_entry(entry)
    assert decoded == columns
    assert (envelope.epoch, envelope.count) == (epoch, len(columns.payloads))


@given(columns_strategy, st.integers(0, 2**63 - 1), st.integers(0, 2**62))
def test_one_message_is_encoded_as_a_batch_of_one(columns: Columns, epoch: int, before: int) -> None:
    """The short way writes the same bytes."""
    for key, payload, headers in zip(*columns, strict=True):
        entry = encode_message(key, payload, headers, epoch, 5, before)
        batch = Columns([key], [payload], [headers])
        assert entry == b"".join(encode_entry(batch, epoch=epoch, append_time_us=5, messages_before=before))


def test_one_message_that_exceeds_an_entry_is_refused() -> None:
    with pytest.raises(MessageTooLargeError):
        encode_message(None, bytes(BODY_BYTES_MAX), (), 1, 5, 0)


@given(columns_strategy)
def test_sizes_are_known_before_encoding(columns: Columns) -> None:
    """Both size functions agree with the bytes, so limits are checked without encoding."""
    encoded = encode_messages(columns)
    assert columns_bytes(columns) == len(encoded)
    single = map(message_bytes, columns.keys, columns.payloads, columns.headers)
    assert sum(single) == len(encoded)


@pytest.mark.parametrize("size", [0, 255, 256, 65535, 65536])
def test_sizes_are_right_at_each_length_class(size: int) -> None:
    """bin 8, 16 and 32 begin where msgpack says."""
    columns = Columns((b"k" * size, None), (None, b"p" * size), ((), (b"h", b"v" * size)))
    encoded = encode_messages(columns)
    assert columns_bytes(columns) == len(encoded)
    assert decode_messages(encoded, 2) == columns


@given(st.binary(max_size=200), st.integers(0, 50))
@settings(max_examples=300)
def test_random_bytes_never_raise_anything_else(body: bytes, count: int) -> None:
    """Whatever the bytes: EntryFormatError, or messages that encode to them."""
    try:
        columns = decode_messages(body, count)
    except EntryFormatError:
        return
    assert encode_messages(columns) == body


@given(st.binary(max_size=100))
def test_random_entries_never_raise_anything_else(tail: bytes) -> None:
    """The same behind a valid magic."""
    try:
        decode_entry(b"\xd1" + tail)
    except EntryFormatError:
        return


# ---- one test a wrong field


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (msgpack.packb(2) + b"\x00\xc0\xc0\x90", "magic 2, this program reads magic 1"),
        (b"\x01\x04\xc0\xc0\x90", "attr 4"),
        (b"\xc3\x00\xc0\xc0\x90", "must be integers"),
        (b"\x01\xc2\xc0\xc0\x90", "must be integers"),
        (b"\x01\x00\x07\xc0\x90", "must be bin or nil"),
        (b"\x01\x00\xc0\xa0\x90", "must be bin or nil"),
        (b"\x01\x00\xc0\xc0\xc0", "must be an array"),
        (b"\x01\x00\xc0\xc0\x91\xc4\x00", "flat array"),
        (b"\x01\x00\xc0\xc0\x92\xc4\x00\x01", "flat array"),
        (b"\xcc\x01\x00\xc0\xc0\x90", "canonical encoding"),
        (b"\x01\x00\xc0\xc5\x00\x01a\x90", "canonical encoding"),
        (b"\x01\x00\xc0\x80\x90", "must be bin or nil"),
        (b"\x01\x00\xc0\xd4\x01a\x90", "not valid msgpack"),
        (b"\x01\x00\xc0\xc1\x90", "not valid msgpack"),
        (b"\x01\x00\xc0\xc0\x90\x00", "not valid msgpack"),
    ],
)
def test_each_wrong_field_is_named(body: bytes, words: str) -> None:
    """One sentence that says which field is wrong."""
    with pytest.raises(EntryFormatError, match=words):
        decode_entry(entry_around(body, 1))


def test_unknown_magic_names_both_versions() -> None:
    """A later layout and a foreign entry get different sentences, both with both numbers."""
    entry = encode_one(Columns([None], [b"x"], [()]))
    with pytest.raises(EntryFormatError, match="format version 2, this program reads version 1"):
        decode_entry(b"\xd2" + entry[1:])
    with pytest.raises(EntryFormatError, match="starts with byte 0x7f, a dlog entry starts with 0xd1"):
        decode_entry(b"\x7f" + entry[1:])


def test_wrong_count_or_length_is_refused() -> None:
    """The envelope's count and length are compared with what is there."""
    body = encode_messages(Columns([None, None], [b"a", b"b"], [(), ()]))
    for count in (0, 1, 3, 2**32 - 1):
        with pytest.raises(EntryFormatError):
            decode_entry(entry_around(body, count))
    with pytest.raises(EntryFormatError, match="envelope says"):
        decode_entry(entry_around(body, 2) + b"\x00")


def test_a_claimed_size_above_the_cap_is_refused_before_inflating() -> None:
    """Neither the envelope's nor the frame's own size decides what is allocated."""
    huge = struct.pack(">BBBQIQI", 0xD1, 0, Codec.LZ4, 1, 1, 1, BODY_BYTES_MAX + 1)
    with pytest.raises(EntryFormatError, match="the limit is"):
        decode_entry(huge + b"\x00" * 10)


def test_more_messages_before_an_entry_than_a_ledger_can_have_are_refused() -> None:
    """The sum with those of the entry fits into a signed 64-bit number."""
    column = Columns([None] * 2, [b"a", b"b"], [(), ()])
    highest = 2**63 - 1 - 2
    for before in (0, highest):
        entry = b"".join(encode_entry(column, epoch=1, append_time_us=1, messages_before=before))
        assert decode_envelope(entry)[0].messages_before == before
    entry = b"".join(encode_entry(column, epoch=1, append_time_us=1, messages_before=highest + 1))
    with pytest.raises(EntryFormatError, match="9223372036854775806 messages before its own 2"):
        decode_entry(entry)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_an_entry_of_another_ledger_has_the_same_messages(vector: dict[str, Any]) -> None:
    """Whether it said before how many messages come before it, or not."""
    moved = moved_entry(vector_bytes(vector), messages_before=17, producers=None)
    assert decode_entry(moved) == (
        replace(vector_envelope(vector), messages_before=17, producers=None),
        vector_columns(vector),
    )


def test_a_frame_larger_than_its_claim_is_refused() -> None:
    """A zstd frame that says another size than the envelope is not inflated."""
    entry = bytearray(
        b"".join(
            encode_entry(Columns([None], [b"z" * 500], [()]), epoch=1, append_time_us=1, codec=Codec.ZSTD)
        )
    )
    struct.pack_into(">I", entry, 23, 20)
    with pytest.raises(EntryFormatError, match="zstd frame has"):
        decode_entry(entry)


@pytest.mark.parametrize(
    "header", [b"\xdd\x00\x0f\x00\x00", b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff", b"\x9f"]
)
def test_nested_arrays_that_claim_much_are_refused(header: bytes) -> None:
    """A thousand nested claims of a million items each must not be believed."""
    body = b"\x01\x00\xc0\xc0" + header * 2000 + b"\x00" * 5_000_000
    with pytest.raises(EntryFormatError):
        decode_messages(body[:5_200_000], 1_000_000)


def test_payloads_that_look_like_huge_arrays_are_just_payloads() -> None:
    """Such bytes take the slower way and decode the same."""
    columns = Columns((None,) * 3, (b"\xdd\x00\x01\x02\x03", b"\xc2\xc3", b"\xdd\x00" * 9), ((),) * 3)
    assert decode_messages(encode_messages(columns), 3) == columns


def test_the_decoder_reads_the_envelope_alone() -> None:
    """A time seek needs no messages."""
    entry = encode_one(Columns([None], [b"x"], [()]))
    envelope, stored = decode_envelope(entry)
    assert envelope.count == 1
    assert bytes(stored) == entry[27:]


# ---- what the writer hands in


def test_a_body_above_the_hard_limit_is_refused() -> None:
    """Apache's limit on an entry bounds the messages before compression, too."""
    with pytest.raises(MessageTooLargeError, match=str(BODY_BYTES_MAX)):
        encode_one(Columns([None], [b"x" * BODY_BYTES_MAX], [()]))


def test_incompressible_messages_are_stored_plain() -> None:
    """Compression that does not pay is left away."""
    envelope, _ = encode_entry(Columns([None], [b"x"], [()]), epoch=1, append_time_us=1, codec=Codec.ZSTD)
    assert envelope[2] == Codec.NONE


def test_threads_encode_at_the_same_time_without_the_extension_of_msgpack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its packer in Python has a buffer that threads must not share; the module decides when it is imported."""
    monkeypatch.setattr(msgpack, "Packer", msgpack.fallback.Packer)
    spec = importlib.util.spec_from_file_location("message_in_python", message.__file__)
    assert spec is not None and spec.loader is not None
    in_python = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(in_python)
    wrong: list[object] = []

    def encode(payload: bytes) -> None:
        columns = Columns([None] * 20, [payload] * 20, [()] * 20)
        expected = encode_messages(columns)
        for _ in range(200):
            try:
                if (found := in_python.encode_messages(columns)) != expected:
                    wrong.append(found)
            except Exception as error:  # noqa: BLE001 - whatever the packer makes of it
                wrong.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=encode, args=(each * 30,)) for each in (b"A", b"B")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong, wrong[0]


def test_text_must_be_encoded_by_its_owner() -> None:
    """str is refused with the way out; bytearray and memoryview are copied to bytes."""
    with pytest.raises(ConfigurationError, match="encode it to bytes"):
        as_bin("text", "a payload")  # type: ignore[arg-type]
    assert as_bin(bytearray(b"a"), "a payload") == b"a"
    assert as_bin_column([memoryview(b"a"), None, b"b"], "a payload") == [b"a", None, b"b"]
    with pytest.raises(ConfigurationError, match="got one bytes"):
        as_bin_column(b"abc", "a payload")  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [{b"key": b"payload"}, {b"a", b"b"}, frozenset([b"a"])])
def test_messages_without_an_order_are_refused(values: Any) -> None:
    """A set has none, and of a dict one would get the keys."""
    with pytest.raises(
        ConfigurationError, match=f"payloads must be a list .*, got one {type(values).__name__}"
    ):
        as_bin_column(values, "a payload")


def test_headers_are_pairs_of_bytes_and_not_too_many() -> None:
    """A header that is no pair of bytes, or one too many, is refused."""
    assert flat_headers([(b"a", b"1"), (b"a", b"2")]) == (b"a", b"1", b"a", b"2")
    with pytest.raises(ConfigurationError, match="pair of bytes"):
        flat_headers([("a", b"1")])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="pair of bytes"):
        flat_headers([5])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match=f"at most {HEADERS_MAX} headers"):
        flat_headers([(b"", b"")] * (HEADERS_MAX + 1))
