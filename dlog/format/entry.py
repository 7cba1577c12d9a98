"""Bytes of one log entry: an envelope in front of a batch of messages. Pure.

    offset  size  field
    0       1     magic        0xD1; the low half is the version of this layout
    1       1     flags        bit 0: producer fields; bit 1: messages before; bit 2: producer snapshot;
                               any other bit is an error
    2       1     codec        0 none, 1 zstd frame, 2 lz4 block
    3       8     epoch        u64 big-endian, takeovers of the log so far
    11      4     count        u32, messages in the entry, at least 1
    15      8     append time  u64, microseconds since 1970; never falls along the log
    23      4     body bytes   u32, size of the messages before compression
    27      16    producer id             } only with flag bit 0
    43      8     first sequence  u64     }
    +0      8     messages before  u64, in the earlier entries of the ledger; only with flag bit 1
    +8      4     distance     u32, entries back to the newest snapshot of the ledger, 2^32 - 1 if it has
                               none; only with flag bit 2
    +12     4     producers    u32                             } only with flag bit 2 and distance 0: the
    +16     44 m  snapshot (dlog/format/producer_snapshot.py)  } snapshot is in this entry
    ...     n     messages (dlog/format/message.py), compressed as one block unless codec is 0

The fields of the flags follow one another in the order of their bits; `+0` is the end of those before it.

Invariant: integrity is the ledger's digest, which covers all of it; this decoder still trusts no count and no
length before it has checked it, and decompresses nothing past BODY_BYTES_MAX. Layout and history:
docs/formats.md. Pitfall: docs/pitfalls.md#half-a-batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from dlog.errors import EntryFormatError, MessageTooLargeError
from dlog.format.message import Buffer, Columns, Flat, decode_messages, encode_messages, encode_one
from dlog.format.producer_snapshot import PRODUCER_BYTES, PRODUCERS_MAX
from ledger.errors import MissingExtraError
from ledger.model import ENTRY_BYTES_MAX

MAGIC = 0xD1
_PRODUCER_FLAG = 0x01
_MESSAGES_BEFORE_FLAG = 0x02
_SNAPSHOT_FLAG = 0x04
_FLAGS = _PRODUCER_FLAG | _MESSAGES_BEFORE_FLAG | _SNAPSHOT_FLAG
_FIXED = struct.Struct(">BBBQIQI")
_PRODUCER = struct.Struct(">16sQ")
_MESSAGES_BEFORE = struct.Struct(">Q")
_COUNTED = struct.Struct(">BBBQIQIQ")
"""An envelope of an entry without producers."""
_UINT = struct.Struct(">I")

_MESSAGES_MAX = 2**63 - 1
"""In one ledger: what a signed 64-bit count holds. Bounds what a reader adds up."""

LEDGER_OVERHEAD_BYTES = 32 + 20
"""Ledger header and the largest digest (HMAC)."""
ENTRY_OVERHEAD_BYTES = (
    LEDGER_OVERHEAD_BYTES + _FIXED.size + _PRODUCER.size + _MESSAGES_BEFORE.size + 2 * _UINT.size
)
"""The most that an encoded entry has around its messages, without a snapshot of producers."""
BODY_BYTES_MAX = ENTRY_BYTES_MAX - LEDGER_OVERHEAD_BYTES - _FIXED.size - _PRODUCER.size
"""Most bytes of messages before compression that a reader accepts.

A writer keeps to ENTRY_BYTES_MAX - ENTRY_OVERHEAD_BYTES, which is less: entries of releases that did not write
`messages before` may have this many.
"""


class Codec(IntEnum):
    """Compression of an entry's messages; the values are those of the entry format (docs/formats.md)."""

    NONE = 0
    """No compression."""
    ZSTD = 1
    """Zstandard; needs the `compression` extra."""
    LZ4 = 2
    """LZ4 block; needs the `compression` extra."""


_NO_CODEC = int(Codec.NONE)


@dataclass(frozen=True, slots=True)
class ProducerMark:
    """Which producer sent the entry, and the sequence number of its first message."""

    producer_id: bytes
    first_sequence: int


