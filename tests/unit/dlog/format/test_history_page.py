"""The bytes of pages of a log's history: golden values, damage, rules."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.errors import RecordFormatError
from dlog.format.history_page import decode_page, encode_page
from dlog.ledger_list.page import IndexPage, LedgerPage, Page
from tests.helpers.log.records import PAGES, listed

GOLDEN = Path(__file__).parents[1] / "golden"
LEDGERS = LedgerPage((listed(3, 41, epoch=6), replace(listed(9, -1, epoch=7), location="somewhere")))
INDEX = IndexPage(2, (PAGES[0], replace(PAGES[1], level=1)))
BY_NAME = {"log_page_ledgers_v1.hex": LEDGERS, "log_page_index_v1.hex": INDEX}


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / name).read_text())


@pytest.mark.parametrize(("name", "page"), BY_NAME.items())
def test_the_bytes_of_a_page_never_change(name: str, page: Page) -> None:
    assert encode_page(page).hex() == golden(name).hex()
    assert decode_page(golden(name)) == page


@pytest.mark.parametrize("name", BY_NAME)
def test_every_truncation_and_every_flipped_bit_is_a_format_error(name: str) -> None:
    data = golden(name)
    for length in range(len(data)):
        with pytest.raises(RecordFormatError):
            decode_page(data[:length])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordFormatError):
            decode_page(bytes(damaged))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_flipped_bit_under_a_right_crc_is_an_error_or_another_legal_page(name: str) -> None:
    body = golden(name)[:-4]
    for bit in range(len(body) * 8):
        changed = bytearray(body)
        changed[bit // 8] ^= 1 << bit % 8
        data = bytes(changed) + zlib.crc32(changed).to_bytes(4, "big")
        try:
            found = decode_page(data)
        except RecordFormatError:
            continue
        assert encode_page(found) == data


@given(st.binary(max_size=300))
def test_noise_is_a_format_error(noise: bytes) -> None:
    body = b"DLGP\x01" + noise
    for data in (noise, body + zlib.crc32(body).to_bytes(4, "big")):
        with pytest.raises(RecordFormatError):
            decode_page(data)


@pytest.mark.parametrize(
    "broken",
    [
        LedgerPage(()),
        IndexPage(1, ()),
        LedgerPage((listed(3, 1), listed(9))),
        LedgerPage((listed(9, 1), listed(3, 1))),
        IndexPage(2, PAGES),
        IndexPage(2, (INDEX.pages[1], INDEX.pages[0])),
        IndexPage(11, tuple(replace(page, level=10) for page in PAGES)),
    ],
)
def test_a_page_that_breaks_a_rule_is_never_written(broken: Page) -> None:
    with pytest.raises(RecordFormatError):
        encode_page(broken)


def test_an_unknown_version_is_named_with_the_known_one() -> None:
    body = b"DLGP\x09" + msgpack.packb([0, []])
    with pytest.raises(RecordFormatError, match="version 9, this release reads versions up to 1"):
        decode_page(body + zlib.crc32(body).to_bytes(4, "big"))
