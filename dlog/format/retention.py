"""Bytes of a log's retention. Pure.

The frame is that of every value of a log's metadata (metadata_value.py), of kind "T" and version 1:

    retention  [age µs or nil, bytes or nil, messages or nil, whether unread messages are kept]
"""

from __future__ import annotations

from dlog.errors import RecordFormatError
from dlog.format.metadata_value import array, check_canonical, encode_value, integer, open_value
from dlog.model import Retention
from ledger.errors import ConfigurationError

RETENTION_VERSIONS = (1,)
_KIND = b"T"


def encode_retention(retention: Retention) -> bytes:
    age_us = None if retention.max_age_s is None else max(1, round(retention.max_age_s * 1e6))
    fields = [age_us, retention.max_bytes, retention.max_messages, retention.keep_unread]
    return encode_value(_KIND, RETENTION_VERSIONS[-1], fields)


def decode_retention(data: bytes) -> Retention:
    """Read it strictly. RecordFormatError on every damage."""
    _, value = open_value(data, _KIND, RETENTION_VERSIONS)
    age_us, max_bytes, max_messages, keep_unread = array(value, 4, "retention")
    if not isinstance(keep_unread, bool):
        raise RecordFormatError(
            f"retention: expected whether unread messages are kept, got {str(keep_unread)[:80]}"
        )
    limit_us = _limit(age_us, "age")
    try:
        retention = Retention(
            max_age_s=None if limit_us is None else limit_us / 1e6,
            max_bytes=_limit(max_bytes, "bytes"),
            max_messages=_limit(max_messages, "messages"),
            keep_unread=keep_unread,
        )
    except ConfigurationError as error:
        raise RecordFormatError(f"retention: {error}") from error
    check_canonical(data, encode_retention(retention))
    return retention


def _limit(value: object, what: str) -> int | None:
    return None if value is None else integer(value, f"retention by {what}", low=1)
