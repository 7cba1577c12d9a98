"""What a machine may find on its disk after a power cut.

Legal is, independently of each other: for each directory its durable names with a prefix of the later changes;
for each index store a prefix of its unsynced writes; for each file its durable bytes with some of the later
ones: a prefix of the writes, a prefix that ends anywhere within a write, or any of the 512-byte sectors that
were written, each as it was at some moment since the last sync, and one of them torn anywhere.
A file that changed its name takes its bytes along; one that has no name in the image is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from random import Random

from dlog.testing.disk.rocksdb_state import StoreState
from dlog.testing.disk.state import Directory, Extend, Inode, Truncate, Write, apply, apply_names

SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class StoreImage:
    """An index store's records; damage outlives a power cut."""

    records: Mapping[bytes, bytes]
    damaged: tuple[tuple[bytes, bytes], ...] = ()
    unopenable: bool = False


@dataclass(frozen=True, slots=True)
class DiskImage:
    """Everything on a disk, all of it durable. Nobody changes it."""

    directories: list[Path] = field(default_factory=list)
    """Parents before children; the root is not listed."""
    files: dict[Path, bytes] = field(default_factory=dict)
    stores: dict[Path, StoreImage] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    """What became of everything that was not durable, for people."""
    lost: list[Path] = field(default_factory=list)
    """Where something that had been visible is missing."""
    torn: list[Path] = field(default_factory=list)
    """Files that hold what no number of whole writes makes."""


def load(image: DiskImage) -> Directory:
    """The root of a disk that holds the image."""
    root = Directory()
    found = {Path("/"): root}
    for path in image.directories:
        directory = found[path] = Directory()
        parent = found[path.parent]
        parent.names[path.name] = parent.durable[path.name] = directory
    for path, content in image.files.items():
        parent, inode = found[path.parent], Inode(content)
        parent.names[path.name] = parent.durable[path.name] = inode
    for path, stored in image.stores.items():
        store = found[path].store = StoreState(stored.records)
        store.damaged, store.unopenable = list(stored.damaged), stored.unopenable
        store.disk_bytes = sum(len(key) + len(value) + 16 for key, value in stored.records.items())
    return root


Thing = Inode | Directory | StoreState
Torn = None
"""Instead of a number of surviving changes: let chance decide, down to sectors and bytes."""


class PowerCut:
    """All images that a power cut may leave of the disk as it is now. The disk must not change until then."""

    def __init__(self, root: Directory) -> None:
        self._root = root
        self._open: dict[Thing, Path] = {}
        self._look(root, Path("/"), set())

    def _look(self, directory: Directory, path: Path, seen: set[Thing]) -> None:
        """Find what has unsynced changes, under every name it may have after the cut."""
        self._note(directory, path)
        if directory.store is not None:
            self._note(directory.store, path)
        later = [assignment for change in directory.pending for assignment in change]
        for name, node in (*directory.names.items(), *directory.durable.items(), *later):
            if node is None or node in seen:
                continue
            seen.add(node)
            if isinstance(node, Directory):
                self._look(node, path / name, seen)
            else:
                self._note(node, path / name)

    def _note(self, thing: Thing, path: Path) -> None:
        if thing.pending:
            self._open.setdefault(thing, path)

    @property
    def count(self) -> int:
        """How many images there are if every change survives whole or not at all."""
        return prod(len(thing.pending) + 1 for thing in self._open)

    def images(self, limit: int, choose: Random) -> Iterator[DiskImage]:
        """At most `limit`: all that are made of whole changes if they fit, torn ones in the room that is left.

        If they do not fit: the one in which nothing survives, the one in which all does, and a sample.
        """
        if self.count <= limit:
            yield from self._every()
            room = limit - self.count
        else:
            yield from (self.nothing(), self._image(list(self._lengths())))[:limit]
            room = limit - 2
        if any(isinstance(thing, Inode) for thing in self._open) or self.count > limit:
            for _ in range(room):
                yield self.one(choose)

    def one(self, choose: Random) -> DiskImage:
        """A legal image, any of them."""
        kept = [
            Torn if isinstance(thing, Inode) and choose.random() < 0.7 else choose.randint(0, length)
            for thing, length in zip(self._open, self._lengths(), strict=True)
        ]
        return self._image(kept, choose)

    def nothing(self) -> DiskImage:
        """The image in which nothing survives but what is durable."""
        return self._image([0] * len(self._open))

    def _every(self) -> Iterator[DiskImage]:
        for kept in product(*(range(length + 1) for length in self._lengths())):
            yield self._image(kept)

    def _lengths(self) -> Iterator[int]:
        return (len(thing.pending) for thing in self._open)

    def _image(self, kept: Sequence[int | None], choose: Random | None = None) -> DiskImage:
        image = DiskImage()
        for (thing, path), count in zip(self._open.items(), kept, strict=True):
            what = "some" if count is Torn else f"{count} of {len(thing.pending)}"
            image.changes.append(f"{path}: {what} {_KIND[type(thing)]}")
            if count is not Torn and count < len(thing.pending):
                image.lost.append(path)
        _Copy(image, dict(zip(self._open, kept, strict=True)), choose).copy(self._root, Path("/"))
        return image


