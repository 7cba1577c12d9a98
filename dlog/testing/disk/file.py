"""The twins of an open file and of a lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bookie_server.disk.disk import DiskFile, DiskLock
from bookie_server.errors import DiskFailedError
from dlog.testing.disk.image import SECTOR_BYTES
from dlog.testing.disk.life import Life
from dlog.testing.disk.media import Media
from dlog.testing.disk.state import Extend, Inode, Truncate, Write


class SimulatedFile(DiskFile):
    """An inode that a process has open."""

    def __init__(self, media: Media, life: Life, path: Path, inode: Inode, *, writable: bool) -> None:
        self.path = path
        self._media = media
        self._life = life
        self._inode = inode
        self._writable = writable
        self._open = True
        life.opened(inode)

    def size(self) -> int:
        self._require("examine")
        return len(self._inode.content)

    def read_at(self, offset: int, size: int) -> bytes:
        self._require("read")
        self._media.clock.spend(self._media.clock.timing.read_s)
        if self._media.faults.strikes("read_error", self.path):
            raise self._media.failure("read", self.path)
        if self._media.bad_sectors:
            self._media.require_readable(self.path, offset, size)
        if size and self._media.faults.strikes("misdirected_read", self.path):
            offset = self._elsewhere(offset, size)
        return bytes(self._inode.content[offset : offset + size])

    def write_at(self, offset: int, parts: Sequence[bytes]) -> int:
        self._require("write", writes=True)
        for piece in self._pieces(b"".join(parts)):
            self._write(Write(offset, piece))
            offset += len(piece)
        return offset

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """One, unless the system writes less than it was asked to, as often as it pleases."""
        while len(data) > 1 and self._media.faults.strikes("short_write", self.path):
            cut = self._media.faults.chance.randint(1, len(data) - 1)
            yield data[:cut]
            data = data[cut:]
        if data:
            yield data

    def _write(self, write: Write) -> None:
        self._media.effect(self._life, "write", self.path, f"{len(write.data)} bytes at {write.offset}")
        self._media.clock.spend_on_bytes(len(write.data))
        faults = self._media.faults
        if faults.strikes("write_error", self.path):
            self._inode.change(Write(write.offset, write.data[: faults.chance.randint(0, len(write.data))]))
            raise self._media.failure("write", self.path)
        room = self._room(write.offset + len(write.data))
        if room < 0:
            self._inode.change(Write(write.offset, write.data[: max(0, len(write.data) + room)]))
            raise self._media.full("write", self.path)
        if faults.strikes("misdirected_write", self.path):
            write = Write(self._elsewhere(write.offset, len(write.data)), write.data)
        self._inode.change(write)
        if self._media.bad_sectors:
            self._media.rewritten(self.path, write.offset, len(write.data))

    def _room(self, end: int) -> int:
        """Bytes left on the disk if the file ended there; what lies before its end has its room already."""
        needed = end - len(self._inode.content)
        return 0 if needed <= 0 else self._media.free_bytes(self.path) - needed

    def _elsewhere(self, offset: int, size: int) -> int:
        """Another offset within the file, whole sectors away; the next sector where there is no other."""
        sectors = range((len(self._inode.content) - size) // SECTOR_BYTES + 1)
        offsets = [number * SECTOR_BYTES + offset % SECTOR_BYTES for number in sectors]
        others = [at for at in offsets if at != offset and at + size <= self.size()]
        return self._media.faults.chance.choice(others) if others else offset + SECTOR_BYTES

    def preallocate(self, offset: int, size: int) -> None:
        self._require("make room in", writes=True)
        self._media.effect(self._life, "allocate", self.path, f"{size} bytes at {offset}")
        if self._room(offset + size) < 0:
            raise self._media.full("make room in", self.path)
        if offset + size > len(self._inode.content):
            self._inode.change(Extend(offset + size))

    def truncate(self, size: int) -> None:
        self._require("truncate", writes=True)
        if size < len(self._inode.content):
            self._media.effect(self._life, "truncate", self.path, f"at {size}")
            self._inode.change(Truncate(size))

    def sync(self) -> None:
        self._require("sync")
        inode, faults, clock = self._inode, self._media.faults, self._media.clock
        self._media.effect(self._life, "sync", self.path, f"{len(inode.pending)} changes")
        clock.spend(clock.timing.sync_s)
        if faults.strikes("slow_sync", self.path):
            clock.spend(clock.timing.slow_sync_s)
        if faults.strikes("sync_error", self.path):
            dropped = faults.chance.random() < 0.5
            written = faults.chance.randint(0, len(inode.pending))
            if written < len(inode.pending):
                faults.note("page_loss", f"{self.path} keeps {written} of {len(inode.pending)} changes")
            inode.fail_sync(written, pages_dropped=dropped)
            raise self._media.failure("sync", self.path)
        inode.sync()
        if self._media.on_synced is not None:
            self._media.on_synced(self.path, inode.content)

    def close(self) -> None:
        if not self._life.goes_on:
            return  # the system has closed it
        self._require("close")
        self._open = False
        self._life.closed(self._inode)

    def _require(self, doing: str, *, writes: bool = False) -> None:
        self._life.require()
        if not self._open or (writes and not self._writable):
            raise DiskFailedError(
                f"cannot {doing} {self.path}: bad file descriptor", path=self.path, missing=False
            )


class SimulatedLock(DiskLock):
    """A locked file of one life."""

    def __init__(self, life: Life, file: SimulatedFile, inode: Inode) -> None:
        self._life = life
        self._file = file
        self._inode = inode

    def release(self) -> None:
        if self._life.goes_on:  # later it may be another's lock
            self._inode.locked = False
        self._file.close()
