"""Digests, keys and LAC packets: Apache's bytes, an independent CRC, and what a mismatch says."""

from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import DigestMismatchError, ProtocolError
from ledger.model import DigestType
from ledger.wire import crc32c
from ledger.wire.digest import Digester, make_digester, master_key
from ledger.wire.entry import EntryHeader, decode_header
from tests.helpers.wire.golden_frames import load

VECTORS = load("digests.json")
ORACLE = crc32c.crcmod_extend()


def digest_type_of(name: str) -> DigestType:
    return DigestType.HMAC if name == "MAC" else DigestType[name]


def digester_of(vector: dict[str, Any]) -> Digester:
    return make_digester(digest_type_of(vector["digest_type"]), bytes.fromhex(vector["password_hex"]))


def header_of(vector: dict[str, Any]) -> EntryHeader:
    return EntryHeader(vector["ledger"], vector["entry"], vector["lac"], vector["length"])


@pytest.mark.parametrize("vector", VECTORS["entries"], ids=lambda v: f"{v['digest_type']}-{v['entry']}")
def test_golden_entry_both_ways(vector: dict[str, Any]) -> None:
    digester, header = digester_of(vector), header_of(vector)
    payload, sealed = bytes.fromhex(vector["payload_hex"]), bytes.fromhex(vector["header_and_digest_hex"])
    assert digester.header_and_digest(*header, (payload,)) == sealed
    whole = bytes.fromhex(vector["entry_hex"])
    assert sealed + payload == whole
    assert decode_header(whole) == header
    for entry in (whole, memoryview(whole), bytearray(whole)):
        assert digester.verify(entry, header.ledger_id, header.entry_id) == header
        assert digester.verify(entry, header.ledger_id, None) == header
        assert entry[digester.overhead_bytes :] == payload


@pytest.mark.parametrize("vector", VECTORS["lac_packets"], ids=lambda v: f"{v['digest_type']}-{v['lac']}")
def test_golden_lac_packet_both_ways(vector: dict[str, Any]) -> None:
    digester, packet = digester_of(vector), bytes.fromhex(vector["packet_hex"])
    assert digester.lac_packet(vector["ledger"], vector["lac"]) == packet
    assert digester.verify_lac_packet(vector["ledger"], packet) == vector["lac"]


@pytest.mark.parametrize("vector", VECTORS["keys"], ids=lambda v: repr(v["password_text"]))
def test_golden_master_key(vector: dict[str, Any]) -> None:
    assert master_key(bytes.fromhex(vector["password_hex"])).hex() == vector["master_key_hex"]


def test_there_are_golden_entries_of_every_digest_type() -> None:
    for kind in ("entries", "lac_packets"):
        assert {digest_type_of(vector["digest_type"]) for vector in VECTORS[kind]} == set(DigestType)


def test_crc32c_of_the_nine_digits_is_the_published_check_value() -> None:
    assert crc32c.crc32c(b"123456789") == ORACLE(0, b"123456789") == 0xE3069283


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_crc32c_equals_the_oracle_and_extends(first: bytes, second: bytes) -> None:
    assert crc32c.crc32c(first + second) == ORACLE(0, first + second)
    assert crc32c.extend(crc32c.crc32c(first), second) == ORACLE(ORACLE(0, first), second)


@pytest.mark.skipif(google_crc32c.implementation != "c", reason="google-crc32c has no C extension here")
def test_the_c_implementation_is_the_one_in_use() -> None:
    assert crc32c.extend is google_crc32c.extend


@given(
    st.sampled_from(DigestType),
    st.lists(st.binary(max_size=40), max_size=4),
    st.tuples(*(st.integers(-1, 2**63 - 1),) * 4),
)
def test_parts_of_a_payload_are_sealed_as_their_concatenation(
    digest_type: DigestType, parts: list[bytes], fields: tuple[int, int, int, int]
) -> None:
    digester = make_digester(digest_type, b"secret")
    payload = b"".join(parts)
    sealed = digester.header_and_digest(*fields, (payload,))
    assert digester.header_and_digest(*fields, [memoryview(part) for part in parts]) == sealed
    assert digester.verify(sealed + payload, fields[0], fields[1]) == fields


