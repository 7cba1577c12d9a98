"""Bytes of one entry, as clients send and bookies keep them. Pure; docs/bookkeeper.md#entry-layout.

    offset  size  field
    0       8     ledger id
    8       8     entry id
    16      8     lac      last add confirmed that the writer knew, -1 for none
    24      8     length   payload bytes of the ledger up to and including this entry
    32      d     digest   over the 32 bytes above and the payload; d by digest type (digest.py)
    32+d    n     payload

Bookies look at the first 24 bytes only.
"""

from struct import Struct
from typing import NamedTuple, TypeAlias

from ledger.errors import ProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview

ENTRY_HEADER = Struct(">qqqq")
ENTRY_HEADER_BYTES = ENTRY_HEADER.size
ENTRY_IDS = Struct(">qqq")
"""Ledger id, entry id, lac: all that a bookie reads."""
STORED_BYTES_MIN = ENTRY_IDS.size
"""A bookie stores an entry as short as this, as Apache's does; one that clients can verify is longer."""


class EntryHeader(NamedTuple):
    """The four fields before the digest."""

    ledger_id: int
    entry_id: int
    lac: int
    length: int


def decode_header(entry: Buffer) -> EntryHeader:
    """The header of `entry`; ProtocolError if it is shorter than one."""
    if len(entry) < ENTRY_HEADER_BYTES:
        raise ProtocolError(f"an entry of {len(entry)} bytes cannot hold its header of {ENTRY_HEADER_BYTES}")
    return EntryHeader._make(ENTRY_HEADER.unpack_from(entry))
