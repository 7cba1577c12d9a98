"""Metadata values decoded for the checks, which look at the same value many times."""

from __future__ import annotations

from functools import lru_cache

from dlog.format import history_page, log_metadata
from dlog.ledger_list.page import Page
from dlog.model import LogMetadata
from ledger.metadata.format import ledger
from ledger.model import LedgerMetadata

_KEPT_MAX = 4096


@lru_cache(_KEPT_MAX)
def decode_record(value: bytes) -> LogMetadata:
    """As the production code decodes it."""
    return log_metadata.decode_record(value)


@lru_cache(_KEPT_MAX)
def decode_page(value: bytes) -> Page:
    """As the production code decodes it."""
    return history_page.decode_page(value)


@lru_cache(_KEPT_MAX)
def decode_ledger_metadata(value: bytes) -> LedgerMetadata:
    """As the production code decodes it."""
    return ledger.decode_ledger_metadata(value)


def forget_decoded() -> None:
    """Before a run: what the last one decoded may be the work of a planted bug."""
    decode_record.cache_clear()
    decode_page.cache_clear()
    decode_ledger_metadata.cache_clear()
