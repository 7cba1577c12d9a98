"""Keys, entry digests and explicit-LAC packets. Pure; docs/bookkeeper.md#digests, #master-key.

    type    bytes  value
    HMAC    20     HMAC-SHA1 under SHA1("mac" + password)
    CRC32   8      zlib's CRC-32 as an unsigned long
    CRC32C  4      CRC-32C as an unsigned int
    DUMMY   0

Covered are the 32 header bytes and the payload, as one stream. An explicit-LAC packet is ledger id, lac and
the digest of those 16 bytes.
"""

import hashlib
import hmac
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import ClassVar, TypeAlias

from ledger.errors import DigestMismatchError
from ledger.model import DigestType
from ledger.wire.crc32c import extend as extend_crc32c
from ledger.wire.entry import ENTRY_HEADER, ENTRY_HEADER_BYTES, Buffer, EntryHeader

OpenedEntry: TypeAlias = tuple[int, int, bytes]
"""LAC, length of the ledger, and payload of an entry that proved right."""

_LAC_PACKET = Struct(">qq")
_CRC32 = Struct(">Q")
_CRC32C = Struct(">I")
_HEADER_AND_CRC32C = Struct(">qqqqI")
"""Entry header and CRC32C."""


def master_key(password: bytes) -> bytes:
    """The 20 bytes that open a ledger on a bookie, the same for every digest type."""
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


class Digester(ABC):
    """Makes and verifies the digests of entries of ledgers of one digest type and password."""

    size: ClassVar[int]
    """Bytes of a digest."""

    @abstractmethod
    def digest(self, parts: Iterable[Buffer]) -> bytes:
        """Digest of the concatenated `parts`, `size` bytes."""

    @property
    def overhead_bytes(self) -> int:
        """Bytes of an entry before its payload."""
        return ENTRY_HEADER_BYTES + self.size

    def header_and_digest(
        self, ledger_id: int, entry_id: int, lac: int, length: int, payload_parts: Sequence[Buffer]
    ) -> bytes:
        """Header and digest of an entry: what goes on the wire before its payload."""
        header = ENTRY_HEADER.pack(ledger_id, entry_id, lac, length)
        return header + self.digest((header, *payload_parts))

    def verify(self, entry: Buffer, ledger_id: int, entry_id: int | None) -> EntryHeader:
        """The header of `entry`, once digest, ledger id and (unless None) entry id are proved right.

        Without an entry id its LAC has to be below it, as any writer sends it: what is asked for is the LAC.
        DigestMismatchError otherwise. The payload starts at `overhead_bytes`.
        """
        payload_start = ENTRY_HEADER_BYTES + self.size
        if len(entry) < payload_start:
            raise _mismatch(
                f"is {len(entry)} bytes and needs {payload_start} before its payload", ledger_id, entry_id
            )
        view = memoryview(entry)
        expected = self.digest((view[:ENTRY_HEADER_BYTES], view[payload_start:]))
        if not hmac.compare_digest(expected, view[ENTRY_HEADER_BYTES:payload_start]):
            raise _mismatch("does not match its digest", ledger_id, entry_id)
        header = EntryHeader._make(ENTRY_HEADER.unpack_from(view))
        if header.ledger_id != ledger_id or (entry_id is not None and header.entry_id != entry_id):
            raise _mismatch(f"calls itself {header.ledger_id}:{header.entry_id}", ledger_id, entry_id)
        if entry_id is None and header.lac >= header.entry_id:
            raise _mismatch(f"has LAC {header.lac} in the header of entry {header.entry_id}", ledger_id, None)
        return header

    def open_entry(self, block: bytes, start: int, end: int, ledger_id: int, entry_id: int) -> OpenedEntry:
        """What the entry in block[start:end] holds, proved right as by `verify`. DigestMismatchError.

        The way for many small entries: slices of bytes cost less than slices of views.
        """
        entry = block[start:end]
        header = self.verify(entry, ledger_id, entry_id)
        return header.lac, header.length, entry[self.overhead_bytes :]

    @property
    def lac_packet_bytes(self) -> int:
        """Bytes of an explicit-LAC packet."""
        return _LAC_PACKET.size + self.size

    def lac_packet(self, ledger_id: int, lac: int) -> bytes:
        """Body of an explicit-LAC write."""
        packet = _LAC_PACKET.pack(ledger_id, lac)
        return packet + self.digest((packet,))

    def verify_lac_packet(self, ledger_id: int, packet: Buffer) -> int:
        """The lac in `packet`; DigestMismatchError unless digest and ledger id are right."""
        end = _LAC_PACKET.size + self.size
        if len(packet) < end:
            raise _mismatch(f"has a lac packet of {len(packet)} bytes, {end} are needed", ledger_id, None)
        view = memoryview(packet)
        if not hmac.compare_digest(self.digest((view[: _LAC_PACKET.size],)), view[_LAC_PACKET.size : end]):
            raise _mismatch("has a lac packet that does not match its digest", ledger_id, None)
        found_id, lac = _LAC_PACKET.unpack_from(view)
        if found_id != ledger_id:
            raise _mismatch(f"has a lac packet of ledger {found_id}", ledger_id, None)
        return int(lac)


