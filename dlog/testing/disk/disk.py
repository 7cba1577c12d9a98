"""The twin of the system's disk: in memory, exact about what is durable, and able to fail.

It outlives the process that uses it. A process ends by `process_crash` (kill -9: what was written stays),
`power_cut` (of what was not synced any legal part stays) or within a call (`crash_at_effect`: the call raises
SimulatedCrash and the disk stands still until one of the two is called). Whatever the process had open raises
SimulatedCrash from then on, its workers do nothing any more, and its locks are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from pathlib import Path
from random import Random

from bookie_server.disk.disk import Disk, DiskFile, DiskLock
from bookie_server.disk.rocksdb_store import KeyValues
from bookie_server.errors import DirectoryInUseError, DiskFailedError
from dlog.testing.disk.effects import Effect, Effects
from dlog.testing.disk.file import SimulatedFile, SimulatedLock
from dlog.testing.disk.image import SECTOR_BYTES, DiskImage, PowerCut, load
from dlog.testing.disk.life import Life
from dlog.testing.disk.media import UNLIMITED_BYTES, Media
from dlog.testing.disk.rocksdb_state import StoreState
from dlog.testing.disk.rocksdb_store import SimulatedKeyValues
from dlog.testing.disk.settled import settled_extent
from dlog.testing.disk.state import Directory, Inode, NameChange, Truncate
from dlog.testing.disk.timing import DiskClock, DiskTiming
from dlog.testing.disk.worker import SimulatedDiskWorker
from dlog.testing.kernel.faults import DiskFault, Faults
from dlog.testing.kernel.notes import Notes, Streams

_A_FEW_RECORDS_BYTES = 300
_LEFT_BY_OTHERS = 0.03


class SimulatedDisk(Disk):
    """All file systems of one machine. `stream` gives chance by purpose, so that the same seed does the same."""

    def __init__(
        self,
        stream: Streams,
        notes: Notes,
        node: str,
        *,
        timing: DiskTiming | None = None,
        image: DiskImage | None = None,
    ) -> None:
        self._chance = stream(f"disk.crash.{node}")
        self.faults = Faults[DiskFault](stream(f"disk.faults.{node}"), notes, node)
        clock = DiskClock(timing or DiskTiming(), stream(f"disk.timing.{node}"))
        self._media = Media(load(image or DiskImage()), Effects(notes, node), self.faults, clock)

    # ---- steering: crashes

    @property
    def effects(self) -> Effects:
        return self._media.effects

    def on_crash(self, stop_machine: Callable[[], None]) -> None:
        """What to call, once each time, when a planned crash is reached; within the call that would make the effect."""
        self._media.on_crash = stop_machine

    def crash_at_effect(self, number: int | None) -> None:
        """Stop the machine instead of making effect `number`, counted over all lives of the disk, from 1.

        None: not any more.
        """
        self.effects.crash_at = number

    def watch_effects(self, before_each: Callable[[Effect], None] | None) -> None:
        """Call `before_each` before each effect: what it sees is what a crash at this effect would leave."""
        self.effects.before_each = before_each

    def watch_syncs(self, synced: Callable[[Path, bytearray], None]) -> None:
        """Call `synced` with the name and the content of each file that has been synced."""
        self._media.on_synced = synced

    def process_crash(self) -> None:
        """The process is dead and a new one may start: kill -9.

        Everything written stays, durable or not. Of an index store's unsynced writes a prefix stays: they were in
        the memory of the process.
        """
        self._media.life.end()
        self.faults.note("process_crash", f"after effect {self.effects.count}")
        for _path, store in self._stores():
            store.forget(self._chance.randint(0, len(store.pending)))
        self._media.life = Life()

    def power_cut(self, choose: Random | None = None) -> DiskImage:
        """The machine is off and on again: what is there now is durable. The image says what stayed."""
        image = PowerCut(self._media.root).one(choose or self._chance)
        self.faults.note("power_cut", f"after effect {self.effects.count}")
        for kind, paths in (("lost_write", image.lost), ("torn_write", image.torn)):
            for path in paths:
                self.faults.note(kind, str(path))
        self.restore(image)
        return image

    def legal_images(self, limit: int, choose: Random | None = None) -> Iterator[DiskImage]:
        """What a power cut now may leave, at most `limit` of it; see PowerCut.images."""
        return PowerCut(self._media.root).images(limit, choose or self._chance)

    def restore(self, image: DiskImage) -> None:
        """Let the disk hold exactly this, for a new process."""
        self._media.life.end()
        self._media.root = load(image)
        self._media.life = Life()

    # ---- steering: room and damage

    @property
    def capacity_bytes(self) -> int | None:
        """What fits on the disk; None for no limit. May shrink below what is used."""
        return self._media.capacity_bytes

    @capacity_bytes.setter
    def capacity_bytes(self, capacity_bytes: int | None) -> None:
        self._media.capacity_bytes = capacity_bytes

    @property
    def opens_files(self) -> bool:
        """False: the process has no descriptor left, so whatever needs one fails with TooManyFilesError."""
        return self._media.opens_files

    @opens_files.setter
    def opens_files(self, opens_files: bool) -> None:
        self._media.opens_files = opens_files

    @property
    def nearly_full(self) -> bool:
        """True: others use 97 % of the disk, so that the bookie becomes read-only before anything fails."""
        return self._media.nearly_full

    @nearly_full.setter
    def nearly_full(self, nearly_full: bool) -> None:
        self._media.nearly_full = nearly_full

    @property
    def full_directories(self) -> set[Path]:
        """Those on disks of their own that have no space left; may be changed."""
        return self._media.full_directories

    @property
    def used_bytes(self) -> int:
        return self._media.used_bytes()

    def open_files(self) -> int:
        """Files that the process has open."""
        return sum(self._media.life.open_inodes.values())

    def rot(self, part: str = "", *, recent_bytes: int = 0) -> tuple[Path, int] | None:
        """Flip one durable bit in a file whose path contains `part`; path and offset, None if there is no byte.

        With `recent_bytes` it is one of so many at the end of what was written, zeros behind that not counted. In a
        journal it is never in the last group: what rots there cannot be distinguished from a torn write.
        """
        path, inode = self._file_with(part)
        if inode is None:
            return None
        if recent_bytes:
            extent = settled_extent(path, inode)[-recent_bytes:]
        elif path.suffix == ".journal":
            extent = range(settled_extent(path, inode).stop)
        else:
            extent = range(len(inode.durable))
        if not extent:
            return None
        at = self._chance.choice(extent)
        inode.spoil(at, bytes([1 << self._chance.randrange(8)]))
        self.faults.note("bit_rot", f"{path} at {at}")
        return path, at

    def rot_stretch(self, part: str = "", *, size: int) -> tuple[Path, int] | None:
        """As `rot`: let so many bytes before the last few records that were written be nothing but noise.

        What rots at the very end of a journal cannot be distinguished from a write that a power cut has torn.
        """
        path, inode = self._file_with(part)
        if inode is None:
            return None
        left = self._chance.randint(_A_FEW_RECORDS_BYTES, 2 * _A_FEW_RECORDS_BYTES)
        end = max(1, inode.written_bytes - left)
        at = max(0, end - size)
        inode.spoil(at, self._chance.randbytes(end - at))
        self.faults.note("bit_rot", f"{path} from {at} to {end}")
        return path, at

    def rot_settled(self, part: str = "", *, sectors: bool = False) -> Path | None:
        """As `rot`, where a bookie notices it, or let a few neighbouring `sectors` there be unreadable.

        In a journal: before the last group that is durable, since what rots in the last one looks like a torn write.
        """
        found = [
            (path, inode, extent)
            for path, inode in self._files()
            if part in str(path) and (extent := settled_extent(path, inode))
        ]
        if not found:
            return None
        path, inode, extent = self._chance.choice(found)
        at = self._chance.choice(extent)
        if sectors:
            first = at - at % SECTOR_BYTES
            last = min(extent.stop, first + SECTOR_BYTES * self._chance.choice((1, 8, 64)))
            self._media.bad_sectors.setdefault(path, []).append(range(first, last))
            self.faults.note("bad_sectors", f"{path} from {first} to {last}")
        else:
            inode.spoil(at, bytes([1 << self._chance.randrange(8)]))
            self.faults.note("bit_rot", f"{path} at {at}")
        return path

    def _file_with(self, part: str) -> tuple[Path, Inode | None]:
        candidates = [(path, inode) for path, inode in self._files() if part in str(path) and inode.durable]
        return self._chance.choice(candidates) if candidates else (Path(), None)

    def lose_file(self, part: str = "") -> Path | None:
        """Remove a file whose path contains `part` permanently; its path, None if there is none."""
        candidates = [path for path, _ in self._files() if part in str(path)]
        if not candidates:
            return None
        path = self._chance.choice(candidates)
        parent = self._directory(path.parent, "lose")
        for names in (parent.names, parent.durable):
            names.pop(path.name, None)
        parent.pending = [tuple(each for each in change if each[0] != path.name) for change in parent.pending]
        self._media.lost_files.add(path)
        self.faults.note("lost_file", str(path))
        return path

    def lose_directory(self, directory: Path) -> None:
        """Remove it with everything in it permanently."""
        parent = self._directory(directory.parent, "lose")
        self._media.lost_files.update(path for path, _ in self._files() if directory in path.parents)
        for names in (parent.names, parent.durable):
            names.pop(directory.name, None)
        self._media.full_directories.discard(directory)
        self.faults.note("lost_directory", str(directory))

    @property
    def lost_files(self) -> Set[Path]:
        """What `lose_file` and `lose_directory` have removed."""
        return self._media.lost_files

    def wipe(self, kept: str | None = None) -> None:
        """Remove everything on it, as on the disk that a technician puts in place of a broken one.

        Durable files named `kept` stay where they are.
        """
        files = {path: bytes(inode.durable) for path, inode in self._files() if path.name == kept}
        above = {directory for path in files for directory in path.parents if directory != Path("/")}
        self._media.bad_sectors.clear()
        self.restore(DiskImage(directories=sorted(above), files=files))
        self.faults.note("lost_file", f"all but {kept}" if files else "all of them")

    def damage_index(self, *, whole: bool = False) -> bool:
        """Let some neighbouring records of an index store be unreadable, or the `whole` store when next opened.

        False if there is nothing to damage.
        """
        candidates = [(path, store) for path, store in self._stores() if whole or store.durable.keys]
        if not candidates:
            return False
        path, store = self._chance.choice(candidates)
        if whole:
            store.unopenable = True
        else:
            keys = store.durable.keys
            first = self._chance.randrange(len(keys))
            last = min(len(keys) - 1, first + self._chance.randrange(8))
            store.damaged.append((keys[first], keys[last]))
        self.faults.note("index_damage", f"{path} {'whole' if whole else 'records'}")
        return True

    @property
    def index_damaged(self) -> bool:
        """Whether a part of an index store cannot be read: for good, if nothing builds the store anew."""
        return any(store.damaged or store.unopenable for _, store in self._stores())

    def _files(self) -> list[tuple[Path, Inode]]:
        return [(path, node) for path, node in self._walk() if isinstance(node, Inode)]

    def _stores(self) -> list[tuple[Path, StoreState]]:
        return [
            (path, node.store)
            for path, node in self._walk()
            if isinstance(node, Directory) and node.store is not None
        ]

    def _walk(self) -> Iterator[tuple[Path, Inode | Directory]]:
        """Everything that has a name now, in an order that does not depend on history."""
        waiting = [(Path("/"), self._media.root)]
        while waiting:
            path, directory = waiting.pop()
            yield path, directory
            for name in sorted(directory.names):
                node = directory.names[name]
                if isinstance(node, Directory):
                    waiting.append((path / name, node))
                else:
                    yield path / name, node

    # ---- a Disk: files

    def worker(self, name: str) -> SimulatedDiskWorker:
        return SimulatedDiskWorker(self._media.life, self._media.clock, name)

    def create(self, path: Path) -> DiskFile:
        parent = self._directory(path.parent, "create")
        self._media.require_descriptor("create", path)
        node = parent.names.get(path.name)
        if isinstance(node, Directory):
            raise _failed("create", path, "it is a directory")
        self._effect("create", path)
        if node is None:
            node = Inode()
            parent.change(((path.name, node),))
        else:
            node.change(Truncate())
        self._media.bad_sectors.pop(path, None)
        return self._file(path, node, writable=True)

    def open_write(self, path: Path) -> DiskFile:
        return self._opened(path, self._inode(path, "open"), writable=True)

    def open_read(self, path: Path) -> DiskFile:
        return self._opened(path, self._inode(path, "open"), writable=False)

    def _opened(self, path: Path, inode: Inode, *, writable: bool) -> SimulatedFile:
        self._media.require_descriptor("open", path)
        return self._file(path, inode, writable=writable)

    def _file(self, path: Path, inode: Inode, *, writable: bool) -> SimulatedFile:
        return SimulatedFile(self._media, self._media.life, path, inode, writable=writable)

    # ---- a Disk: names

    def rename(self, source: Path, target: Path) -> None:
        parent = self._directory(source.parent, "rename")
        node = parent.names.get(source.name)
        if node is None:
            raise _failed("rename", source, "no such file", missing=True)
        if source.parent != target.parent:
            raise _failed("rename", source, f"{target} is in another directory")
        replaced = parent.names.get(target.name, node)
        if replaced is not node and (isinstance(replaced, Directory) or isinstance(node, Directory)):
            raise _failed("rename", source, f"{target} exists, and they are not both files")
        self._change_names("rename", source, parent, ((source.name, None), (target.name, node)), target.name)

    def sync_directory(self, directory: Path) -> None:
        found = self._directory(directory, "sync directory")
        self._media.require_descriptor("sync directory", directory)
        clock = self._media.clock
        self._effect("dirsync", directory, f"{len(found.pending)} names")
        clock.spend(clock.timing.sync_s)
        if self.faults.strikes("sync_error", directory):
            raise self._media.failure("sync directory", directory)
        found.sync()

    def make_name(self, directory: Path) -> None:
        parent = self._directory(directory.parent, "make directory")
        if directory.name not in parent.names:
            self._change_names("mkdir", directory, parent, ((directory.name, Directory()),))

    def list(self, directory: Path) -> list[str]:
        found = self._directory(directory, "list")
        self._media.require_descriptor("list", directory)
        return sorted(found.names)

    def exists(self, path: Path) -> bool:
        return self._node(path) is not None

    def remove(self, path: Path) -> None:
        if self._is_missing(path.parent):
            return
        parent = self._directory(path.parent, "remove")
        if path.name in parent.names:
            if isinstance(parent.names[path.name], Directory):
                raise _failed("remove", path, "it is a directory")
            self._change_names("remove", path, parent, ((path.name, None),))

    def remove_tree(self, directory: Path) -> None:
        node = self._node(directory)
        if not isinstance(node, Directory) or directory == Path("/"):
            return
        for name in sorted(node.names):
            if isinstance(node.names[name], Directory):
                self.remove_tree(directory / name)
            else:
                self.remove(directory / name)
        parent = self._directory(directory.parent, "remove")
        self._change_names("remove", directory, parent, ((directory.name, None),))

    def lock(self, path: Path) -> DiskLock:
        inode = self._node(path)
        if not isinstance(inode, Inode):
            self.create(path).close()
            inode = self._inode(path, "lock")
        if inode.locked:
            raise DirectoryInUseError(
                f"{path.parent} is used by another process: stop that bookie or command first",
                path=path.parent,
            )
        self._media.life.holds(inode)
        return SimulatedLock(self._media.life, self._opened(path, inode, writable=True), inode)

    def free_space(self, directory: Path) -> tuple[int, int]:
        self._directory(directory, "measure")
        capacity = self._media.capacity_bytes
        if self._media.nearly_full and capacity is None:
            return UNLIMITED_BYTES, int(UNLIMITED_BYTES * _LEFT_BY_OTHERS)
        return capacity or UNLIMITED_BYTES, max(0, self._media.free_bytes(directory / "what is added"))

    def device(self, directory: Path) -> int:
        self._directory(directory, "measure")
        return self._media.device(directory)

    # ---- a Disk: the index's store

    def open_key_values(self, directory: Path) -> KeyValues:
        self.make_directory(directory)
        return SimulatedKeyValues(self._media, lambda: self._directory(directory, "open"), directory)

    # ---- names and nodes

    def _effect(self, kind: str, path: Path, text: str = "") -> None:
        self._media.effect(self._media.life, kind, path, text)

    def _change_names(
        self, kind: str, path: Path, parent: Directory, change: NameChange, text: str = ""
    ) -> None:
        self._effect(kind, path, text)
        parent.change(change)
        for name, _ in change:
            self._media.bad_sectors.pop(path.parent / name, None)

    def _node(self, path: Path) -> Inode | Directory | None:
        self._media.life.require()
        node: Inode | Directory | None = self._media.root
        for name in path.parts[1:] if path.is_absolute() else path.parts:
            node = node.names.get(name) if isinstance(node, Directory) else None
        return node

    def _inode(self, path: Path, doing: str) -> Inode:
        node = self._node(path)
        if not isinstance(node, Inode):
            raise _failed(doing, path, "no such file", missing=self._is_missing(path))
        return node

    def _directory(self, path: Path, doing: str) -> Directory:
        node = self._node(path)
        if not isinstance(node, Directory):
            raise _failed(doing, path, "no such directory", missing=self._is_missing(path))
        return node

    def _is_missing(self, path: Path) -> bool:
        """Whether nothing is in the way of making it; a file among its parents is."""
        found = next(node for each in (path, *path.parents) if (node := self._node(each)) is not None)
        return isinstance(found, Directory) and self._node(path) is None


def _failed(doing: str, path: Path, why: str, *, missing: bool = False) -> DiskFailedError:
    return DiskFailedError(f"cannot {doing} {path}: {why}", path=path, missing=missing)
