"""Ledger metadata bytes: Apache's own values both ways, and everything that may be wrong with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import MetadataFormatError
from ledger.metadata.format.ledger import (
    HEADER,
    LEDGER_METADATA_BYTES_MAX,
    decode_ledger_metadata,
    encode_ledger_metadata,
    rewritten,
)
from ledger.model import (
    BookieId,
    DigestType,
    EntryId,
    Fragment,
    LedgerMetadata,
    LedgerState,
    QuorumSizes,
)
from tests.helpers.metadata import vectors

VALUES = [(node["meaning"], data, node) for _, data, node in vectors.nodes() if data.startswith(HEADER)]
FORMAT_3 = [data for _, data, _ in VALUES if data.startswith(HEADER + b"3")]
SAMPLE = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a4e0802100318"
    "0020ffffffffffffffffff012801322f0a0d31302e302e302e313a333138310a0d31302e"
    "302e302e323a333138310a0d31302e302e302e333a333138311000380342027077480260"
    "07"
)
"""Computed from the field numbers alone (docs/bookkeeper.md#metadata-formats), by other code than ours."""


def open_metadata(**changes: Any) -> LedgerMetadata:
    members = tuple(BookieId(f"10.0.0.{index}:3181") for index in (1, 2, 3))
    value = LedgerMetadata(
        quorum=QuorumSizes(ensemble=3, write=2, ack=2),
        fragments=(Fragment(EntryId(0), members),),
        password=b"pw",
        c_token=7,
    )
    return replace(value, **changes)


def test_the_vectors_hold_all_three_formats() -> None:
    versions = [decode_ledger_metadata(data).format_version for _, data, _ in VALUES]
    assert (versions.count(3), versions.count(2), versions.count(1)) == (18, 2, 3)


@pytest.mark.parametrize(("meaning", "data", "node"), VALUES, ids=[value[0][:40] for value in VALUES])
def test_apaches_values_are_rebuilt_byte_for_byte(meaning: str, data: bytes, node: dict[str, Any]) -> None:
    assert encode_ledger_metadata(decode_ledger_metadata(data)) == data


@pytest.mark.parametrize("node", [node for _, _, node in VALUES if "decoded" in node])
def test_apaches_values_are_decoded(node: dict[str, Any]) -> None:
    found, wanted = decode_ledger_metadata(bytes.fromhex(node["value_hex"])), node["decoded"]
    assert found.quorum == QuorumSizes(
        ensemble=wanted["ensembleSize"], write=wanted["quorumSize"], ack=wanted["ackQuorumSize"]
    )
    assert (found.length, found.last_entry) == (wanted["length"], wanted["lastEntryId"])
    assert (found.state.name, found.digest_type.name) == (wanted["state"], wanted["digestType"])
    assert (found.created_ms, found.c_token) == (wanted.get("ctime"), wanted["cToken"])
    assert found.password.hex() == wanted["password"]
    assert [(key, value.hex()) for key, value in found.custom] == [
        (item["key"], item["value"]) for item in wanted.get("customMetadata", ())
    ]
    assert [(list(part.ensemble), part.first_entry) for part in found.fragments] == [
        (part["ensembleMember"], part["firstEntryId"]) for part in wanted["segment"]
    ]


def test_an_independent_encoding_of_format_3() -> None:
    assert encode_ledger_metadata(open_metadata()) == SAMPLE
    assert decode_ledger_metadata(SAMPLE) == open_metadata()


def test_a_rewrite_resets_the_token_as_java_does() -> None:
    """Apache created the ledger with a token and then took it to IN_RECOVERY: same bytes from us."""
    created, in_recovery = (data for meaning, data, _ in VALUES[:2])
    value = decode_ledger_metadata(created).with_state(LedgerState.IN_RECOVERY)
    assert encode_ledger_metadata(rewritten(value)) == in_recovery
    assert rewritten(replace(value, format_version=2)).c_token == value.c_token


def test_older_formats_keep_what_they_have_room_for() -> None:
    closed = open_metadata(format_version=2, custom=(("k", b'\x00\xff\n"'),)).closed_at(EntryId(4), 44)
    assert decode_ledger_metadata(encode_ledger_metadata(closed)) == replace(closed, c_token=None)
    found = decode_ledger_metadata(encode_ledger_metadata(replace(closed, format_version=1)))
    assert found == replace(
        closed, format_version=1, c_token=None, custom=(), password=b"", digest_type=DigestType.CRC32
    )


def test_format_2_is_read_leniently() -> None:
    """Any order, unknown fields, other separators, escapes, and an ack quorum left out."""
    text = rb"""
        state: CLOSED  length: 5 unknown: 3 nested { more: "x" } other: [1, 2]
        segment < firstEntryId: 0, ensembleMember: 'a\x3a1'; ensembleMember: "b:1" >
        lastEntryId: 0  # a comment
        digestType: HMAC password: "\001\xff" ensembleSize: 2 quorumSize: 2
    """
    found = decode_ledger_metadata(HEADER + b"2\n" + text)
    assert found.quorum == QuorumSizes(ensemble=2, write=2, ack=2)
    assert found.fragments == (Fragment(EntryId(0), (BookieId("a:1"), BookieId("b:1"))),)
    assert (found.password, found.digest_type, found.last_entry) == (b"\x01\xff", DigestType.HMAC, 0)


@pytest.mark.parametrize("data", FORMAT_3, ids=range(len(FORMAT_3)))
def test_every_bit_flip_is_refused_or_kept(data: bytes) -> None:
    """What comes out of a damaged value encodes to exactly the damaged bytes, or nothing comes out."""
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            check_exact(bytes(damaged))


@pytest.mark.parametrize("data", [data for _, data, _ in VALUES], ids=range(len(VALUES)))
def test_every_truncation_gives_a_clean_error(data: bytes) -> None:
    for length in range(len(data)):
        version_3 = data[: len(HEADER) + 1] == HEADER + b"3"
        try:
            decode_ledger_metadata(data[:length])
        except MetadataFormatError:
            continue
        assert not version_3


@pytest.mark.parametrize(
    "data", [data for _, data, _ in VALUES if data[len(HEADER)] != ord("3")], ids=range(5)
)
def test_damaged_text_gives_a_value_or_a_clean_error(data: bytes) -> None:
    for position in range(len(data)):
        for replacement in b'\x00\xff\t\n "{}<:-9a':
            damaged = bytearray(data)
            damaged[position] = replacement
            try:
                encode_ledger_metadata(decode_ledger_metadata(bytes(damaged)))
            except MetadataFormatError:
                continue


def check_exact(data: bytes) -> None:
    try:
        found = decode_ledger_metadata(data)
    except MetadataFormatError:
        return
    assert encode_ledger_metadata(found) == data


def body(metadata: LedgerMetadata) -> bytes:
    return encode_ledger_metadata(metadata)[len(HEADER) + 3 :]


@pytest.mark.parametrize(
    ("why", "data"),
    [
        ("empty", b""),
        ("no header", b"quorumSize: 2\n"),
        ("version 0", HEADER + b"0\n"),
        ("version 4", HEADER + b"4\n" + b"\x00"),
        ("endless version", HEADER + b"0" * 40 + b"3\n"),
        ("no body", HEADER + b"3\n"),
        ("endless length", HEADER + b"3\n" + b"\xff" * 20),
        ("length too small", HEADER + b"3\n" + b"\x4d" + body(open_metadata())),
        ("length too large", HEADER + b"3\n" + b"\x4f" + body(open_metadata())),
        ("length not shortest", HEADER + b"3\n" + b"\xce\x00" + body(open_metadata())),
        ("unknown field", HEADER + b"3\n" + b"\x50" + body(open_metadata()) + b"\x68\x01"),
        ("deep nesting", HEADER + b"2\n" + b"a{" * 100_000),
        ("long number", HEADER + b"2\nquorumSize: " + b"9" * 10_000),
        ("not UTF-8", HEADER + b"2\n\xff"),
        ("too large", HEADER + b"2\n" + b" " * LEDGER_METADATA_BYTES_MAX),
        ("format 1 without fragments", HEADER + b"1\n2\n2\n0\n"),
        ("format 1 with a wrong end", HEADER + b"1\n1\n1\n0\n0\ta:1\n5\tOPEN"),
        ("format 1 with a signed zero", HEADER + b"1\n1\n1\n-0\n0\ta:1\n"),
    ],
)
def test_malformed_values_are_refused(why: str, data: bytes) -> None:
    with pytest.raises(MetadataFormatError):
        decode_ledger_metadata(data)


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("no fragment", b"quorumSize: 1 ensembleSize: 1 length: 0 state: OPEN"),
        ("bad quorum", b"quorumSize: 2 ensembleSize: 1 length: 0 state: OPEN segment {firstEntryId: 0}"),
        ("too few members", b"quorumSize: 1 ensembleSize: 1 length: 0 state: OPEN segment {firstEntryId: 0}"),
        (
            "bad id",
            _one
            := b"quorumSize:1 ensembleSize:1 length:0 state:OPEN segment{firstEntryId:0 ensembleMember:'/'}",
        ),
        ("starts late", _one.replace(b"'/'", b"'a'").replace(b"firstEntryId:0", b"firstEntryId:1")),
        ("negative length", _one.replace(b"'/'", b"'a'").replace(b"length:0", b"length:-1")),
        ("negative last entry", _one.replace(b"'/'", b"'a'") + b" lastEntryId:-2"),
        ("password without digest", _one.replace(b"'/'", b"'a'") + b" password:'x'"),
        ("unknown state", _one.replace(b"'/'", b"'a'").replace(b"OPEN", b"HALF")),
    ],
)
def test_impossible_values_are_refused(why: str, text: bytes) -> None:
    with pytest.raises(MetadataFormatError):
        decode_ledger_metadata(HEADER + b"2\n" + text)


