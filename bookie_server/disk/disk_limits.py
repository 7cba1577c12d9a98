"""When a bookie stops taking normal adds for want of space, and when it takes them again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bookie_server.disk.disk import Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryUsage:
    """Size and free space of the file system under one of the bookie's directories, in bytes."""

    directory: Path
    total_bytes: int
    free_bytes: int
    device: int
    """Equal for directories on one file system."""

    @classmethod
    def measure(cls, disk: Disk, directory: Path) -> DirectoryUsage:
        """DiskFailedError."""
        total, free = disk.free_space(directory)
        return cls(directory=directory, total_bytes=total, free_bytes=free, device=disk.device(directory))

    @property
    def used_part(self) -> float:
        return 1 - self.free_bytes / self.total_bytes if self.total_bytes else 1.0


def total_space(usages: Iterable[DirectoryUsage]) -> tuple[int, int]:
    """(total, free) bytes of the file systems under these directories, each counted once."""
    by_device = {each.device: each for each in usages}
    total = sum(each.total_bytes for each in by_device.values())
    return total, sum(each.free_bytes for each in by_device.values())


class DiskLimits:
    """Two thresholds, so that a bookie at the limit does not flap."""

    def __init__(self, usage_max: float, usage_writable: float) -> None:
        self._usage_max = usage_max
        self._usage_writable = usage_writable
        self.writable = True

    def on_measured(self, usages: Sequence[DirectoryUsage], *, reserves_held: bool) -> bool:
        """Whether normal adds are welcome. Without every reserve they are not, however much is free."""
        used = max((usage.used_part for usage in usages), default=0.0)
        limit = self._usage_max if self.writable else self._usage_writable
        self.writable = reserves_held and used < limit
        return self.writable

    def on_disk_full(self) -> bool:
        self.writable = False
        return self.writable
