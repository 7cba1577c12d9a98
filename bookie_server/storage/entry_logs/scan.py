"""All blocks of an entry log, found without the index, and the places where there should be one. Blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bookie_server.disk.disk import Disk, DiskFile, ReadableFile
from bookie_server.disk.sectors import read_around
from bookie_server.errors import DiskFailedError, StorageError
from bookie_server.storage.entry_logs.format import (
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    FILE_HEADER_BYTES,
    Block,
    block_header,
    check_file_header,
    decode_block,
    require_known_version,
)

_WINDOW_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FoundBlock:
    log_id: int
    offset: int
    block: Block


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of an entry log in which blocks may have been and are not any more."""

    path: Path
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.path} is damaged from {self.start} to {self.end}"


def scan(
    disk: Disk, path: Path, log_id: int, end: int | None, start: int = 0
) -> Iterator[FoundBlock | Damage]:
    """In the order of the file, from `start`, where a block begins, up to `end`.

    0: from the beginning; None: to the end of the file.
    """
    try:
        file = disk.open_read(path)
    except DiskFailedError:
        yield Damage(path, 0, end or 0)
        return
    try:
        if not start:
            yield from _header(file, log_id)
        yield from _blocks(file, log_id, max(start, FILE_HEADER_BYTES), file.size() if end is None else end)
    finally:
        file.close()


def _header(file: DiskFile, log_id: int) -> Iterator[Damage]:
    header = read_some(file, 0, FILE_HEADER_BYTES)
    require_known_version(header, file.path)
    try:
        check_file_header(header, log_id, file.path)
    except StorageError:
        yield Damage(file.path, 0, FILE_HEADER_BYTES)


def _blocks(file: DiskFile, log_id: int, offset: int, end: int) -> Iterator[FoundBlock | Damage]:
    def intact_at(at: int) -> Block | None:
        return block_at(file, log_id, at, end)

    while offset < end:
        block = intact_at(offset)
        if block is None:
            next_offset = next_block(file, BLOCK_MAGIC, intact_at, offset + 1, end, end)
            yield Damage(file.path, offset, next_offset)
            offset = next_offset
        else:
            yield FoundBlock(log_id, offset, block)
            offset += block.size


def block_at(file: ReadableFile, log_id: int, offset: int, end: int) -> Block | None:
    """The block that begins there and ends by `end`, if it proves intact."""
    header = block_header(read_some(file, offset, BLOCK_HEADER_BYTES))
    if header is None or offset + header.size > end:
        return None
    data = memoryview(read_some(file, offset, header.size))
    try:
        return decode_block(data, log_id, offset, header.ledger_id, file.path)
    except StorageError:
        return None


def next_block(
    file: ReadableFile,
    magic: bytes,
    intact_at: Callable[[int], Block | None],
    offset: int,
    stop: int,
    end: int,
) -> int:
    """Where the next intact block begins; `stop` or later if none begins before `stop`. Blocks end by `end`.

    `magic`: what each begins with; `intact_at`: the block that begins at an offset, if it proves intact.
    """
    while offset < min(stop, end):
        window_end = min(offset + _WINDOW_BYTES, end)
        try:
            window, _ = read_around(file, offset, window_end)
        except DiskFailedError:
            offset = window_end
            continue
        if not window:
            return end  # the file has ended before
        at = window.find(magic)
        while at >= 0:
            if intact_at(offset + at) is not None:
                return offset + at
            at = window.find(magic, at + 1)
        offset += max(len(window) - len(magic) + 1, 1)
    return min(offset, end)


def read_some(file: ReadableFile, offset: int, size: int) -> bytes:
    """What can be read: nothing where the disk has an error or the file has ended."""
    try:
        return file.read_at(offset, size)
    except DiskFailedError:
        return b""
