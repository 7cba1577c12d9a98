"""Bytes of a page of a log's history. Pure.

The frame is that of every value of a log's metadata (metadata_value.py).

    kind "P", version 1:
    page    [level, items]; items are ledgers at level 0, pages of the level below at a higher one (ledger_fields.py)
"""

from __future__ import annotations

from dlog.errors import RecordFormatError
from dlog.format.ledger_fields import (
    LEVEL_MAX,
    decode_ledger,
    decode_page_ref,
    ledger_fields,
    page_fields,
)
from dlog.format.metadata_value import array, check_canonical, encode_value, integer, many, open_value
from dlog.ledger_list.page import IndexPage, LedgerPage, Page, broken_page_rule

PAGE_VERSIONS = (1,)

_KIND_PAGE = b"P"


def encode_page(page: Page) -> bytes:
    """The one byte form of `page`. RecordFormatError if it breaks a rule."""
    data = _encode(page)
    _decode(data)  # never write what could not be read back
    return data


def decode_page(data: bytes) -> Page:
    """Read a page strictly. RecordFormatError on every damage."""
    page = _decode(data)
    check_canonical(data, _encode(page))
    return page


def _encode(page: Page) -> bytes:
    items = (
        [ledger_fields(listed) for listed in page.ledgers]
        if isinstance(page, LedgerPage)
        else [page_fields(ref) for ref in page.pages]
    )
    return encode_value(_KIND_PAGE, PAGE_VERSIONS[-1], [page.level, items])


def _decode(data: bytes) -> Page:
    _, value = open_value(data, _KIND_PAGE, PAGE_VERSIONS)
    level, items = array(value, 2, "page")
    page: Page
    level = integer(level, "page level", high=LEVEL_MAX)
    if level == 0:
        page = LedgerPage(many(decode_ledger, items, "ledgers of a page"))
    else:
        page = IndexPage(level, many(decode_page_ref, items, "pages of a page"))
    broken = broken_page_rule(page)
    if broken is not None:
        raise RecordFormatError(f"a page of the log's history breaks a rule: {broken}")
    return page
