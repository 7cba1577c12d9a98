"""Replay around sectors that cannot be read: they are damage where a record is or may be, and nothing elsewhere."""

from pathlib import Path

import pytest

from bookie_server.errors import DiskFailedError, JournalDamagedError
from bookie_server.journal.files import JournalFiles, file_ids
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import FILE_HEADER_BYTES, RecordType, file_name
from bookie_server.journal.replay import ReplayEnd, reopen_at, replay
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.simulation.disk import new_disk

HOME = Path("/")
FILE = HOME / file_name(1)
START = LogMark(1, FILE_HEADER_BYTES, 1)
SEGMENT_BYTES = 64 * 1024
BODIES = [bytes([65 + number]) * 300 for number in range(20)]
RECORD_BYTES = 332
TAIL = FILE_HEADER_BYTES + RECORD_BYTES * len(BODIES)
SECTORS = [range(start, start + 512) for start in range(FILE_HEADER_BYTES, TAIL + 2048, 512)]


def filled(bad: range | None = None) -> SimulatedDisk:
    """One record for each group."""
    disk = new_disk()
    files = JournalFiles.create(disk, HOME, SEGMENT_BYTES, lambda: 77)
    for body in BODIES:
        files.write([(RecordType.FENCE, body)])
    files.close()
    if bad is not None:
        disk._media.bad_sectors[FILE] = [bad]
    return disk


def read_back(
    disk: SimulatedDisk, mark: LogMark = START, *, accept_damage: bool = False
) -> tuple[list[bytes], ReplayEnd]:
    found: list[bytes] = []
    end = replay(disk, HOME, mark, lambda each: found.append(bytes(each.body)), accept_damage=accept_damage)
    return found, end


def write_on(disk: SimulatedDisk, end: ReplayEnd, body: bytes) -> None:
    segment = reopen_at(disk, HOME, end)
    if end.lost_bytes:
        segment.file.close()
        files = JournalFiles.create(disk, HOME, SEGMENT_BYTES, lambda: 78, end.after_loss)
    else:
        files = JournalFiles.resume(disk, HOME, SEGMENT_BYTES, lambda: 78, segment, end.position)
    files.write([(RecordType.FENCE, body)])
    files.close()


def touched(bad: range) -> list[int]:
    """Which bodies are in part in these bytes."""
    starts = [(number, FILE_HEADER_BYTES + RECORD_BYTES * number) for number in range(len(BODIES))]
    return [number for number, at in starts if at < bad.stop and bad.start < at + RECORD_BYTES]


@pytest.mark.parametrize("bad", SECTORS, ids=str)
def test_a_record_in_a_bad_sector_is_damage_and_only_such_records_are_lost(bad: range) -> None:
    lost = touched(bad)
    may_be_lost = lost or bad.start <= TAIL < bad.stop
    if may_be_lost:
        with pytest.raises(JournalDamagedError, match="limbo_on_damage"):
            read_back(filled(bad))
    disk = filled(bad)
    found, end = read_back(disk, accept_damage=True)
    assert found == [body for number, body in enumerate(BODIES) if number not in lost]
    assert end.damaged == bool(may_be_lost)
    write_on(disk, end, b"newest")
    again, end = read_back(disk, accept_damage=True)
    assert again == [*found, b"newest"]
    assert end.damaged == bool(may_be_lost)
    disk._media.bad_sectors.clear()  # it can be read again
    assert read_back(disk, accept_damage=True)[0][-1] == b"newest"


@pytest.mark.parametrize("bad", SECTORS, ids=str)
@pytest.mark.parametrize("replayed_from", [10, len(BODIES)])
def test_a_bad_sector_before_the_mark_does_not_matter(bad: range, replayed_from: int) -> None:
    mark = LogMark(1, FILE_HEADER_BYTES + RECORD_BYTES * replayed_from, 1 + replayed_from)
    if bad.stop <= mark.offset:
        disk = filled(bad)
        found, end = read_back(disk, mark)
        assert (found, end.damaged) == (BODIES[replayed_from:], False)
        write_on(disk, end, b"newest")
        assert read_back(disk, mark)[0] == [*found, b"newest"]


def test_a_bad_sector_after_the_tail_is_written_again_before_a_record_comes_there() -> None:
    bad = range(TAIL - TAIL % 512 + 1024, TAIL - TAIL % 512 + 1536)
    disk = filled(bad)
    write_on(disk, read_back(disk)[1], b"newest")
    disk.read_file(FILE)


@pytest.mark.parametrize("at", [512, 4096])
def test_a_successor_whose_first_record_cannot_be_read_is_not_taken_for_an_empty_one(at: int) -> None:
    """The file before it ends without a NEXT_FILE record: with nothing in the successor, a crash came in between."""
    disk = filled()
    JournalFiles.create(disk, HOME, SEGMENT_BYTES, lambda: 78, LogMark(2, FILE_HEADER_BYTES, 21)).close()
    disk._media.bad_sectors[HOME / file_name(2)] = [range(at, at + 512)]
    if at == FILE_HEADER_BYTES:
        with pytest.raises(JournalDamagedError, match="NEXT_FILE"):
            read_back(disk)
    else:
        assert read_back(disk)[0] == BODIES
        assert file_ids(disk, HOME) == [1]


def test_nothing_is_read_of_a_file_without_its_header() -> None:
    with pytest.raises(DiskFailedError):
        read_back(filled(range(512)), accept_damage=True)


def test_writing_goes_on_behind_a_lost_record_of_the_last_group() -> None:
    """And of the end of the group before: what cannot be read cannot be written again."""
    disk = new_disk()
    files = JournalFiles.create(disk, HOME, SEGMENT_BYTES, lambda: 77)
    files.write([(RecordType.FENCE, b"a" * 5000)])
    files.write([(RecordType.FENCE, b"b" * 3000), (RecordType.FENCE, b"c" * 9000)])
    files.close()
    disk._media.bad_sectors[FILE] = [range(4096, 8192)]
    for _ in range(2):
        found, end = read_back(disk, accept_damage=True)
        assert found == [b"c" * 9000] and end.damaged
        reopen_at(disk, HOME, end).file.close()