ELSEWHERE = 2**32 - 1
"""The ledger has no snapshot and no entry of a producer: all is as at the end of the ledger before it."""


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """Where the newest snapshot of the log's producers is in the entry's ledger."""

    distance: int
    """How many entries before this one; 0: in this one; ELSEWHERE: not in this ledger."""
    snapshot: bytes | None = None
    """Its bytes (dlog/format/producer_snapshot.py), if it is in this entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The header before an entry's messages."""

    epoch: int
    count: int
    append_time_us: int
    body_bytes: int
    codec: Codec = Codec.NONE
    producer: ProducerMark | None = None
    messages_before: int | None = None
    """Messages in the earlier entries of the same ledger; None in entries of releases that did not count them."""
    producers: SnapshotPlace | None = None
    """None: when this entry was written, the log had no producers, and it is of none."""


# ---- encode


def encode_entry(
    columns: Columns,
    *,
    epoch: int,
    append_time_us: int,
    codec: Codec = Codec.NONE,
    producer: ProducerMark | None = None,
    messages_before: int | None = None,
    producers: SnapshotPlace | None = None,
) -> tuple[bytes, bytes]:
    """Envelope and body of an entry, to be stored one after the other (two pieces save a copy).

    The body is compressed only when that makes it smaller.

    Raises:
        MessageTooLargeError: the messages exceed BODY_BYTES_MAX.
        MissingExtraError: the codec's package is not installed.
    """
    return enclose(
        encode_messages(columns),
        len(columns.payloads),
        epoch=epoch,
        append_time_us=append_time_us,
        codec=codec,
        producer=producer,
        messages_before=messages_before,
        producers=producers,
    )


def encode_message(
    key: bytes | None,
    payload: bytes | None,
    headers: Flat,
    epoch: int,
    append_time_us: int,
    messages_before: int,
) -> bytes:
    """As `encode_entry`, for one message that is not compressed, without producers: many logs, one append each."""
    body = encode_one(key, payload, headers)
    if len(body) > BODY_BYTES_MAX:
        raise _too_large(len(body))
    return (
        _COUNTED.pack(
            MAGIC, _MESSAGES_BEFORE_FLAG, _NO_CODEC, epoch, 1, append_time_us, len(body), messages_before
        )
        + body
    )


def enclose(
    body: bytes,
    count: int,
    *,
    epoch: int,
    append_time_us: int,
    codec: Codec = Codec.NONE,
    producer: ProducerMark | None = None,
    messages_before: int | None = None,
    producers: SnapshotPlace | None = None,
) -> tuple[bytes, bytes]:
    """As `encode_entry`, for `count` messages that are encoded already (dlog/format/message.py)."""
    if len(body) > BODY_BYTES_MAX:
        raise _too_large(len(body))
    if codec is Codec.NONE and producer is None and producers is None and messages_before is not None:
        # In one step: this is what most entries are, and runs once for each.
        return _COUNTED.pack(
            MAGIC, _MESSAGES_BEFORE_FLAG, codec, epoch, count, append_time_us, len(body), messages_before
        ), body
    stored = body if codec is Codec.NONE else _COMPRESS[codec](body)
    if len(stored) >= len(body):
        codec, stored = Codec.NONE, body
    envelope = _pack_envelope(
        codec=codec,
        epoch=epoch,
        count=count,
        append_time_us=append_time_us,
        body_bytes=len(body),
        producer=producer,
        messages_before=messages_before,
        producers=producers,
    )
    return envelope, stored


def _too_large(body_bytes: int) -> MessageTooLargeError:
    return MessageTooLargeError(
        f"the messages take {body_bytes} bytes, the limit of an entry is {BODY_BYTES_MAX}: append fewer in one call",
        entry_bytes=body_bytes,
        entry_bytes_max=BODY_BYTES_MAX,
    )


