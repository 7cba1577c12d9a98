"""Reading around sectors that a disk cannot read."""

from pathlib import Path

import pytest

from bookie_server.disk.disk import DiskFile, ReadableFile
from bookie_server.disk.sectors import SECTOR_BYTES, read_around
from bookie_server.errors import DiskFailedError
from tests.helpers.simulation.disk import new_disk

FILE = Path("/file")
CONTENT = bytes(range(1, 251)) * 40


def opened(*bad: range) -> DiskFile:
    disk = new_disk()
    disk.replace_file(FILE, CONTENT)
    disk._media.bad_sectors[FILE] = list(bad)
    return disk.open_read(FILE)


@pytest.mark.parametrize(("start", "stop"), [(0, len(CONTENT)), (100, 5000), (600, 700), (512, 1024), (0, 0)])
def test_all_but_the_bad_sectors_is_read(start: int, stop: int) -> None:
    for first in range(0, len(CONTENT), SECTOR_BYTES):
        bad = range(first, min(first + 2 * SECTOR_BYTES, len(CONTENT)))
        data, lost = read_around(opened(bad), start, stop)
        hit = range(max(start, bad.start), min(stop, bad.stop))
        assert lost == ([hit] if hit else [])
        expected = bytearray(CONTENT)
        expected[bad.start : bad.stop] = bytes(len(bad))
        assert data == expected[start:stop]


class FailingFile(ReadableFile):
    path = FILE

    def __init__(self, *, unreadable: bool) -> None:
        self.reads = 0
        self._unreadable = unreadable

    def size(self) -> int:
        return 1 << 30

    def read_at(self, offset: int, size: int) -> bytes:
        self.reads += 1
        raise DiskFailedError("cannot read", path=FILE, missing=False, unreadable=self._unreadable)


def test_a_disk_that_reads_nothing_at_all_is_not_asked_for_each_sector() -> None:
    file = FailingFile(unreadable=True)
    with pytest.raises(DiskFailedError):
        read_around(file, 0, file.size())
    assert 1000 < file.reads < 10_000


def test_another_error_is_not_taken_for_a_bad_sector() -> None:
    file = FailingFile(unreadable=False)
    with pytest.raises(DiskFailedError):
        read_around(file, 0, file.size())
    assert file.reads == 1
