"""Sectors that stay unreadable, reads that return another place, and rot that a journal notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie_server.errors import DiskFailedError
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    FileHeader,
    RecordType,
    encode_file_header,
    encode_record,
)
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.settled import is_survived_unreadable
from tests.helpers.simulation.disk import CountedNotes, new_disk

FILE = Path("/file")
CONTENT = bytes(range(1, 251)) * 16


def disk_with_file(notes: CountedNotes | None = None) -> SimulatedDisk:
    disk = new_disk(notes=notes or CountedNotes())
    disk.replace_file(FILE, CONTENT)
    return disk


def unreadable(disk: SimulatedDisk) -> list[int]:
    """Offsets that cannot be read."""
    file, found = disk.open_read(FILE), []
    for at in range(len(CONTENT)):
        try:
            file.read_at(at, 1)
        except DiskFailedError:
            found.append(at)
    file.close()
    return found


def test_a_bad_sector_fails_each_read_of_it_and_no_other_and_outlives_a_power_cut() -> None:
    notes = CountedNotes()
    disk = disk_with_file(notes)
    assert disk.rot_settled("file", sectors=True) == FILE
    bad = unreadable(disk)
    assert bad and bad == list(range(bad[0], bad[-1] + 1)) and bad[0] % 512 == 0
    disk.power_cut()
    assert unreadable(disk) == bad
    assert notes.counts["fault.bad_sectors"] == 1
    assert notes.counts["fault.sector_error"] == 2 * len(bad)
    with pytest.raises(DiskFailedError, match="input/output"):
        disk.read_file(FILE)


def test_writing_all_of_a_bad_sector_repairs_it_and_writing_a_part_does_not() -> None:
    disk = disk_with_file()
    disk.rot_settled("file", sectors=True)
    bad = unreadable(disk)
    file = disk.open_write(FILE)
    file.write_at(bad[0], [bytes(len(bad) - 1)])
    assert unreadable(disk) == bad
    file.write_at(bad[0], [bytes(len(bad))])
    assert unreadable(disk) == []


def test_a_file_that_takes_the_name_of_one_with_bad_sectors_has_none() -> None:
    disk = disk_with_file()
    disk.rot_settled("file", sectors=True)
    disk.replace_file(FILE, CONTENT)
    assert disk.read_file(FILE) == CONTENT


def test_a_misdirected_read_returns_another_place_once() -> None:
    notes = CountedNotes()
    disk = disk_with_file(notes)
    disk.faults.arm("misdirected_read", "file")
    file = disk.open_read(FILE)
    wrong = file.read_at(0, 600)
    assert wrong != CONTENT[:600] and wrong in CONTENT
    assert file.read_at(0, 600) == CONTENT[:600]
    assert notes.counts["fault.misdirected_read"] == 1


def test_in_a_journal_only_what_is_before_the_last_group_rots() -> None:
    header = FileHeader(file_id=1, salt=7)
    first = b"".join(encode_record(header, RecordType.FENCE, 1, FILE_HEADER_BYTES, bytes(8)))
    second_at = FILE_HEADER_BYTES + len(first)
    second = b"".join(encode_record(header, RecordType.FENCE, 2, second_at, bytes(8)))
    honest = encode_file_header(header) + first + second
    path = Path("/0000000000000001.journal")
    for seed in range(20):
        disk = new_disk(seed)
        disk.replace_file(path, honest + bytes(1000))
        assert disk.rot_settled(".journal") == path
        rotten = disk.read_file(path)
        assert rotten != honest + bytes(1000)
        assert rotten[:FILE_HEADER_BYTES] == honest[:FILE_HEADER_BYTES]
        assert rotten[second_at:] == second + bytes(1000)


@pytest.mark.parametrize("recent_bytes", [0, 10, 10_000])
def test_nor_does_a_single_bit_of_its_last_group(recent_bytes: int) -> None:
    """A bookie cannot tell it from a torn write, and would deny what it has acknowledged."""
    header = FileHeader(file_id=1, salt=7)
    first = b"".join(encode_record(header, RecordType.FENCE, 1, FILE_HEADER_BYTES, bytes(8)))
    second_at = FILE_HEADER_BYTES + len(first)
    second = b"".join(encode_record(header, RecordType.FENCE, 2, second_at, bytes(8)))
    offsets = set()
    for seed in range(200):
        disk = new_disk(seed)
        disk.replace_file(
            Path("/0000000000000001.journal"), encode_file_header(header) + first + second + bytes(1000)
        )
        found = disk.rot(".journal", recent_bytes=recent_bytes)
        assert found is not None
        offsets.add(found[1])
    lowest = {0: 0, 10: second_at - 10, 10_000: FILE_HEADER_BYTES}[recent_bytes]
    assert lowest <= min(offsets) and max(offsets) < second_at and len(offsets) > 5


def test_a_journal_with_one_group_does_not_rot() -> None:
    header = FileHeader(file_id=1, salt=7)
    disk = new_disk()
    record = b"".join(encode_record(header, RecordType.FENCE, 1, FILE_HEADER_BYTES, bytes(8)))
    disk.replace_file(Path("/0000000000000001.journal"), encode_file_header(header) + record)
    assert disk.rot_settled(".journal") is None


def test_a_disk_that_others_fill_is_nearly_full_and_takes_every_write() -> None:
    disk = disk_with_file()
    disk.nearly_full = True
    total, free = disk.free_space(Path("/"))
    assert 0.02 < free / total < 0.05
    disk.replace_file(FILE, CONTENT * 2)
    disk.nearly_full = False
    total, free = disk.free_space(Path("/"))
    assert free / total > 0.9


@pytest.mark.parametrize(
    ("path", "is_survived"),
    [
        ("/data/journal/0000000000000001.journal", True),
        ("/data/ledgers/entry-logs/0000000000000001.log", True),
        ("/data/ledgers/ledger-states", True),
        ("/data/ledgers/log-mark", False),
        ("/data/journal/VERSION", False),
    ],
)
def test_a_start_in_limbo_needs_cookies_and_the_log_mark(path: str, is_survived: bool) -> None:
    assert is_survived_unreadable(Path(path)) is is_survived
