"""Ledger metadata ↔ bytes: BookKeeper's formats 1, 2 and 3. Pure.

    format 3   header, varint length, LedgerMetadataFormat as protobuf
    format 2   header, the same message as protobuf text, without cToken
    format 1   header, lines: write quorum, ensemble size, length, one per fragment, an end mark if not OPEN

The header is `BookieMetadataFormatVersion<TAB>N<LF>`. A ledger is rewritten in the format it was created
with. Invariant: a format 3 value that we accept encodes to exactly the bytes it came from, so that a rewrite loses
nothing; and every malformed value raises MetadataFormatError, nothing else.

Protocol: docs/bookkeeper.md#metadata-formats. Table: docs/formats.md, Metadata values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from google.protobuf.message import DecodeError

from ledger.errors import ConfigurationError, MetadataFormatError
from ledger.metadata.format import ledger_version_1
from ledger.metadata.format.data_formats_pb2 import LedgerMetadataFormat
from ledger.metadata.proto_text import parse_text, print_text
from ledger.model import (
    LEDGER_ID_MAX,
    DigestType,
    EntryId,
    Fragment,
    LedgerMetadata,
    LedgerState,
    QuorumSizes,
    check_bookie_id,
)

HEADER = b"BookieMetadataFormatVersion\t"
FORMAT_VERSIONS = (1, 2, 3)
LEDGER_METADATA_BYTES_MAX = 1024 * 1024 - 1024
"""Refused above this before parsing. A ZooKeeper node cannot hold more than 1 MiB with its envelope."""

_DECODED_KEPT = 32
_ALWAYS_WRITTEN = ("lastEntryId", "digestType", "password", "ackQuorumSize")


def encode_ledger_metadata(metadata: LedgerMetadata) -> bytes:
    """Bytes in the value's own format; format 1 has no room for digest, password and custom metadata."""
    header = HEADER + b"%d\n" % metadata.format_version
    match metadata.format_version:
        case 3:
            body = _message(metadata).SerializeToString()
            return header + _varint(len(body)) + body
        case 2:
            return header + print_text(_message(metadata)).encode()
        case 1:
            return header + ledger_version_1.encode_body(metadata)
        case version:
            raise MetadataFormatError(f"ledger metadata format {version} cannot be written, 1 to 3 can")


@lru_cache(maxsize=_DECODED_KEPT)
def decode_ledger_metadata(data: bytes) -> LedgerMetadata:
    """The value that `data` holds, or MetadataFormatError.

    Of the values decoded last the results are kept: who follows a ledger reads the same ones again and again.
    """
    if len(data) > LEDGER_METADATA_BYTES_MAX:
        raise MetadataFormatError(
            f"ledger metadata of {len(data)} bytes is larger than the limit of {LEDGER_METADATA_BYTES_MAX}"
        )
    version, body = _split_header(data)
    try:
        match version:
            case 3:
                return _decode_3(data, body)
            case 2:
                return _decode_2(body)
            case _:
                return _checked(ledger_version_1.decode_body(body))
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise MetadataFormatError(f"ledger metadata holds an impossible value: {error}") from error


def rewritten(metadata: LedgerMetadata) -> LedgerMetadata:
    """The value as a rewrite stores it: BookKeeper resets the cToken, which names one create only."""
    return replace(metadata, c_token=0) if metadata.format_version == 3 else metadata


def _split_header(data: bytes) -> tuple[int, bytes]:
    end = data.find(b"\n", 0, len(HEADER) + 11)
    digits = data[len(HEADER) : end]
    if not data.startswith(HEADER) or end < 0 or not digits.isdigit():
        raise MetadataFormatError(f"ledger metadata does not start with its format version: {data[:40]!r}")
    if (version := int(digits)) not in FORMAT_VERSIONS:
        newest = max(FORMAT_VERSIONS)
        raise MetadataFormatError(
            f"it has format {version}, this program reads 1 to {newest}",
            newer_version=version if version > newest else None,
        )
    return version, data[end + 1 :]


