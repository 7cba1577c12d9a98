"""Bytes of the log's metadata values: the record and the name node. Pure.

    offset  size  field
    0       3     magic     "DLG"
    3       1     kind      "R" the record of a log, "N" its name node
    4       1     version   of a record 2, or 1; of a name node 1
    5       n     value     one msgpack array, canonical; fields in the order below
    5+n     4     crc       u32 big-endian, CRC-32 of all bytes before it

    record  [uuid, instance id, epoch, owner or nil, ledgers, last ledger id, trim before, pending delete,
             sinks, state, nonce, pages, grace µs, trimmed end]; version 1 ends with pages
    owner   [instance, name, host, process id, started µs]
    ledger  [id, epoch, created µs, seal or nil, keep until µs]
    seal    [last entry, messages, bytes, first append µs, last append µs]
    pending [id, not before µs]        sink [writer id, batch, time µs]
    name    [uuid, state]

`pages` is reserved for the immutable pages of sealed history: an empty array so far. A record of version 1 has the
default grace, and all below its trim id may have been trimmed away. It stays in version 1 while its log changes and
becomes one of version 2 at the next takeover, which shuts older writers out anyway. There is one encoding of each
value; anything else is RecordFormatError, and no other exception leaves the decoders. The table is in
docs/formats.md, the rules are docs/log-semantics.md#rule-1, #rule-3, #rule-5.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import msgpack

from dlog.errors import RecordFormatError, RecordTooLargeError
from dlog.model import (
    GRACE_US,
    RECORD_VERSION,
    ListedLedger,
    LogMetadata,
    LogState,
    MessageId,
    NameNode,
    NameState,
    Owner,
    PendingDelete,
    SealFacts,
    SinkMark,
)
from ledger.model import LedgerId

MAGIC = b"DLG"
RECORD_VERSIONS = (1, RECORD_VERSION)
NAME_VERSIONS = (1,)
RECORD_BYTES_MAX = 1_000_000
"""ZooKeeper's default limit for one node is 1 MiB; this leaves room for the request around the value."""
SINKS_MAX = 64
TEXT_CHARS_MAX = 300

_KIND_RECORD = b"R"
_KIND_NAME = b"N"
_HEADER_BYTES = 5
_CRC_BYTES = 4
_VALUE_BYTES_MIN = _HEADER_BYTES + 1 + _CRC_BYTES
_I64_MAX = 2**63 - 1
_DECODED_KEPT = 16
_T = TypeVar("_T")


def encode_record(record: LogMetadata) -> bytes:
    """The one byte form of `record`. RecordTooLargeError, RecordFormatError if it breaks another limit."""
    data = _encode(_KIND_RECORD, record.format_version, _record_fields(record))
    _decode_record_fields(
        *_open(data, _KIND_RECORD, RECORD_VERSIONS)
    )  # never write what could not be read back
    return data


@lru_cache(maxsize=_DECODED_KEPT)
def decode_record(data: bytes) -> LogMetadata:
    """Read a record strictly. RecordFormatError on every damage.

    Of the values decoded last the results are kept, since most reads find what the last one found.
    """
    record = _decode_record_fields(*_open(data, _KIND_RECORD, RECORD_VERSIONS))
    _check_canonical(data, _encode(_KIND_RECORD, record.format_version, _record_fields(record)))
    return record


def encode_name(name: NameNode) -> bytes:
    return _encode(_KIND_NAME, NAME_VERSIONS[-1], [name.log_uuid, name.state.value])


def decode_name(data: bytes) -> NameNode:
    """Read a name node strictly. RecordFormatError on every damage."""
    _, value = _open(data, _KIND_NAME, NAME_VERSIONS)
    uuid, state = _array(value, 2, "name node")
    name = NameNode(log_uuid=_text(uuid, "uuid"), state=_choice(NameState, state, "name state"))
    _check_canonical(data, encode_name(name))
    return name


# ---- the frame around a value


def _encode(kind: bytes, version: int, value: object) -> bytes:
    try:
        packed: bytes = msgpack.packb(value)
    except (OverflowError, ValueError, UnicodeEncodeError) as error:
        raise RecordFormatError(f"log metadata cannot be encoded: {error}") from error
    body = MAGIC + kind + bytes([version]) + packed
    if len(body) + _CRC_BYTES > RECORD_BYTES_MAX:
        raise RecordTooLargeError(
            f"log metadata would have {len(body) + _CRC_BYTES} bytes, the limit is {RECORD_BYTES_MAX}: "
            "shrink the log, so that it lists fewer ledgers",
            record_bytes=len(body) + _CRC_BYTES,
            record_bytes_max=RECORD_BYTES_MAX,
        )
    return body + zlib.crc32(body).to_bytes(_CRC_BYTES, "big")


