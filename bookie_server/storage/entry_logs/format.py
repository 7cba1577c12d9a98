"""Bytes of an entry log: a header and blocks of entries of one ledger. Pure: no files are opened here.

    file header, 64 bytes
    offset  size  field
    0       8     magic        "DLOGELOG"
    8       4     version      u32 big-endian, like all numbers here
    12      4     crc          CRC32C of the other 60 bytes
    16      8     log id       u64, the number in the file's name
    24      40    zeros

    block
    0       4     magic        "EBLK"
    4       4     crc          CRC32C of log id (u64), offset of this block (u64), bytes 8 to the end
    8       8     ledger id    i64
    16      8     first entry  i64
    24      8     last entry   i64
    32      4     count        u32
    36      4     body bytes   u32
    40      4n    lengths      count times u32
    40+4n   ...   entries as stored, ascending ids, one after the other

The CRC starts from where the block lies, so a block read from a wrong place, or from a file that was swapped
with another, is as wrong as a flipped bit. Ids are dense if count is last - first + 1; else each id is read
from its entry (bytes 8-15). One block is the unit of reading: larger costs more for one random read, smaller
needs more index records.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from bookie_server.errors import BlockDamagedError, IndexVersionError, StorageError
from bookie_server.file_header import is_intact, with_crc
from bookie_server.storage.stored_entry import StoredEntry
from ledger.wire.crc32c import crc32c
from ledger.wire.entry import STORED_BYTES_MIN

SUFFIX = ".log"
MAGIC = b"DLOGELOG"
VERSION = 1
FILE_HEADER_BYTES = 64
BLOCK_HEADER_BYTES = 40

_FILE_HEADER = struct.Struct(">8sIIQ40x")
BLOCK_MAGIC = b"EBLK"
_BLOCK_HEADER = struct.Struct(">4sIqqqII")
_BLOCK_FACTS = struct.Struct(">qqqII")
BLOCK_FACTS_BYTES = _BLOCK_FACTS.size
"""Ledger id to body bytes, of a block in an entry log or in a journal file."""
_FACTS_START = BLOCK_HEADER_BYTES - BLOCK_FACTS_BYTES
_PLACE = struct.Struct(">QQ")
_ID = struct.Struct(">q")


def file_name(log_id: int) -> str:
    return f"{log_id:016x}{SUFFIX}"


def encode_file_header(log_id: int) -> bytes:
    return with_crc(_FILE_HEADER.pack(MAGIC, VERSION, 0, log_id))


def require_known_version(data: bytes, path: object) -> None:
    """IndexVersionError if a newer version wrote this header; what else may be wrong with it shows when it is read."""
    if len(data) < FILE_HEADER_BYTES or data[:8] != MAGIC:
        return
    _, version, _, _ = _FILE_HEADER.unpack_from(data)
    if version > VERSION and is_intact(data[:FILE_HEADER_BYTES]):
        raise IndexVersionError(
            f"entry log {path} has version {version}, this bookie reads up to {VERSION}: start a newer version",
            version=version,
            version_max=VERSION,
        )


def check_file_header(data: bytes, log_id: int, path: object) -> None:
    """BlockDamagedError unless this is the header of that log; StorageError if a newer version wrote it."""
    if len(data) < FILE_HEADER_BYTES or data[:8] != MAGIC:
        raise BlockDamagedError(f"{path} is not an entry log: its header is missing", path=path)
    _, version, _, found_id = _FILE_HEADER.unpack_from(data)
    if not is_intact(data[:FILE_HEADER_BYTES]) or found_id != log_id:
        raise BlockDamagedError(
            f"the header of entry log {path} is damaged, or belongs to log {found_id}", path=path
        )
    if version > VERSION:
        raise StorageError(
            f"entry log {path} has version {version}, this bookie reads up to {VERSION}: start a newer version",
            path=path,
        )


def block_bytes(count: int, body_bytes: int) -> int:
    return BLOCK_HEADER_BYTES + 4 * count + body_bytes


def encode_block(
    log_id: int, offset: int, ledger_id: int, ids: Sequence[int], entries: Sequence[StoredEntry]
) -> tuple[bytes, bytes]:
    """The block of these entries for this place, as head and body, so that no entry is copied twice; ids ascend."""
    body = b"".join(entries)
    facts = encode_facts(ledger_id, ids, entries, len(body))
    crc = crc32c(body, crc32c(facts, crc32c(_PLACE.pack(log_id, offset))))
    return b"".join((BLOCK_MAGIC, crc.to_bytes(4, "big"), facts)), body


def encode_facts(
    ledger_id: int, ids: Sequence[int], entries: Sequence[StoredEntry], body_bytes: int
) -> bytes:
    """What stands before the entries of a block: bytes 8 to 40 and the lengths. `body_bytes`: of all entries."""
    facts = _BLOCK_FACTS.pack(ledger_id, ids[0], ids[-1], len(ids), body_bytes)
    return facts + struct.pack(f">{len(entries)}I", *map(len, entries))


class Block:
    """A block that proved intact. Entries are slices of its bytes."""

    __slots__ = ("_data", "_ends", "first", "ids", "last", "ledger_id", "size")

    def __init__(
        self,
        data: memoryview,
        ledger_id: int,
        first: int,
        last: int,
        ends: Sequence[int],
        ids: Sequence[int],
        *,
        size: int,
    ) -> None:
        """`size`: of the block on disk, or of the journal record that it is."""
        self._data = data
        self._ends = ends
        self.ledger_id = ledger_id
        self.first = first
        self.last = last
        self.ids = ids
        self.size = size

    def entry(self, entry_id: int) -> memoryview | None:
        """The entry as stored, None if it is not in this block."""
        index = bisect_left(self.ids, entry_id)
        if index == len(self.ids) or self.ids[index] != entry_id:
            return None
        return self._data[self._ends[index] : self._ends[index + 1]]

    def consecutive(self, entry_id: int, count_max: int) -> Sequence[memoryview]:
        """The entry and those that follow it in this block, none if it is not here; fewer than there are is fine."""
        ids, data = self.ids, self._data
        if not isinstance(ids, range):
            entry = self.entry(entry_id)
            return () if entry is None else (entry,)
        if entry_id not in ids:
            return ()
        index = entry_id - ids.start
        return [data[start:end] for start, end in pairwise(self._ends[index : index + count_max + 1])]


def decode_block(
    data: memoryview, log_id: int, offset: int, ledger_id: int, path: object, *, apart: bool = False
) -> Block:
    """The block that fills `data`, read from `offset` of this log. BlockDamagedError if anything is wrong.

    `apart`: it is no view of `data`, which it would keep in memory.
    """
    block = _decoded(data, log_id, offset, ledger_id, apart)
    if block is None:
        raise BlockDamagedError(
            f"entry log {path} is damaged at offset {offset}: read ledger {ledger_id} from other bookies",
            path=path,
            offset=offset,
            ledger_id=ledger_id,
        )
    return block


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """What is in front of the lengths and entries of a block. Not proved: one CRC covers all of the block."""

    ledger_id: int
    first: int
    last: int
    count: int
    size: int
    """Of the block, or of the journal record that it is, in bytes."""


def block_header(data: bytes) -> BlockHeader | None:
    """Of the block that begins `data`, None if none begins here that a writer of ours could have made."""
    return decode_header(data, _FACTS_START) if data[:4] == BLOCK_MAGIC else None


def decode_header(data: bytes, start: int) -> BlockHeader | None:
    """The same, where the facts of the block begin at `start` of it."""
    if len(data) < start + _BLOCK_FACTS.size:
        return None
    ledger_id, first, last, count, body_bytes = _BLOCK_FACTS.unpack_from(data, start)
    if ledger_id < 0 or first < 0 or not 0 < count <= last - first + 1:
        return None
    return BlockHeader(ledger_id, first, last, count, start + _BLOCK_FACTS.size + 4 * count + body_bytes)


def _decoded(data: memoryview, log_id: int, offset: int, ledger_id: int, apart: bool) -> Block | None:
    if len(data) < BLOCK_HEADER_BYTES:
        return None
    magic, crc, found_ledger, _, _, count, body_bytes = _BLOCK_HEADER.unpack_from(data)
    if magic != BLOCK_MAGIC or len(data) != block_bytes(count, body_bytes) or found_ledger != ledger_id:
        return None
    covered = bytes(data[_FACTS_START:])
    if crc32c(covered, crc32c(_PLACE.pack(log_id, offset))) != crc:
        return None
    if apart:
        return decode_facts(memoryview(covered), 0, size=len(data))
    return decode_facts(data, _FACTS_START)


def decode_facts(data: memoryview, start: int, *, size: int | None = None) -> Block | None:
    """The block whose facts begin at `start` and whose entries end with `data`, None if no writer of ours made it.

    `size`: of the block on disk, if that is not all of `data`.
    """
    lengths_start = start + _BLOCK_FACTS.size
    if len(data) < lengths_start:
        return None
    ledger_id, first, last, count, body_bytes = _BLOCK_FACTS.unpack_from(data, start)
    entries_start = lengths_start + 4 * count
    if not count or len(data) != entries_start + body_bytes:
        return None
    lengths = struct.unpack_from(f">{count}I", data, lengths_start)
    ends = list(accumulate(lengths, initial=entries_start))
    if ends[-1] != len(data):
        return None
    ids = _ids(data, first, last, count, ends)
    if ids is None:
        return None
    return Block(data, ledger_id, first, last, ends, ids, size=len(data) if size is None else size)


def _ids(data: memoryview, first: int, last: int, count: int, ends: Sequence[int]) -> Sequence[int] | None:
    """None if they are not ascending ids from `first` to `last`: no writer of ours made this block."""
    if count == last - first + 1:
        return range(first, last + 1)
    if any(end - start < STORED_BYTES_MIN for start, end in pairwise(ends)):
        return None
    ids = [_ID.unpack_from(data, start + 8)[0] for start in ends[:-1]]
    ascending = all(earlier < later for earlier, later in pairwise(ids))
    return ids if ascending and (ids[0], ids[-1]) == (first, last) else None
