"""Bytes of a log's record and of its name node. Pure.

The frame is that of every value of a log's metadata (metadata_value.py); ledgers and pages are in ledger_fields.py, the
owner in owner.py.

    kind "R", the record of a log, version 3, 2 or 1:
    record  [uuid, instance id, epoch, owner or nil, ledgers, last ledger id, trim before, pending delete,
             sinks, state, nonce, pages, grace µs, trimmed end, first id, deleted below]
    pending [id, not before µs]        sink [writer id, batch, time µs]

    kind "N", its name node, version 1:
    name    [uuid, state]

Version 2 ends with the trimmed end and has no pages; version 1 ends with the empty pages. A record of version 1 has
the default grace, and all below its trim id may have been trimmed away. A record keeps its version while its log
changes and becomes one of version 3 at the next takeover, which shuts older writers out anyway. The rules are
docs/log-semantics.md#rule-1, #rule-3, #rule-5.
"""

from __future__ import annotations

from functools import lru_cache, partial

from dlog.errors import RecordFormatError
from dlog.format.ledger_fields import decode_ledger, decode_page_ref, ledger_fields, page_fields
from dlog.format.metadata_value import (
    array,
    check_canonical,
    choice,
    encode_value,
    integer,
    many,
    open_value,
    optional,
    text,
)
from dlog.format.owner import decode_owner, owner_fields
from dlog.ledger_list.listing import broken_rule
from dlog.model import (
    GRACE_US,
    RECORD_VERSION,
    ListedLedger,
    LogMetadata,
    LogState,
    MessageId,
    NameNode,
    NameState,
    PendingDelete,
    SinkMark,
)
from ledger.model import LedgerId

RECORD_VERSIONS = (1, 2, RECORD_VERSION)
NAME_VERSIONS = (1,)
SINKS_MAX = 64

_KIND_RECORD = b"R"
_KIND_NAME = b"N"
_FIELDS = {1: 12, 2: 14, 3: 16}
"""Number of fields of a record of each version."""
_RECORDS_KEPT = 16
_LEDGERS_KEPT = 512


def encode_record(record: LogMetadata) -> bytes:
    """The one byte form of `record`. RecordTooLargeError, RecordFormatError if it breaks another limit."""
    data = encode_value(_KIND_RECORD, record.format_version, _record_fields(record))
    decode_record(data)  # never write what could not be read back
    return data


@lru_cache(maxsize=_RECORDS_KEPT)
def decode_record(data: bytes) -> LogMetadata:
    """Read a record strictly. RecordFormatError on every damage.

    Of the values decoded last the results are kept, since most reads find what the last one found.
    """
    record = _decode_record_fields(*open_value(data, _KIND_RECORD, RECORD_VERSIONS))
    check_canonical(data, encode_value(_KIND_RECORD, record.format_version, _record_fields(record)))
    return record


def encode_name(name: NameNode) -> bytes:
    return encode_value(_KIND_NAME, NAME_VERSIONS[-1], [name.log_uuid, name.state.value])


def decode_name(data: bytes) -> NameNode:
    """Read a name node strictly. RecordFormatError on every damage."""
    _, value = open_value(data, _KIND_NAME, NAME_VERSIONS)
    uuid, state = array(value, 2, "name node")
    name = NameNode(log_uuid=text(uuid, "uuid"), state=choice(NameState, state, "name state"))
    check_canonical(data, encode_name(name))
    return name


# ---- values → msgpack


def _record_fields(record: LogMetadata) -> list[object]:
    fields: list[object] = [
        record.log_uuid,
        record.instance_id,
        record.epoch,
        None if record.owner is None else owner_fields(record.owner),
        [ledger_fields(listed, has_location=record.format_version >= 3) for listed in record.ledgers],
        record.last_ledger_id,
        list(record.trim_before),
        [[pending.ledger_id, pending.not_before_us] for pending in record.pending_delete],
        [[mark.writer_id, mark.batch, mark.time_us] for mark in record.sinks],
        record.state.value,
        record.nonce,
        [page_fields(page) for page in record.pages],
    ]
    if record.format_version >= 2:
        fields += [record.grace_us, list(record.trimmed_end)]
    if record.format_version >= 3:
        fields += [record.first_id, record.deleted_below]
    return fields