def _open(data: bytes, kind: bytes, versions: tuple[int, ...]) -> tuple[int, object]:
    """The version and the value in it."""
    if len(data) > RECORD_BYTES_MAX or len(data) < _VALUE_BYTES_MIN:
        raise RecordFormatError(
            f"log metadata has {len(data)} bytes, expected {_VALUE_BYTES_MIN} to {RECORD_BYTES_MAX}"
        )
    if data[:3] != MAGIC or data[3:4] != kind:
        raise RecordFormatError(
            f"log metadata starts with {data[:4]!r}, expected {MAGIC + kind!r}: another program may have written it"
        )
    if data[4] not in versions:
        raise RecordFormatError(
            f"log metadata has format version {data[4]}, this release reads versions up to {versions[-1]}: "
            "upgrade dlog"
        )
    body, crc = data[:-_CRC_BYTES], int.from_bytes(data[-_CRC_BYTES:], "big")
    if zlib.crc32(body) != crc:
        raise RecordFormatError(
            f"log metadata is damaged: CRC-32 is {zlib.crc32(body):#010x}, stored {crc:#010x}: "
            "restore the metadata store from a backup"
        )
    return data[4], _unpack(body[_HEADER_BYTES:])


def _unpack(packed: bytes) -> object:
    try:
        value: object = msgpack.unpackb(packed, use_list=True, strict_map_key=True)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise RecordFormatError(f"log metadata is not valid msgpack: {error}") from error
    return value


def _check_canonical(data: bytes, encoded: bytes) -> None:
    if data != encoded:
        raise RecordFormatError(
            "log metadata is not in its canonical form: another program may have written it"
        )


# ---- values → msgpack


def _record_fields(record: LogMetadata) -> list[object]:
    fields = [
        record.log_uuid,
        record.instance_id,
        record.epoch,
        _owner_fields(record.owner),
        [_ledger_fields(listed) for listed in record.ledgers],
        record.last_ledger_id,
        list(record.trim_before),
        [[pending.ledger_id, pending.not_before_us] for pending in record.pending_delete],
        [[mark.writer_id, mark.batch, mark.time_us] for mark in record.sinks],
        record.state.value,
        record.nonce,
        [],
    ]
    return fields if record.format_version == 1 else [*fields, record.grace_us, list(record.trimmed_end)]


def _owner_fields(owner: Owner | None) -> list[object] | None:
    if owner is None:
        return None
    return [owner.instance, owner.name, owner.host, owner.process_id, owner.started_us]


def _ledger_fields(listed: ListedLedger) -> list[object]:
    return [
        listed.ledger_id,
        listed.epoch,
        listed.created_us,
        _seal_fields(listed.seal),
        listed.keep_until_us,
    ]


def _seal_fields(seal: SealFacts | None) -> list[object] | None:
    if seal is None:
        return None
    return [seal.last_entry, seal.message_count, seal.byte_count, seal.first_append_us, seal.last_append_us]


# ---- msgpack → values


def _decode_record_fields(version: int, value: object) -> LogMetadata:
    fields = _array(value, 12 if version == 1 else 14, "record")
    if fields[11] != []:
        raise RecordFormatError(
            "the log metadata refers to history pages, which this release cannot read: upgrade dlog"
        )
    record = LogMetadata(
        log_uuid=_text(fields[0], "uuid"),
        instance_id=_text(fields[1], "instance id"),
        epoch=_integer(fields[2], "epoch"),
        owner=_optional(_decode_owner, fields[3]),
        ledgers=_many(_decode_ledger, fields[4], "ledgers"),
        last_ledger_id=_integer(fields[5], "last ledger id", low=-1),
        trim_before=_decode_trim(fields[6]),
        trimmed_end=_decode_trim(fields[6 if version == 1 else 13]),
        pending_delete=_many(_decode_pending, fields[7], "pending delete"),
        sinks=_many(_decode_sink, fields[8], "sinks"),
        state=_choice(LogState, fields[9], "state"),
        nonce=_integer(fields[10], "nonce"),
        grace_us=GRACE_US if version == 1 else _integer(fields[12], "grace"),
        format_version=version,
    )
    _check_rules(record)
    return record


