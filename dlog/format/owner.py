"""Bytes of an owner, inside other values of a log's metadata. Pure.

owner   [instance, name, host, process id, started µs]
"""

from __future__ import annotations

from dlog.format.metadata_value import array, integer, text
from dlog.model import Owner


def owner_fields(owner: Owner) -> list[object]:
    return [owner.instance, owner.name, owner.host, owner.process_id, owner.started_us]


def decode_owner(value: object) -> Owner:
    """Read it strictly. RecordFormatError on every damage."""
    instance, name, host, process_id, started_us = array(value, 5, "owner")
    return Owner(
        instance=text(instance, "owner instance"),
        name=text(name, "owner name"),
        host=text(host, "owner host"),
        process_id=integer(process_id, "owner process id"),
        started_us=integer(started_us, "owner start time"),
    )