names = st.from_regex(r"[a-z0-9.:-]{1,20}", fullmatch=True).filter(
    lambda name: name not in ("readonly", ".", "..")
)


@st.composite
def metadata_values(draw: st.DrawFn) -> LedgerMetadata:
    ensemble = draw(st.integers(1, 5))
    write = draw(st.integers(1, ensemble))
    starts = sorted({0, *draw(st.lists(st.integers(1, 2**62), max_size=4))})
    members = st.lists(names, min_size=ensemble, max_size=ensemble, unique=True)
    return LedgerMetadata(
        quorum=QuorumSizes(ensemble=ensemble, write=write, ack=draw(st.integers(1, write))),
        fragments=tuple(
            Fragment(EntryId(start), tuple(BookieId(name) for name in draw(members))) for start in starts
        ),
        state=draw(st.sampled_from(LedgerState)),
        last_entry=EntryId(draw(st.integers(-1, 2**63 - 2))),
        length=draw(st.integers(0, 2**63 - 1)),
        digest_type=draw(st.sampled_from(DigestType)),
        password=draw(st.binary(max_size=40)),
        custom=tuple(
            draw(st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.binary()), max_size=3))
        ),
        created_ms=draw(st.none() | st.integers(0, 2**62)),
        c_token=draw(st.none() | st.integers(0, 2**63 - 1)),
        format_version=draw(st.sampled_from((2, 3))),
    )


@given(metadata_values())
def test_any_value_survives_the_round_trip(value: LedgerMetadata) -> None:
    kept = value if value.format_version == 3 else replace(value, c_token=None)
    assert decode_ledger_metadata(encode_ledger_metadata(value)) == kept


@given(st.binary(max_size=200))
def test_arbitrary_bytes_after_the_header_never_surprise(noise: bytes) -> None:
    check_exact(HEADER + b"3\n" + noise)
    for version in (b"1\n", b"2\n"):
        try:
            decode_ledger_metadata(HEADER + version + noise)
        except MetadataFormatError:
            continue
