"""Which bytes of a file may rot so that the bookie can notice.

Every format has checksums. The one exception is the last group of a journal, which a power cut may tear: what is wrong
there is cut off as a torn write, and the bookie denies what it had acknowledged.
"""

from __future__ import annotations

from pathlib import Path

from bookie_server.errors import JournalDamagedError
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    decode_file_header,
    decode_record,
)
from dlog.testing.disk.state import Inode


def is_survived_unreadable(path: Path) -> bool:
    """Whether a bookie that may start in limbo starts although a sector of this file cannot be read.

    Cookies name the bookie and the log mark says where replay begins: without them a start may be refused.
    """
    return path.suffix == ".journal" or path.parent.name == "entry-logs" or path.name == "ledger-states"


def settled_extent(path: Path, inode: Inode) -> range:
    """Empty if there is nothing that may rot."""
    if path.suffix != ".journal":
        return range(inode.written_bytes if inode.durable else 0)
    data = memoryview(bytes(inode.durable))
    try:
        header = decode_file_header(bytes(data[:FILE_HEADER_BYTES]), path)
    except JournalDamagedError:
        return range(0)
    offset = last_group = FILE_HEADER_BYTES
    while (record := decode_record(header, data, offset)) is not None:
        last_group = record.group_start
        offset += RECORD_HEADER_BYTES + len(record.body)
    return range(FILE_HEADER_BYTES, last_group)
