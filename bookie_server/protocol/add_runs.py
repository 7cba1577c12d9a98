"""v2 adds of one received block, gathered ledger by ledger. Pure.

Everything that arrived together for one ledger becomes one run, handed to the storage in one call; ledgers
may be interleaved, which costs one look-up per entry. A frame that is not a plain, well-formed add ends the
gathering, so that the order of adds and fences stays as it was sent.

    offset  size  field of a v2 add frame (docs/bookkeeper.md#v2-frames)
    0       4     length of what follows
    4       32    header, master key, ledger id: equal for all adds of one run
    36      8     entry id
    28      n     the entry as stored; it begins with the two ids
"""

from __future__ import annotations

from struct import Struct

from bookie_server.net.receive_buffer import LENGTH
from bookie_server.storage.stored_entry import EntryRun
from ledger.errors import ProtocolError
from ledger.wire.constants import ADD, ADD_REQUEST_START, MASTER_KEY_BYTES, VERSION
from ledger.wire.entry import STORED_BYTES_MIN

START = Struct(">I32sq")
ENTRY_OFFSET = ADD_REQUEST_START.size
BODY_BYTES_MIN = ENTRY_OFFSET - LENGTH.size + STORED_BYTES_MIN
VIEW_BYTES_MIN = 16 * 1024
"""Larger entries are kept as views of the block; copying a small one is cheaper than a view of it, and frees
the block."""


class RunHead:
    """The shared first part of a run's frames, taken apart."""

    __slots__ = ("flags", "key", "ledger_id")

    def __init__(self, head: bytes) -> None:
        self.flags = int.from_bytes(head[2:4], "big")
        self.key = head[4 : 4 + MASTER_KEY_BYTES]
        self.ledger_id = int.from_bytes(head[4 + MASTER_KEY_BYTES :], "big", signed=True)


def gather(block: bytes, position: int, frame_bytes_max: int, runs: dict[bytes, EntryRun]) -> int:
    """Put the add frames from `position` on into `runs`; return where the first other frame starts."""
    view, end = memoryview(block), len(block)
    last_start, body_bytes_max = end - START.size, frame_bytes_max - LENGTH.size
    unpack, current = START.unpack_from, None
    while position <= last_start:
        length, head, entry_id = unpack(block, position)
        stop = position + 4 + length
        if head != current:
            run = runs.get(head)
            if run is None:
                if not _starts_run(head):
                    break
                run = runs[head] = EntryRun()
            current, put_id, put_entry = head, run.ids.append, run.entries.append
        if stop > end or not BODY_BYTES_MIN <= length <= body_bytes_max or entry_id < 0:
            break
        put_id(entry_id)
        put_entry(block[position + 28 : stop] if length < VIEW_BYTES_MIN else view[position + 28 : stop])
        position = stop
    return position


def frame_end(block: bytes, position: int, frame_bytes_max: int) -> int | None:
    """Where the frame at `position` ends, None while it is incomplete; ProtocolError if it is too long."""
    if len(block) - position < LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(block, position)
    if LENGTH.size + length > frame_bytes_max:
        raise ProtocolError(
            f"the peer announced a frame of {LENGTH.size + length} bytes, the limit is {frame_bytes_max}"
        )
    stop: int = position + LENGTH.size + length
    return stop if stop <= len(block) else None


def _starts_run(head: bytes) -> bool:
    """A v2 add of a ledger id that is not negative. Other versions are rare and go the long way."""
    return head[0] == VERSION and head[1] == ADD and head[4 + MASTER_KEY_BYTES] < 0x80


assert ENTRY_OFFSET == 28