# ---- msgpack → values


def _decode_record_fields(version: int, value: object) -> LogMetadata:
    fields = array(value, _FIELDS[version], "record")
    if version < 3 and fields[11] != ():
        raise RecordFormatError(
            f"log metadata of version {version} refers to pages, which only version 3 has: "
            "another program may have written it"
        )
    listed = _decode_listed if version >= 3 else partial(decode_ledger, has_location=False)
    record = LogMetadata(
        log_uuid=text(fields[0], "uuid"),
        instance_id=text(fields[1], "instance id"),
        epoch=integer(fields[2], "epoch"),
        owner=optional(decode_owner, fields[3]),
        ledgers=many(listed, fields[4], "ledgers"),
        last_ledger_id=integer(fields[5], "last ledger id", low=-1),
        trim_before=_decode_trim(fields[6]),
        trimmed_end=_decode_trim(fields[6 if version == 1 else 13]),
        pending_delete=many(_decode_pending, fields[7], "pending delete"),
        sinks=many(_decode_sink, fields[8], "sinks"),
        state=choice(LogState, fields[9], "state"),
        nonce=integer(fields[10], "nonce"),
        pages=many(decode_page_ref, fields[11], "pages"),
        grace_us=GRACE_US if version == 1 else integer(fields[12], "grace"),
        first_id=0 if version < 3 else integer(fields[14], "first id"),
        deleted_below=0 if version < 3 else integer(fields[15], "end of the deleted ledgers"),
        format_version=version,
    )
    _check_rules(record)
    return record


def _check_rules(record: LogMetadata) -> None:
    """What every version of a record obeys (docs/log-semantics.md#rule-3, #i1, #i3)."""
    broken = broken_rule(record)
    if broken is not None:
        raise RecordFormatError(f"the log metadata breaks a rule: {broken}")
    if record.trimmed_end > record.trim_before:
        raise RecordFormatError(
            f"the trimmed ledgers end at {record.trimmed_end}, after {record.trim_before}, the start of the log"
        )
    if len(record.sinks) > SINKS_MAX:
        raise RecordFormatError(f"the log metadata has {len(record.sinks)} sinks, the limit is {SINKS_MAX}")
    if (record.owner is None) != (record.epoch == 0):
        raise RecordFormatError(f"the log metadata has epoch {record.epoch} and owner {record.owner}")


def _decode_listed(value: object) -> ListedLedger:
    try:
        return _decode_known(value)
    except TypeError:  # a map is no key
        return decode_ledger(value)


@lru_cache(maxsize=_LEDGERS_KEPT)
def _decode_known(value: object) -> ListedLedger:
    """A record changes at one end: most of its ledgers are those of the record before.

    A key of other types may be equal, as True to 1. What comes of it is right, and not in the canonical form.
    """
    return decode_ledger(value)


def _decode_trim(value: object) -> MessageId:
    ledger_id, entry_id, batch_index = array(value, 3, "trim id")
    return MessageId(
        integer(ledger_id, "trim ledger"),
        integer(entry_id, "trim entry"),
        integer(batch_index, "trim batch index", high=2**31 - 1),
    )


def _decode_pending(value: object) -> PendingDelete:
    ledger_id, not_before_us = array(value, 2, "pending delete")
    return PendingDelete(
        ledger_id=LedgerId(integer(ledger_id, "pending ledger id")),
        not_before_us=integer(not_before_us, "not-before time"),
    )


def _decode_sink(value: object) -> SinkMark:
    writer_id, batch, time_us = array(value, 3, "sink")
    return SinkMark(
        writer_id=text(writer_id, "sink writer id"),
        batch=integer(batch, "sink batch", low=-1),
        time_us=integer(time_us, "sink time"),
    )
