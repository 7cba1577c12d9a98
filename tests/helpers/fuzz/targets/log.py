"""Bytes of the log: its record, entries and messages in every codec, message ids."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from dlog.errors import EntryFormatError, RecordFormatError
from dlog.format.cursor import decode_cursor, encode_cursor
from dlog.format.entry import (
    Codec,
    ProducerMark,
    SnapshotPlace,
    decode_entry,
    decode_envelope,
    encode_entry,
    moved_entry,
)
from dlog.format.history_page import decode_page, encode_page
from dlog.format.log_metadata import decode_name, decode_record, encode_name, encode_record
from dlog.format.message import Columns, columns_bytes, encode_messages, message_bytes
from dlog.format.owner_request import decode_request, encode_request
from dlog.format.producer_snapshot import PRODUCER_BYTES, decode_snapshot, encode_snapshot
from dlog.format.properties import decode_log_properties, encode_log_properties
from dlog.format.retention import decode_retention, encode_retention
from dlog.model import MessageId, check_log_name
from ledger.errors import ConfigurationError
from tests.helpers.fuzz.cutting import Cutter
from tests.helpers.fuzz.target import Target, plain
from tests.helpers.repository import ROOT

_decode_record: Callable[[bytes], Any] = decode_record.__wrapped__


def log_record(data: bytes) -> None:
    """First byte 0: a record as it is; 1: what follows the magic of a record, its CRC computed here.

    2: the same of a name; 3: of a page; 4: of a cursor; 5: of a retention; 7: of a request; 6: of properties.
    """
    kind, value = data[:1], data[1:]
    letter, decode, encode = _VALUES.get(kind, (b"", _decode_record, encode_record))
    if letter:
        value = _sealed(b"DLG" + letter + value)
    try:
        found = decode(value)
    except RecordFormatError:
        return
    assert encode(found) == value


_VALUES: dict[bytes, tuple[bytes, Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    b"\1": (b"R", _decode_record, encode_record),
    b"\2": (b"N", decode_name, encode_name),
    b"\3": (b"P", decode_page, encode_page),
    b"\6": (b"U", decode_log_properties, encode_log_properties),
    b"\5": (b"T", decode_retention, encode_retention),
    b"\7": (b"Q", decode_request, encode_request),
    b"\4": (b"C", partial(decode_cursor, "billing"), encode_cursor),
}


def _sealed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "big")


# ---- entries


def log_entry(data: bytes) -> None:
    """A batch that was decoded encodes to the bytes it came from."""
    try:
        envelope, columns = decode_entry(data)
    except EntryFormatError:
        _envelope_alone(data)
        return
    assert len(columns.keys) == len(columns.payloads) == len(columns.headers) == envelope.count
    assert columns_bytes(columns) == envelope.body_bytes
    assert envelope.body_bytes == sum(map(message_bytes, columns.keys, columns.payloads, columns.headers))
    if envelope.codec is Codec.NONE:
        assert b"".join(_encoded(envelope, columns)) == data
    else:
        assert decode_entry(b"".join(_encoded(envelope, columns))) == (envelope, columns) or _smaller(columns)


def uncompressed_entry(data: bytes) -> None:
    """The same within the memory that the input's size allows: no known codec but none."""
    log_entry(data[:2] + b"\0" + data[3:] if data[2:3] in (b"\1", b"\2") else data)


def _encoded(envelope: Any, columns: Columns) -> tuple[bytes, bytes]:
    return encode_entry(
        columns,
        epoch=envelope.epoch,
        append_time_us=envelope.append_time_us,
        codec=envelope.codec,
        producer=envelope.producer,
        messages_before=envelope.messages_before,
        producers=envelope.producers,
    )


def _smaller(columns: Columns) -> bool:
    """Messages that compression does not make smaller are stored as they are, by us if not by others."""
    return len(encode_messages(columns)) < 10_000


def _envelope_alone(data: bytes) -> None:
    try:
        decode_envelope(data)
    except EntryFormatError:
        return


def written_entry(data: bytes) -> None:
    """Messages built from the input come back as they were, in each codec."""
    cutter = Cutter(data)
    codec, marked = Codec(cutter.below(3)), cutter.below(4)
    columns = _columns(cutter)
    producer = ProducerMark(bytes(16), 2**63) if marked & 1 else None
    before = cutter.number(8) >> 1 if marked & 2 else None
    pieces = encode_entry(
        columns, epoch=3, append_time_us=5, codec=codec, producer=producer, messages_before=before
    )
    try:
        envelope, found = decode_entry(b"".join(pieces))
    except EntryFormatError:
        assert before is not None and before + len(columns.payloads) >= 2**63
        return
    place = SnapshotPlace(0, cutter.take(2 * PRODUCER_BYTES).ljust(2 * PRODUCER_BYTES, b"\0"))
    entry = moved_entry(b"".join(pieces), messages_before=7, producers=place)
    assert decode_entry(entry) == (replace(envelope, messages_before=7, producers=place), found)
    assert found == columns
    assert (envelope.producer, envelope.messages_before, envelope.epoch) == (producer, before, 3)
    damaged = bytearray(entry)
    damaged[cutter.number(2) % len(entry)] ^= cutter.number() or 1
    log_entry(bytes(damaged))