@pytest.mark.parametrize("digest_type", DigestType)
@pytest.mark.parametrize(("ledger_id", "entry_id"), [(8, 5), (7, 6), (8, None)])
def test_an_entry_of_another_place_is_refused_and_names_both(
    digest_type: DigestType, ledger_id: int, entry_id: int | None
) -> None:
    """A misdirected read has a right digest: the ids inside must be those asked for."""
    digester = make_digester(digest_type, b"")
    entry = digester.header_and_digest(7, 5, 4, 10, (b"payload",)) + b"payload"
    with pytest.raises(DigestMismatchError, match="calls itself 7:5") as caught:
        digester.verify(entry, ledger_id, entry_id)
    assert (caught.value.ledger_id, caught.value.entry_id) == (ledger_id, entry_id)


@pytest.mark.parametrize("digest_type", DigestType)
def test_a_last_entry_whose_lac_is_not_below_it_is_refused(digest_type: DigestType) -> None:
    """No writer sends one, and where the last entry is asked for its LAC is what counts."""
    digester = make_digester(digest_type, b"")
    for lac in (5, 6, 2**63 - 1):
        entry = digester.header_and_digest(7, 5, lac, 10, (b"payload",)) + b"payload"
        assert digester.verify(entry, 7, 5).lac == lac
        with pytest.raises(DigestMismatchError, match=f"has LAC {lac} in the header of entry 5"):
            digester.verify(entry, 7, None)


@pytest.mark.parametrize("digest_type", DigestType)
def test_a_short_entry_or_packet_is_refused(digest_type: DigestType) -> None:
    digester = make_digester(digest_type, b"")
    for size in range(digester.overhead_bytes):
        with pytest.raises(DigestMismatchError, match=f"is {size} bytes"):
            digester.verify(bytes(size), 0, 0)
    for size in range(16 + digester.size):
        with pytest.raises(DigestMismatchError, match=f"of {size} bytes"):
            digester.verify_lac_packet(0, bytes(size))


def test_a_lac_packet_of_another_ledger_is_refused() -> None:
    digester = make_digester(DigestType.CRC32C, b"")
    with pytest.raises(DigestMismatchError, match="packet of ledger 1"):
        digester.verify_lac_packet(2, digester.lac_packet(1, 5))


def test_hmac_needs_the_right_password() -> None:
    sealed = make_digester(DigestType.HMAC, b"right").header_and_digest(1, 2, 1, 3, (b"abc",))
    with pytest.raises(DigestMismatchError):
        make_digester(DigestType.HMAC, b"wrong").verify(sealed + b"abc", 1, 2)


def test_an_entry_shorter_than_its_header_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="31 bytes"):
        decode_header(bytes(31))


@pytest.mark.parametrize("digest_type", DigestType)
def test_an_entry_is_opened_within_a_block_or_refused_as_verify_refuses(digest_type: DigestType) -> None:
    """Every entry of a batch is read through this; each damaged byte must show, whatever the digest."""
    digester = make_digester(digest_type, b"secret")
    entry = digester.header_and_digest(7, 3, 2, 500, (b"payload",)) + b"payload"
    block, end = b"before" + entry + b"behind", 6 + len(entry)
    assert digester.open_entry(block, 6, end, 7, 3) == (2, 500, b"payload")
    for ledger_id, entry_id, stop in ((8, 3, end), (7, 4, end), (7, 3, 6 + 20)):
        with pytest.raises(DigestMismatchError):
            digester.open_entry(block, 6, stop, ledger_id, entry_id)
    if digest_type is not DigestType.DUMMY:
        for place in range(6, end):
            damaged = block[:place] + bytes([block[place] ^ 1]) + block[place + 1 :]
            with pytest.raises(DigestMismatchError):
                digester.open_entry(damaged, 6, end, 7, 3)