def _decode_3(data: bytes, body: bytes) -> LedgerMetadata:
    length, start = _read_varint(body)
    if length != len(body) - start:
        raise MetadataFormatError(f"ledger metadata names {length} bytes and holds {len(body) - start}")
    message = LedgerMetadataFormat()
    try:
        message.ParseFromString(body[start:])
    except DecodeError as error:
        raise MetadataFormatError(f"ledger metadata is not a protobuf message: {error}") from error
    _require(message, _ALWAYS_WRITTEN)
    metadata = _metadata(message, format_version=3)
    if encode_ledger_metadata(metadata) != data:
        # Refused rather than read in part: what we do not know would be lost with the next rewrite.
        raise MetadataFormatError("ledger metadata holds fields or an order that this version cannot keep")
    return metadata


def _decode_2(body: bytes) -> LedgerMetadata:
    message = LedgerMetadataFormat()
    parse_text(body.decode(), message, "ledger metadata")
    _require(message, ())
    return _metadata(message, format_version=2)


def _require(message: LedgerMetadataFormat, names: Iterable[str]) -> None:
    # Without digest type (very old ledgers) the protobuf default CRC32 stands, as in format 1.
    missing = [name for name in names if not message.HasField(name)]
    if missing or not message.IsInitialized():
        raise MetadataFormatError(f"ledger metadata lacks {', '.join(missing) or 'a required field'}")
    if message.HasField("password") and not message.HasField("digestType"):
        raise MetadataFormatError("ledger metadata has a password and no digest type")


def _metadata(message: LedgerMetadataFormat, format_version: int) -> LedgerMetadata:
    return _checked(
        LedgerMetadata(
            quorum=QuorumSizes(
                ensemble=message.ensembleSize,
                write=message.quorumSize,
                ack=message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize,
            ),
            fragments=tuple(
                _fragment(segment.firstEntryId, (member.decode() for member in segment.ensembleMember))
                for segment in message.segment
            ),
            state=LedgerState(message.state),
            last_entry=EntryId(message.lastEntryId if message.HasField("lastEntryId") else -1),
            length=message.length,
            digest_type=DigestType(message.digestType),
            password=message.password,
            custom=tuple((item.key.decode(), item.value) for item in message.customMetadata),
            created_ms=message.ctime if message.HasField("ctime") else None,
            c_token=message.cToken if message.HasField("cToken") else None,
            format_version=format_version,
        )
    )


def _fragment(first_entry: int, members: Iterable[str]) -> Fragment:
    return Fragment(EntryId(first_entry), tuple(check_bookie_id(member) for member in members))


def _checked(metadata: LedgerMetadata) -> LedgerMetadata:
    """Rules beyond those of the model, which every writer keeps."""
    if metadata.fragments[0].first_entry != 0:
        raise MetadataFormatError(
            f"the first fragment must start at entry 0, not at {metadata.fragments[0].first_entry}"
        )
    if not -1 <= metadata.last_entry < LEDGER_ID_MAX or metadata.length < 0:
        raise MetadataFormatError(
            f"last entry {metadata.last_entry} and length {metadata.length} are not those of a ledger"
        )
    return metadata


def _message(metadata: LedgerMetadata) -> LedgerMetadataFormat:
    message = LedgerMetadataFormat(
        quorumSize=metadata.quorum.write,
        ensembleSize=metadata.quorum.ensemble,
        length=metadata.length,
        lastEntryId=metadata.last_entry,
        state=metadata.state.name,
        digestType=metadata.digest_type.name,
        password=metadata.password,
        ackQuorumSize=metadata.quorum.ack,
    )
    for part in metadata.fragments:
        members = [member.encode() for member in part.ensemble]
        message.segment.add(ensembleMember=members, firstEntryId=part.first_entry)
    for name, value in metadata.custom:
        message.customMetadata.add(key=name.encode(), value=value)
    if metadata.created_ms is not None:
        message.ctime = metadata.created_ms
    if metadata.c_token is not None and metadata.format_version == 3:
        message.cToken = metadata.c_token
    return message


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    """(value, bytes taken). Four bytes are enough: the size limit has been checked."""
    value = 0
    for index, byte in enumerate(data[:4]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, index + 1
    raise MetadataFormatError("ledger metadata ends inside its length")
