"""One life of the process that uses a disk: from its start to its end, by whatever means."""

from __future__ import annotations

from collections.abc import Callable

from dlog.testing.disk.effects import SimulatedCrash
from dlog.testing.disk.rocksdb_state import StoreState
from dlog.testing.disk.state import Inode


class Life:
    """Everything a process has open on its disk belongs to a life and is worth nothing after it."""

    def __init__(self) -> None:
        self.goes_on = True
        self.open_inodes: dict[Inode, int] = {}
        """How many open files each has: it keeps its space as long as that, with a name or without."""
        self._at_end: list[Callable[[], None]] = []

    def require(self) -> None:
        if not self.goes_on:
            raise SimulatedCrash("the process that uses this disk has ended")

    def opened(self, inode: Inode) -> None:
        self.open_inodes[inode] = self.open_inodes.get(inode, 0) + 1

    def closed(self, inode: Inode) -> None:
        self.open_inodes[inode] -= 1
        if not self.open_inodes[inode]:
            del self.open_inodes[inode]

    def holds(self, locked: Inode | StoreState) -> None:
        """The lock on it ends with this life at the latest."""
        locked.locked = True

        def unlock() -> None:
            locked.locked = False

        self._at_end.append(unlock)

    def end(self) -> None:
        """From now on every call raises SimulatedCrash, except those that close something."""
        if self.goes_on:
            self.goes_on = False
            for each in self._at_end:
                each()