def _check_rules(record: LogMetadata) -> None:
    """What every version of a record obeys (docs/log-semantics.md#rule-3, #i1, #i3)."""
    ids = record.ledger_ids
    if any(later <= earlier for earlier, later in pairwise(ids)):
        raise RecordFormatError(f"the ledger list is not strictly increasing, it ends with {ids[-5:]}")
    if ids and ids[-1] > record.last_ledger_id:
        raise RecordFormatError(
            f"ledger {ids[-1]} is listed, but the last ledger id is {record.last_ledger_id}"
        )
    if record.trimmed_end > record.trim_before:
        raise RecordFormatError(
            f"the trimmed ledgers end at {record.trimmed_end}, after {record.trim_before}, the start of the log"
        )
    if len(record.sinks) > SINKS_MAX:
        raise RecordFormatError(f"the log metadata has {len(record.sinks)} sinks, the limit is {SINKS_MAX}")
    if (record.owner is None) != (record.epoch == 0):
        raise RecordFormatError(f"the log metadata has epoch {record.epoch} and owner {record.owner}")


def _decode_owner(value: object) -> Owner:
    instance, name, host, process_id, started_us = _array(value, 5, "owner")
    return Owner(
        instance=_text(instance, "owner instance"),
        name=_text(name, "owner name"),
        host=_text(host, "owner host"),
        process_id=_integer(process_id, "owner process id"),
        started_us=_integer(started_us, "owner start time"),
    )


def _decode_ledger(value: object) -> ListedLedger:
    ledger_id, epoch, created_us, seal, keep_until_us = _array(value, 5, "ledger")
    return ListedLedger(
        ledger_id=LedgerId(_integer(ledger_id, "ledger id")),
        epoch=_integer(epoch, "ledger epoch"),
        created_us=_integer(created_us, "ledger creation time"),
        seal=_optional(_decode_seal, seal),
        keep_until_us=_integer(keep_until_us, "keep-until time"),
    )


def _decode_seal(value: object) -> SealFacts:
    last_entry, messages, size, first_us, last_us = _array(value, 5, "seal")
    return SealFacts(
        last_entry=_integer(last_entry, "last entry", low=-1),
        message_count=_integer(messages, "message count", low=-1),
        byte_count=_integer(size, "byte count"),
        first_append_us=_integer(first_us, "first append time"),
        last_append_us=_integer(last_us, "last append time"),
    )


def _decode_trim(value: object) -> MessageId:
    ledger_id, entry_id, batch_index = _array(value, 3, "trim id")
    return MessageId(
        _integer(ledger_id, "trim ledger"),
        _integer(entry_id, "trim entry"),
        _integer(batch_index, "trim batch index", high=2**31 - 1),
    )


def _decode_pending(value: object) -> PendingDelete:
    ledger_id, not_before_us = _array(value, 2, "pending delete")
    return PendingDelete(
        ledger_id=LedgerId(_integer(ledger_id, "pending ledger id")),
        not_before_us=_integer(not_before_us, "not-before time"),
    )


def _decode_sink(value: object) -> SinkMark:
    writer_id, batch, time_us = _array(value, 3, "sink")
    return SinkMark(
        writer_id=_text(writer_id, "sink writer id"),
        batch=_integer(batch, "sink batch", low=-1),
        time_us=_integer(time_us, "sink time"),
    )


# ---- one field


def _array(value: object, length: int, what: str) -> list[object]:
    if not isinstance(value, list) or len(value) != length:
        raise RecordFormatError(f"{what}: expected an array of {length} fields, got {str(value)[:80]}")
    return value


def _many(decode: Callable[[object], _T], value: object, what: str) -> tuple[_T, ...]:
    if not isinstance(value, list):
        raise RecordFormatError(f"{what}: expected an array, got {str(value)[:80]}")
    return tuple(decode(one) for one in value)


def _optional(decode: Callable[[object], _T], value: object) -> _T | None:
    return None if value is None else decode(value)


def _integer(value: object, what: str, *, low: int = 0, high: int = _I64_MAX) -> int:
    if type(value) is not int or not low <= value <= high:
        raise RecordFormatError(f"{what}: expected an integer of {low} to {high}, got {str(value)[:80]}")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
        raise RecordFormatError(
            f"{what}: expected text of up to {TEXT_CHARS_MAX} characters, got {str(value)[:80]}"
        )
    return value


_Choice = TypeVar("_Choice", LogState, NameState)


def _choice(kind: type[_Choice], value: object, what: str) -> _Choice:
    try:
        return kind(_text(value, what))
    except ValueError as error:
        raise RecordFormatError(
            f"{what} {str(value)[:80]!r} is unknown to this release: upgrade dlog"
        ) from error
