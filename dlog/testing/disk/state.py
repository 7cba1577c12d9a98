"""What a simulated disk holds: for everything, what is durable, what is visible, and the changes in between.

Invariant: `durable` with all of `pending` applied is what is visible, except after a failed sync, which may leave
pages visible that will never be written. Everything here changes memory only and cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlog.testing.disk.rocksdb_state import StoreState


@dataclass(frozen=True, slots=True)
class Write:
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Extend:
    """The file ends at `size` or behind it."""

    size: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """The file ends at `size` or before it."""

    size: int = 0


Change = Write | Extend | Truncate


def apply(content: bytearray, change: Change) -> None:
    """Make one change; what lies between the old end and a write behind it becomes zeros."""
    match change:
        case Write(offset, data):
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(data)] = data
        case Extend(size):
            if len(content) < size:
                content.extend(bytes(size - len(content)))
        case Truncate(size):
            del content[size:]


class Inode:
    """One file's bytes."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.durable = bytearray(content)
        self.pending: list[Change] = []
        self.locked = False

    def change(self, change: Change) -> None:
        apply(self.content, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            apply(self.durable, change)
        self.pending.clear()

    def fail_sync(self, written: int, *, pages_dropped: bool) -> None:
        """The first `written` changes reach the medium. The others never will: their pages count as clean now.

        Reads return them from memory until the machine stops, or, with `pages_dropped`, not even that long.
        """
        for change in self.pending[:written]:
            apply(self.durable, change)
        self.pending.clear()
        if pages_dropped:
            self.content[:] = self.durable

    @property
    def written_bytes(self) -> int:
        """What is durable without the zeros of preallocated space; at least one byte."""
        return len(self.durable.rstrip(b"\0")) or 1

    def spoil(self, at: int, bits: bytes) -> None:
        """From now on the bits that are set here are others on the medium than they were."""
        for held in (self.durable, self.content):
            part = held[at : at + len(bits)]
            held[at : at + len(part)] = bytes(byte ^ wrong for byte, wrong in zip(part, bits, strict=False))


NameChange = tuple[tuple[str, "Inode | Directory | None"], ...]
"""Names and what they mean from now on, None for nothing; all of one change together."""


class Directory:
    """Names. `store` is the index store in it, whose own files are not modelled."""

    def __init__(self) -> None:
        self.names: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        self.pending: list[NameChange] = []
        self.store: StoreState | None = None

    def change(self, change: NameChange) -> None:
        apply_names(self.names, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            apply_names(self.durable, change)
        self.pending.clear()


def apply_names(names: dict[str, Inode | Directory], change: NameChange) -> None:
    for name, node in change:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