def _pack_envelope(
    *,
    codec: Codec,
    epoch: int,
    count: int,
    append_time_us: int,
    body_bytes: int,
    producer: ProducerMark | None,
    messages_before: int | None,
    producers: SnapshotPlace | None,
) -> bytes:
    flags, fields = 0, b""
    if producer is not None:
        flags |= _PRODUCER_FLAG
        fields += _PRODUCER.pack(producer.producer_id, producer.first_sequence)
    if messages_before is not None:
        flags |= _MESSAGES_BEFORE_FLAG
        fields += _MESSAGES_BEFORE.pack(messages_before)
    if producers is not None:
        flags |= _SNAPSHOT_FLAG
        fields += _UINT.pack(producers.distance)
        if producers.snapshot is not None:
            assert not producers.distance, "a snapshot is in the entry that is 0 entries back"
            fields += _UINT.pack(len(producers.snapshot) // PRODUCER_BYTES) + producers.snapshot
    return _FIXED.pack(MAGIC, flags, codec, epoch, count, append_time_us, body_bytes) + fields


def moved_entry(entry: bytes, *, messages_before: int, producers: SnapshotPlace | None) -> bytes:
    """The same messages, to be stored in another ledger, where these fields are others."""
    envelope, stored = decode_envelope(entry)
    header = _pack_envelope(
        codec=envelope.codec,
        epoch=envelope.epoch,
        count=envelope.count,
        append_time_us=envelope.append_time_us,
        body_bytes=envelope.body_bytes,
        producer=envelope.producer,
        messages_before=messages_before,
        producers=producers,
    )
    return b"".join((header, stored))


# ---- decode


def decode_entry(entry: Buffer) -> tuple[Envelope, Columns]:
    """Decode the whole entry.

    Raises:
        EntryFormatError: the entry is damaged, or of an unknown format.
    """
    envelope, stored = decode_envelope(entry)
    body = stored if envelope.codec is Codec.NONE else _inflate(envelope, stored)
    if len(body) != envelope.body_bytes:
        raise EntryFormatError(
            f"the entry has {len(body)} bytes of messages, its envelope says {envelope.body_bytes}: it is damaged"
        )
    return envelope, decode_messages(body, envelope.count)


def decode_envelope(entry: Buffer) -> tuple[Envelope, memoryview]:
    """The envelope, and a view of the stored messages after it (not unpacked, not decompressed)."""
    view = memoryview(entry)
    _check_magic(view)
    if len(view) < _FIXED.size:
        raise EntryFormatError(
            f"entry has {len(view)} bytes, its envelope alone has {_FIXED.size}: it is truncated"
        )
    _, flags, codec, epoch, count, append_time_us, body_bytes = _FIXED.unpack_from(view)
    if flags & ~_FLAGS:
        raise EntryFormatError(
            f"entry has flags {flags:#04x}, version {MAGIC & 15} defines only {_FLAGS:#04x}: "
            "it was written by a newer version, or is damaged"
        )
    _check_claims(codec, count, body_bytes)
    at = _FIXED.size
    producer = messages_before = producers = None
    if flags & _PRODUCER_FLAG:
        producer = ProducerMark(*_unpack(_PRODUCER, view, at))
        at += _PRODUCER.size
    if flags & _MESSAGES_BEFORE_FLAG:
        [messages_before] = _unpack(_MESSAGES_BEFORE, view, at)
        at += _MESSAGES_BEFORE.size
        if messages_before + count > _MESSAGES_MAX:
            raise EntryFormatError(
                f"entry claims {messages_before} messages before its own {count}, "
                f"the limit of a ledger is {_MESSAGES_MAX}: it is damaged"
            )
    if flags & _SNAPSHOT_FLAG:
        producers, at = _decode_snapshot_place(view, at)
    envelope = Envelope(
        epoch=epoch,
        count=count,
        append_time_us=append_time_us,
        body_bytes=body_bytes,
        codec=Codec(codec),
        producer=producer,
        messages_before=messages_before,
        producers=producers,
    )
    return envelope, view[at:]


def _check_magic(view: memoryview) -> None:
    if not len(view):
        raise EntryFormatError("entry is empty: it is damaged, or not written by dlog")
    magic = view[0]
    if magic == MAGIC:
        return
    if magic >> 4 == MAGIC >> 4:
        raise EntryFormatError(
            f"entry has format version {magic & 15}, this program reads version {MAGIC & 15}: upgrade dlog",
            magic=magic,
        )
    raise EntryFormatError(
        f"entry starts with byte {magic:#04x}, a dlog entry starts with {MAGIC:#04x}: not a ledger of dlog",
        magic=magic,
    )


def _check_claims(codec: int, count: int, body_bytes: int) -> None:
    if codec > Codec.LZ4:
        raise EntryFormatError(
            f"entry has codec {codec}, this program supports 0 to {int(Codec.LZ4)}: upgrade dlog"
        )
    if body_bytes > BODY_BYTES_MAX:
        raise EntryFormatError(
            f"entry claims {body_bytes} bytes of messages, the limit is {BODY_BYTES_MAX}: it is damaged"
        )
    if not count:
        raise EntryFormatError("entry claims 0 messages, it must have at least 1: it is damaged")


def _unpack(fields: struct.Struct, view: memoryview, at: int) -> tuple[Any, ...]:
    end = at + fields.size
    if len(view) < end:
        raise EntryFormatError(f"entry has {len(view)} bytes, its envelope alone has {end}: it is truncated")
    return fields.unpack_from(view, at)


def _decode_snapshot_place(view: memoryview, at: int) -> tuple[SnapshotPlace, int]:
    [distance] = _unpack(_UINT, view, at)
    at += _UINT.size
    if distance:
        return SnapshotPlace(distance), at
    [count] = _unpack(_UINT, view, at)
    at += _UINT.size
    if count > PRODUCERS_MAX:
        raise EntryFormatError(
            f"entry claims a snapshot of {count} producers, the limit is {PRODUCERS_MAX}: it is damaged"
        )
    end = at + count * PRODUCER_BYTES
    if len(view) < end:
        raise EntryFormatError(f"entry has {len(view)} bytes, its envelope alone has {end}: it is truncated")
    return SnapshotPlace(0, bytes(view[at:end])), end


# ---- compression; the libraries are optional and loaded on first use


def _missing(codec: str, package: str) -> MissingExtraError:
    return MissingExtraError(f"codec {codec}", package, "compression")


def _compress_zstd(body: bytes) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise _missing("zstd", "zstandard") from error
    packed: bytes = zstandard.ZstdCompressor(level=1).compress(body)
    return packed


def _compress_lz4(body: bytes) -> bytes:
    try:
        import lz4.block
    except ImportError as error:
        raise _missing("lz4", "lz4") from error
    packed: bytes = lz4.block.compress(body, store_size=False)
    return packed


def _inflate(envelope: Envelope, stored: memoryview) -> bytes:
    return _INFLATE[envelope.codec](stored, envelope.body_bytes)


def _inflate_zstd(stored: memoryview, body_bytes: int) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise _missing("zstd", "zstandard") from error
    try:
        # The frame names its own size, which the library would allocate; so it is compared first.
        frame_bytes = zstandard.get_frame_parameters(stored).content_size
        if frame_bytes != body_bytes:
            raise EntryFormatError(
                f"the zstd frame has {frame_bytes} bytes, the entry's envelope says {body_bytes}: it is damaged"
            )
        body: bytes = zstandard.ZstdDecompressor(max_window_size=8 << 20).decompress(
            stored, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise EntryFormatError(f"entry cannot be decompressed ({error}): it is damaged") from error
    return body


def _inflate_lz4(stored: memoryview, body_bytes: int) -> bytes:
    try:
        import lz4.block
    except ImportError as error:
        raise _missing("lz4", "lz4") from error
    try:
        body: bytes = lz4.block.decompress(stored, uncompressed_size=body_bytes)
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise EntryFormatError(f"entry cannot be decompressed ({error}): it is damaged") from error
    return body


_COMPRESS: dict[Codec, Callable[[bytes], bytes]] = {Codec.ZSTD: _compress_zstd, Codec.LZ4: _compress_lz4}
_INFLATE: dict[Codec, Callable[[memoryview, int], bytes]] = {
    Codec.ZSTD: _inflate_zstd,
    Codec.LZ4: _inflate_lz4,
}
