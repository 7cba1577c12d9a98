"""Ledgers and pages as records and pages list them. Pure.

ledger  [id, epoch, created µs, seal or nil, keep until µs, location]; before version 3 without location
seal    [last entry, messages, bytes, first append µs, last append µs]
page    [name, level, first id, last id, ledgers, messages, uncounted ledgers, bytes, last append µs]
"""

from __future__ import annotations

from dlog.format.metadata_value import array, integer, optional, text
from dlog.model import ListedLedger, PageRef, SealFacts
from ledger.model import LedgerId

LEVEL_MAX = 10
"""Of a page; 64 pages of one level are one page of the next, so there are never as many."""


def ledger_fields(listed: ListedLedger, *, has_location: bool = True) -> list[object]:
    fields: list[object] = [
        listed.ledger_id,
        listed.epoch,
        listed.created_us,
        _seal_fields(listed.seal),
        listed.keep_until_us,
    ]
    return [*fields, listed.location] if has_location else fields


def _seal_fields(seal: SealFacts | None) -> list[object] | None:
    if seal is None:
        return None
    return [seal.last_entry, seal.message_count, seal.byte_count, seal.first_append_us, seal.last_append_us]


def page_fields(page: PageRef) -> list[object]:
    return [
        page.name,
        page.level,
        page.first_id,
        page.last_id,
        page.ledgers,
        page.message_count,
        page.uncounted,
        page.byte_count,
        page.last_append_us,
    ]


def decode_ledger(value: object, *, has_location: bool = True) -> ListedLedger:
    ledger_id, epoch, created_us, seal, keep_until_us, *location = array(
        value, 6 if has_location else 5, "ledger"
    )
    return ListedLedger(
        ledger_id=LedgerId(integer(ledger_id, "ledger id")),
        epoch=integer(epoch, "ledger epoch"),
        created_us=integer(created_us, "ledger creation time"),
        seal=optional(_decode_seal, seal),
        keep_until_us=integer(keep_until_us, "keep-until time"),
        location=text(location[0], "ledger location") if has_location else "",
    )


def _decode_seal(value: object) -> SealFacts:
    last_entry, messages, size, first_us, last_us = array(value, 5, "seal")
    return SealFacts(
        last_entry=integer(last_entry, "last entry", low=-1),
        message_count=integer(messages, "message count", low=-1),
        byte_count=integer(size, "byte count"),
        first_append_us=integer(first_us, "first append time"),
        last_append_us=integer(last_us, "last append time"),
    )


def decode_page_ref(value: object) -> PageRef:
    name, level, first_id, last_id, ledgers, messages, uncounted, size, last_us = array(value, 9, "page")
    return PageRef(
        name=text(name, "page name"),
        level=integer(level, "page level", high=LEVEL_MAX),
        first_id=integer(first_id, "first id of a page"),
        last_id=integer(last_id, "last id of a page"),
        ledgers=integer(ledgers, "ledgers of a page", low=1),
        message_count=integer(messages, "messages of a page"),
        uncounted=integer(uncounted, "uncounted ledgers of a page"),
        byte_count=integer(size, "bytes of a page"),
        last_append_us=integer(last_us, "last append time of a page"),
    )
