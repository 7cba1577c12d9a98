"""Read what a disk can read of a file, when it cannot read all of it. Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bookie_server.disk.disk import Disk, ReadableFile
from bookie_server.errors import DiskFailedError

SECTOR_BYTES = 512
"""What a disk can lose at least. One lost sector makes every read that touches it fail."""
_LOST_SECTORS_MAX = 2048
"""Of one read. With more the disk fails as a whole, and asking it for each sector could take hours."""


def read_around(file: ReadableFile, start: int, stop: int) -> tuple[bytes, list[range]]:
    """The bytes from `start` to `stop`, zeros in place of sectors that cannot be read; and where these are.

    DiskFailedError for any other reason, and if too many cannot be read.
    """
    parts: list[bytes] = []
    lost: list[range] = []
    lost_count = 0
    pieces = [range(start, stop)]
    while pieces:
        piece = pieces.pop()
        try:
            parts.append(file.read_at(piece.start, len(piece)))
        except DiskFailedError as error:
            halves = list(_halves(piece))
            lost_count += len(halves) == 1
            if not error.unreadable or lost_count > _LOST_SECTORS_MAX:
                raise
            if len(halves) > 1:
                pieces += reversed(halves)
                continue
            parts.append(bytes(len(piece)))
            if lost and lost[-1].stop == piece.start:
                piece = range(lost.pop().start, piece.stop)
            lost.append(piece)
    return b"".join(parts), lost


def read_file_around(disk: Disk, path: Path) -> bytes:
    """The file, zeros in place of sectors that cannot be read. For files whose checksums show that."""
    file = disk.open_read(path)
    try:
        return read_around(file, 0, file.size())[0]
    finally:
        file.close()


def _halves(piece: range) -> Iterator[range]:
    """Two parts that meet between two sectors; the piece itself if it is in one sector."""
    middle = (piece.start + piece.stop) // 2
    middle -= middle % SECTOR_BYTES
    if middle <= piece.start:
        middle = piece.start - piece.start % SECTOR_BYTES + SECTOR_BYTES
    if middle < piece.stop:
        yield range(piece.start, middle)
        yield range(middle, piece.stop)
    else:
        yield piece


def overlaps(lost: list[range], start: int, stop: int) -> bool:
    """Whether any of these bytes is in a lost sector."""
    return any(each.start < stop and start < each.stop for each in lost)