def _columns(cutter: Cutter) -> Columns:
    keys: list[bytes | None] = []
    payloads: list[bytes | None] = []
    headers: list[tuple[bytes, ...]] = []
    for _ in range(1 + cutter.below(20)):
        shape = cutter.number()
        keys.append(cutter.take(cutter.below(40)) if shape & 1 else None)
        payloads.append(cutter.take(cutter.below(300)) * (1 + 9 * (shape >> 7)) if shape & 2 else None)
        headers.append(tuple(cutter.take(cutter.below(20)) for _ in range(2 * (shape >> 2 & 15))))
    return Columns(tuple(keys), tuple(payloads), tuple(headers))


def producer_snapshot(data: bytes) -> None:
    """What was decoded encodes to the same bytes."""
    try:
        found = decode_snapshot(data)
    except EntryFormatError:
        return
    assert encode_snapshot(found) == data


# ---- ids and names


def message_id(data: bytes) -> None:
    """As in `--from` and in files; a valid text is printed as it is but for zeros before a number."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        found = MessageId.parse(text)
    except ConfigurationError:
        pass
    else:
        assert MessageId.parse(str(found)) == found
        assert MessageId.from_bytes(found.to_bytes()) == found
    try:
        assert MessageId.from_bytes(data).to_bytes() == data
    except ConfigurationError:
        assert len(data) != 20
    try:
        assert check_log_name(text) == text
    except ConfigurationError:
        return


# ---- inputs to start from


@cache
def _golden_entries() -> list[bytes]:
    found = json.loads((ROOT / "tests" / "vectors" / "dlog" / "entries.json").read_text("utf-8"))
    return [bytes.fromhex(each["hex"]) for each in found["entries"]]


def _plain_entries() -> Iterator[bytes]:
    yield from (entry for entry in _golden_entries() if entry[2] == 0 and len(entry) < 2000)


def _compressed() -> Iterator[bytes]:
    yield from (entry for entry in _golden_entries() if entry[2] and len(entry) < 2000)
    columns = Columns([None] * 50, [b"the same payload " * 3] * 50, [()] * 50)
    for codec in (Codec.ZSTD, Codec.LZ4):
        yield b"".join(encode_entry(columns, epoch=1, append_time_us=2, codec=codec))


def _snapshots() -> Iterator[bytes]:
    yield b""
    for entry in _golden_entries():
        place = decode_envelope(entry)[0].producers
        if place is not None and place.snapshot is not None:
            yield place.snapshot


_GOLDEN = {
    "log_record_v1": 1,
    "log_record_v2": 1,
    "log_record_v3": 1,
    "log_name_v1": 2,
    "log_page_ledgers_v1": 3,
    "log_page_index_v1": 3,
    "log_cursor_v1": 4,
    "log_retention_v1": 5,
    "log_request_v1": 7,
    "log_properties_v1": 6,
    "log_cursor_removed_v1": 4,
}


def _records() -> Iterator[bytes]:
    golden = ROOT / "tests" / "unit" / "dlog" / "golden"
    for name, kind in _GOLDEN.items():
        value = bytes.fromhex((golden / f"{name}.hex").read_text("utf-8"))
        yield bytes([0]) + value
        yield bytes([kind]) + value[4:-4]


_IDS = (b"17:420:3", b"0:0:0", b"9223372036854775807:9223372036854775807:2147483647", bytes(20), b"orders.v2")

TARGETS = [
    Target(
        name="log-records",
        session=plain(log_record),
        corpus=_records,
        memory_base=512 * 1024,  # each call of msgpack's packb reserves 256 KiB
    ),
    Target(name="log-entries", session=plain(uncompressed_entry), corpus=_plain_entries),
    Target(
        name="compressed-entries",
        session=plain(log_entry),
        corpus=_compressed,
        memory_base=96
        << 20,  # what is compressed may be an entry's limit of a mebibyte, of messages of 5 bytes
    ),
    Target(
        name="written-entries",
        session=plain(written_entry),
        corpus=lambda: (bytes(8), b"\x01\x01\x02\xff\x05aaaaa\x03bbb", bytes(range(64)) * 4),
        memory_base=96 << 20,
    ),
    Target(name="producer-snapshots", session=plain(producer_snapshot), corpus=_snapshots),
    Target(name="message-ids", session=plain(message_id), corpus=lambda: _IDS, input_bytes_max=128),
]