class Crc32cDigester(Digester):
    """The default. Its hot paths make one call per step, because their cost is paid for every entry."""

    size = 4

    def digest(self, parts: Iterable[Buffer]) -> bytes:
        return _CRC32C.pack(extend_crc32c(0, b"".join(parts)))

    def header_and_digest(
        self, ledger_id: int, entry_id: int, lac: int, length: int, payload_parts: Sequence[Buffer]
    ) -> bytes:
        header = ENTRY_HEADER.pack(ledger_id, entry_id, lac, length)
        # A join of one bytes object is that object, so a payload in one piece is not copied.
        return header + _CRC32C.pack(extend_crc32c(extend_crc32c(0, header), b"".join(payload_parts)))

    def lac_packet(self, ledger_id: int, lac: int) -> bytes:
        packet = _LAC_PACKET.pack(ledger_id, lac)
        return packet + _CRC32C.pack(extend_crc32c(0, packet))

    def verify(self, entry: Buffer, ledger_id: int, entry_id: int | None) -> EntryHeader:
        if len(entry) < _HEADER_AND_CRC32C.size:
            return super().verify(entry, ledger_id, entry_id)
        found_ledger, found_entry, lac, length, digest = _HEADER_AND_CRC32C.unpack_from(entry)
        covered = b"".join((entry[:ENTRY_HEADER_BYTES], entry[_HEADER_AND_CRC32C.size :]))
        if (
            extend_crc32c(0, covered) != digest
            or found_ledger != ledger_id
            or (lac >= found_entry if entry_id is None else found_entry != entry_id)
        ):
            return super().verify(entry, ledger_id, entry_id)  # raises, with the reason
        return EntryHeader(found_ledger, found_entry, lac, length)

    def open_entry(self, block: bytes, start: int, end: int, ledger_id: int, entry_id: int) -> OpenedEntry:
        if end - start < _HEADER_AND_CRC32C.size:
            return super().open_entry(block, start, end, ledger_id, entry_id)
        found_ledger, found_entry, lac, length, digest = _HEADER_AND_CRC32C.unpack_from(block, start)
        payload = block[start + _HEADER_AND_CRC32C.size : end]
        header = block[start : start + ENTRY_HEADER_BYTES]
        if (
            extend_crc32c(extend_crc32c(0, header), payload) != digest
            or found_ledger != ledger_id
            or found_entry != entry_id
        ):
            return super().open_entry(block, start, end, ledger_id, entry_id)  # raises, with the reason
        return lac, length, payload


class Crc32Digester(Digester):
    size = 8

    def digest(self, parts: Iterable[Buffer]) -> bytes:
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        return _CRC32.pack(crc)


class HmacDigester(Digester):
    size = 20

    def __init__(self, password: bytes) -> None:
        key = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()
        self._keyed = hmac.new(key, digestmod=hashlib.sha1)

    def digest(self, parts: Iterable[Buffer]) -> bytes:
        state = self._keyed.copy()
        for part in parts:
            state.update(part)
        return state.digest()


class DummyDigester(Digester):
    size = 0

    def digest(self, parts: Iterable[Buffer]) -> bytes:
        return b""


def make_digester(digest_type: DigestType, password: bytes) -> Digester:
    """The digester of a ledger; only HMAC depends on the password."""
    match digest_type:
        case DigestType.CRC32C:
            return Crc32cDigester()
        case DigestType.CRC32:
            return Crc32Digester()
        case DigestType.HMAC:
            return HmacDigester(password)
        case DigestType.DUMMY:
            return DummyDigester()


def _mismatch(what: str, ledger_id: int, entry_id: int | None) -> DigestMismatchError:
    name = f"ledger {ledger_id}" if entry_id is None else f"entry {ledger_id}:{entry_id}"
    return DigestMismatchError(f"{name} {what}", ledger_id=ledger_id, entry_id=entry_id)
