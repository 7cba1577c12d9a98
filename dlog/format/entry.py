"""Bytes of one log entry: an envelope in front of a batch of messages. Pure.

    offset  size  field
    0       1     magic        0xD1; the low half is the version of this layout
    1       1     flags        bit 0: producer fields follow; any other bit is an error
    2       1     codec        0 none, 1 zstd frame, 2 lz4 block
    3       8     epoch        u64 big-endian, takeovers of the log so far
    11      4     count        u32, messages in the entry, at least 1
    15      8     append time  u64, microseconds since 1970; never falls along the log
    23      4     body bytes   u32, size of the messages before compression
    27      16    producer id             } only with flag bit 0
    43      8     first sequence  u64     }
    27|51   n     messages (dlog/format/message.py), compressed as one block unless codec is 0

Invariant: integrity is the ledger's digest, which covers all of it; this decoder still trusts no count and no
length before it has checked it, and decompresses nothing past BODY_BYTES_MAX. Layout and history:
docs/formats.md. Pitfall: docs/pitfalls.md#half-a-batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from dlog.errors import EntryFormatError, MessageTooLargeError
from dlog.format.message import Buffer, Columns, decode_messages, encode_messages
from ledger.errors import MissingExtraError
from ledger.model import ENTRY_BYTES_MAX

MAGIC = 0xD1
_PRODUCER_FLAG = 0x01
_FIXED = struct.Struct(">BBBQIQI")
_PRODUCER = struct.Struct(">16sQ")

LEDGER_OVERHEAD_BYTES = 32 + 20
"""Ledger header and the largest digest (HMAC)."""
ENTRY_OVERHEAD_BYTES = LEDGER_OVERHEAD_BYTES + _FIXED.size + _PRODUCER.size
"""The most that an encoded entry has around its messages."""
BODY_BYTES_MAX = ENTRY_BYTES_MAX - ENTRY_OVERHEAD_BYTES
"""Messages of one entry before compression: such an entry is legal without compression, too."""


class Codec(IntEnum):
    """Compression of an entry's messages; the values are those of the entry format (docs/formats.md)."""

    NONE = 0
    """No compression."""
    ZSTD = 1
    """Zstandard; needs the `compression` extra."""
    LZ4 = 2
    """LZ4 block; needs the `compression` extra."""


@dataclass(frozen=True, slots=True)
class ProducerMark:
    """Which producer sent the entry, and the sequence number of its first message."""

    producer_id: bytes
    first_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The header before an entry's messages."""

    epoch: int
    count: int
    append_time_us: int
    body_bytes: int
    codec: Codec = Codec.NONE
    producer: ProducerMark | None = None


# ---- encode


def encode_entry(
    columns: Columns,
    *,
    epoch: int,
    append_time_us: int,
    codec: Codec = Codec.NONE,
    producer: ProducerMark | None = None,
) -> tuple[bytes, bytes]:
    """Envelope and body of an entry, to be stored one after the other (two pieces save a copy).

    The body is compressed only when that makes it smaller.

    Raises:
        MessageTooLargeError: the messages exceed BODY_BYTES_MAX.
        MissingExtraError: the codec's package is not installed.
    """
    body = encode_messages(columns)
    if len(body) > BODY_BYTES_MAX:
        raise MessageTooLargeError(
            f"the messages take {len(body)} bytes, the limit of an entry is {BODY_BYTES_MAX}: append fewer in one call",
            entry_bytes=len(body),
            entry_bytes_max=BODY_BYTES_MAX,
        )
    stored = body if codec is Codec.NONE else _COMPRESS[codec](body)
    if len(stored) >= len(body):
        codec, stored = Codec.NONE, body
    flags = 0 if producer is None else _PRODUCER_FLAG
    count = len(columns.payloads)
    envelope = _FIXED.pack(MAGIC, flags, codec, epoch, count, append_time_us, len(body))
    if producer is not None:
        envelope += _PRODUCER.pack(producer.producer_id, producer.first_sequence)
    return envelope, stored


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
    if flags & ~_PRODUCER_FLAG:
        raise EntryFormatError(
            f"entry has flags {flags:#04x}, version {MAGIC & 15} defines only {_PRODUCER_FLAG:#04x}: "
            "it was written by a newer version, or is damaged"
        )
    _check_claims(codec, count, body_bytes)
    producer, body_at = _decode_producer(view) if flags else (None, _FIXED.size)
    envelope = Envelope(
        epoch=epoch,
        count=count,
        append_time_us=append_time_us,
        body_bytes=body_bytes,
        codec=Codec(codec),
        producer=producer,
    )
    return envelope, view[body_at:]


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


def _decode_producer(view: memoryview) -> tuple[ProducerMark, int]:
    end = _FIXED.size + _PRODUCER.size
    if len(view) < end:
        raise EntryFormatError(f"entry has {len(view)} bytes, its envelope alone has {end}: it is truncated")
    producer_id, first_sequence = _PRODUCER.unpack_from(view, _FIXED.size)
    return ProducerMark(producer_id, first_sequence), end


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
