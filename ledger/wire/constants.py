"""Numbers and fixed layouts of the binary ("v2") protocol. Pure; docs/bookkeeper.md#v2-frames.

A frame is a 4-byte length N and N bytes of body. A body begins with one int:

    bits 31..24  version    2; 0 is an ancient client, whose int is the bare opcode
    bits 23..16  opcode
    bits 15..0   flags

Every layout below begins with the frame's length, so that hot paths can pack and unpack whole frames in
blocks. All integers are big-endian.
"""

from struct import Struct

VERSION = 2
"""The version we send. 0 to 2 are served; a higher one is answered with EBADVERSION."""

ADD = 1
READ = 2
AUTH = 3
BATCH_READ = 7

FENCE = 0x0001
"""On a read: fence the ledger first; a master key follows the fixed fields."""
RECOVERY_ADD = 0x0002
"""On an add: allowed on a fenced ledger."""
HIGH_PRIORITY = 0x0004
"""Served before others, and taken by a read-only bookie."""

MASTER_KEY_BYTES = 20
LAST_ENTRY = -1
"""Entry id in a read that asks for the last entry the bookie holds."""
AUTH_DISABLED_PLUGIN = "AuthDisabledPlugin"
"""Plugin name with which a bookie without authentication answers every AUTH."""

ADD_HEADER = VERSION << 24 | ADD << 16
RECOVERY_ADD_HEADER = ADD_HEADER | RECOVERY_ADD | HIGH_PRIORITY
READ_HEADER = VERSION << 24 | READ << 16
BATCH_READ_HEADER = VERSION << 24 | BATCH_READ << 16

PACKET_START = Struct(">II")
"""length, header: the first 8 bytes of every frame."""
ADD_REQUEST_START = Struct(">II20s")
"""length, header, master key; the entry follows to the end of the frame (28 bytes)."""
ADD_RESPONSE = Struct(">IIIqq")
"""length, header, status, ledger id, entry id (28 bytes, the whole frame)."""
READ_REQUEST = Struct(">IIqq")
"""length, header, ledger id, entry id (24 bytes, the whole frame unless it fences)."""
FENCE_REQUEST = Struct(">IIqq20s")
"""A read with FENCE: the same and the master key (44 bytes, the whole frame)."""
READ_RESPONSE_START = ADD_RESPONSE
"""As an add response; on EOK the entry follows to the end of the frame."""
BATCH_READ_REQUEST = Struct(">IIqqqiq")
"""length, header, ledger id, first entry id, request id, max count, max size (44 bytes)."""
BATCH_READ_RESPONSE_START = Struct(">IIIqqq")
"""length, header, status, ledger id, first entry id, request id (36 bytes); on EOK sized entries follow."""
ENTRY_SIZE = Struct(">i")
"""Before each entry of a batch read response."""

ADD_RESPONSE_BODY_BYTES = ADD_RESPONSE.size - 4
"""Value of an add response's length field."""
