"""What a write past the page cache needs: the whole pages within it, and memory that begins at a page. Pure."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

PAGE_BYTES = 4096
"""Offset, length and memory of such a write are multiples of it; every file system that allows them is content."""
PIECE_BYTES = 4 * 1024 * 1024
"""Written at a time, and the size of a buffer."""

Buffer: TypeAlias = bytes | memoryview

_free: list[memoryview] = []
"""Buffers between two writes: there are as many as threads ever wrote at the same time."""


def pages_within(start: int, end: int) -> tuple[int, int]:
    """From where to where the whole pages between two offsets go; the same offset twice if there is none."""
    first, last = -(-start // PAGE_BYTES) * PAGE_BYTES, end // PAGE_BYTES * PAGE_BYTES
    return (first, last) if first < last else (end, end)


@contextmanager
def page_buffer() -> Iterator[memoryview]:
    """PIECE_BYTES of memory that begin at a page; always the same, since new memory costs more than the copy."""
    try:
        buffer = _free.pop()  # atomic, like append: threads share the list
    except IndexError:
        buffer = memoryview(mmap.mmap(-1, PIECE_BYTES))
    try:
        yield buffer
    finally:
        _free.append(buffer)


class PartsReader:
    """Takes bytes off the front of a sequence of parts."""

    def __init__(self, parts: Sequence[Buffer]) -> None:
        self._parts = iter(parts)
        self._rest = memoryview(b"")

    def take(self, size: int) -> list[Buffer]:
        """The next `size` bytes, as views."""
        taken: list[Buffer] = []
        while size:
            if not self._rest:
                self._rest = memoryview(next(self._parts))
            piece = self._rest[:size]
            taken.append(piece)
            self._rest = self._rest[len(piece) :]
            size -= len(piece)
        return taken

    def copy_to(self, buffer: memoryview, size: int) -> None:
        """Put the next `size` bytes at the beginning of the buffer."""
        at = 0
        for part in self.take(size):
            buffer[at : at + len(part)] = part
            at += len(part)
