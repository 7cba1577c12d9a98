"""What everything open on a simulated disk shares: the bytes, the effects, the faults, the clock, the room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bookie_server.errors import DiskFailedError, DiskFullError, TooManyFilesError
from dlog.testing.disk.effects import Effects, SimulatedCrash
from dlog.testing.disk.life import Life
from dlog.testing.disk.state import Directory, Inode
from dlog.testing.disk.timing import DiskClock
from dlog.testing.kernel.faults import DiskFault, Faults

UNLIMITED_BYTES = 1 << 40
"""The size of a disk without a given capacity."""


class Media:
    def __init__(
        self, root: Directory, effects: Effects, faults: Faults[DiskFault], clock: DiskClock
    ) -> None:
        self.root = root
        self.effects = effects
        self.faults = faults
        self.clock = clock
        self.life = Life()
        self.capacity_bytes: int | None = None
        self.opens_files = True
        self.nearly_full = False
        self.full_directories: set[Path] = set()
        """On disks of their own that have no space left."""
        self.bad_sectors: dict[Path, list[range]] = {}
        """Of files by name: bytes that cannot be read until they are written again or the file is removed."""
        self.lost_files: set[Path] = set()
        """Removed by a fault, and by no program."""
        self.on_crash: Callable[[], None] = lambda: None
        self.on_synced: Callable[[Path, bytearray], None] | None = None
        """Told of each file that was synced, and its content."""

    def effect(self, life: Life, kind: str, path: Path, text: str = "") -> None:
        """Announce a change; SimulatedCrash, after the end of this life, if the machine is to stop here."""
        life.require()
        if not self.effects.announce(kind, path, text):
            life.end()
            self.on_crash()
            raise SimulatedCrash(f"stopped before {kind} of {path}")

    # ---- room

    def used_bytes(self) -> int:
        """Bytes of all files that have a name or are open, and of the index stores. Holes count as bytes."""
        inodes, stores = dict.fromkeys(self.life.open_inodes), 0
        directories = [self.root]
        while directories:
            directory = directories.pop()
            stores += 0 if directory.store is None else directory.store.disk_bytes
            for node in directory.names.values():
                if isinstance(node, Inode):
                    inodes[node] = None
                else:
                    directories.append(node)
        return stores + sum(len(inode.content) for inode in inodes)

    def free_bytes(self, path: Path | None = None) -> int:
        """For what is added, at this path if it is in a directory with a disk of its own."""
        if self.full_directories and path is not None and not self.full_directories.isdisjoint(path.parents):
            return 0
        if self.capacity_bytes is None:
            return UNLIMITED_BYTES
        return self.capacity_bytes - self.used_bytes()

    def device(self, directory: Path) -> int:
        """One for all, but for directories that have a disk of their own."""
        own = (
            at for at, each in enumerate(sorted(self.full_directories), 1) if directory.is_relative_to(each)
        )
        return next(own, 0)

    # ---- bad sectors

    def require_readable(self, path: Path, offset: int, size: int) -> None:
        """DiskFailedError if a bad sector is among these bytes of the file."""
        for bad in self.bad_sectors.get(path, ()):
            if bad.start < offset + size and offset < bad.stop:
                self.faults.note("sector_error", f"{path} at {bad.start}")
                raise self.failure("read", path)

    def rewritten(self, path: Path, offset: int, size: int) -> None:
        """The drive puts another sector in the place of a bad one that is written as a whole."""
        if path in self.bad_sectors:
            self.bad_sectors[path] = [
                bad for bad in self.bad_sectors[path] if bad.start < offset or bad.stop > offset + size
            ]

    # ---- errors

    def full(self, doing: str, path: Path) -> DiskFullError:
        self.faults.note("disk_full", f"{doing} {path}")
        return DiskFullError(f"no space left to {doing} {path}: free space on this disk", path=path)

    def lacks_descriptor(self, path: Path) -> bool:
        if not self.opens_files:
            self.faults.note("no_descriptor", str(path))
        return not self.opens_files or self.faults.strikes("no_descriptor", path)

    def require_descriptor(self, doing: str, path: Path) -> None:
        """TooManyFilesError if the process can open nothing more just now."""
        if self.lacks_descriptor(path):
            raise TooManyFilesError(f"cannot {doing} {path}: this process has too many open files", path=path)

    def failure(self, doing: str, path: Path) -> DiskFailedError:
        return DiskFailedError(
            f"cannot {doing} {path}: input/output error",
            path=path,
            missing=False,
            unreadable=doing == "read",
        )