_KIND: dict[type, str] = {Inode: "writes", Directory: "names", StoreState: "batches"}


class _Copy:
    def __init__(self, image: DiskImage, kept: Mapping[Thing, int | None], choose: Random | None) -> None:
        self._image = image
        self._kept = kept
        self._choose = choose

    def copy(self, directory: Directory, path: Path) -> None:
        names = dict(directory.durable)
        for change in directory.pending[: self._kept.get(directory, 0)]:
            apply_names(names, change)
        store = directory.store
        if store is not None:
            records = store.durable_after(self._kept.get(store, 0) or 0)
            self._image.stores[path] = StoreImage(records, tuple(store.damaged), store.unopenable)
        for name, node in names.items():
            if isinstance(node, Directory):
                self._image.directories.append(path / name)
                self.copy(node, path / name)
            else:
                self._image.files[path / name] = self._content(node, path / name)

    def _content(self, inode: Inode, path: Path) -> bytes:
        count = self._kept.get(inode, 0)
        if count is Torn:
            assert self._choose is not None
            found = torn(inode, self._choose)
            if found != inode.content:
                (self._image.lost if _is_whole(inode, found) else self._image.torn).append(path)
            return found
        content = bytearray(inode.durable)
        for change in inode.pending[:count]:
            apply(content, change)
        return bytes(content)


def _is_whole(inode: Inode, found: bytes) -> bool:
    """Whether a prefix of whole changes makes it."""
    content = bytearray(inode.durable)
    if content == found:
        return True
    for change in inode.pending:
        apply(content, change)
        if content == found:
            return True
    return False


def torn(inode: Inode, choose: Random) -> bytes:
    """The file's durable bytes with some of the later ones."""
    content = bytearray(inode.durable)
    whole = choose.randint(0, len(inode.pending))
    by_sector = choose.random() < 0.5
    truncated = any(isinstance(change, Truncate) for change in inode.pending)
    for change in inode.pending[:whole]:
        # Sectors are written in any order, but not across a truncation: what comes after it is another file.
        if not by_sector or truncated:
            apply(content, change)
    if by_sector and not truncated:
        _some_sectors(content, inode, choose)
    elif whole < len(inode.pending):
        change = inode.pending[whole]
        if isinstance(change, Write):
            apply(content, Write(change.offset, change.data[: choose.randint(0, len(change.data))]))
    return bytes(content)


def _some_sectors(content: bytearray, inode: Inode, choose: Random) -> None:
    """Each sector as it was at some moment since the sync, one of those that changed torn within."""
    pieces: dict[int, list[Write]] = {}
    for change in inode.pending:
        if isinstance(change, Write):
            for piece in _in_sectors(change):
                pieces.setdefault(piece.offset // SECTOR_BYTES, []).append(piece)
    survival = choose.random()
    last: Write | None = None
    for sector in pieces.values():
        for piece in sector:
            if choose.random() >= survival:
                break
            last = piece
            apply(content, piece)
    if last is not None and choose.random() < 0.5:
        _tear(content, inode.durable, last, choose)
    if choose.random() < 0.5:  # the size may come without the bytes
        apply(content, Extend(len(inode.content)))


def _in_sectors(write: Write) -> Iterator[Write]:
    at = 0
    while at < len(write.data):
        size = SECTOR_BYTES - (write.offset + at) % SECTOR_BYTES
        yield Write(write.offset + at, write.data[at : at + size])
        at += size


def _tear(content: bytearray, durable: bytearray, piece: Write, choose: Random) -> None:
    """Let the end of the piece be as it was before."""
    begin = piece.offset + choose.randint(0, len(piece.data))
    end = piece.offset + len(piece.data)
    before = bytes(durable[begin:end])
    content[begin:end] = before.ljust(end - begin, b"\0")
