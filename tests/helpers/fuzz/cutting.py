"""Numbers and pieces taken from the front of a fuzz input, for targets that build something from it."""

from __future__ import annotations

from collections.abc import Iterator


class Cutter:
    """Never fails: past the end there are zeros and empty pieces."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def number(self, size: int = 1) -> int:
        return int.from_bytes(self.take(size), "big")

    def below(self, limit: int) -> int:
        return self.number(1 if limit <= 256 else 4) % limit

    def rest(self) -> bytes:
        return self.take(self.left)


def pieces(data: bytes, cuts: bytes) -> Iterator[bytes]:
    """`data` in pieces; each byte of `cuts` is the size of one, the rest comes as the last."""
    at = 0
    for size in cuts:
        if at >= len(data):
            return
        piece = data[at : at + size + 1]
        yield piece
        at += len(piece)
    if at < len(data):
        yield data[at:]
