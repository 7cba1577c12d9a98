"""Replay tells a torn tail, which is cut silently, from damage to what had been synced."""

from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import JournalDamagedError, JournalRecordError
from bookie_server.journal.files import NEXT_FILE_BYTES, JournalFiles, file_ids
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import FILE_HEADER_BYTES, RECORD_HEADER_BYTES, Record, RecordType, file_name
from bookie_server.journal.replay import JournalDamage, ReplayEnd, list_records, reopen_at, replay

SEGMENT_BYTES = 64 * 1024
START = LogMark(1, FILE_HEADER_BYTES, 1)


def salt() -> int:
    return 0x5EED_0123_4567_89AB


def write_groups(directory: Path, groups: list[list[bytes]], segment_bytes: int = SEGMENT_BYTES) -> LogMark:
    """Write each list of bodies as one group; the position behind them."""
    directory.mkdir(exist_ok=True)
    files = JournalFiles.create(SystemDisk(), directory, segment_bytes, salt)
    for bodies in groups:
        assert files.write([(RecordType.FENCE, body) for body in bodies]) == (len(bodies), None)
    position = files.position
    files.close()
    return position


def read_back(
    directory: Path, *, accept_damage: bool = False, mark: LogMark = START
) -> tuple[list[bytes], ReplayEnd]:
    found: list[bytes] = []
    end = replay(
        SystemDisk(),
        directory,
        mark,
        lambda record: found.append(bytes(record.body)),
        accept_damage=accept_damage,
    )
    return found, end


GROUPS = [[b"a1", b"a2"], [b"b1" * 9], [b"c1", b"c2" * 5, b"c3"]]
ALL = [body for group in GROUPS for body in group]
BEFORE_LAST = ALL[:3]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    write_groups(tmp_path, GROUPS)
    return tmp_path / file_name(1)


def test_everything_written_is_replayed_in_order(tmp_path: Path) -> None:
    position = write_groups(tmp_path, GROUPS)
    found, end = read_back(tmp_path)
    assert found == ALL
    assert end.position == position
    assert not end.damaged


def test_a_file_that_was_cut_off_is_damage(journal: Path) -> None:
    """Each file has its size before its first record, and space for a NEXT_FILE record after its last one."""
    whole = journal.read_bytes()
    used = len(whole.rstrip(b"\0"))
    for size in range(FILE_HEADER_BYTES, used + NEXT_FILE_BYTES):
        journal.write_bytes(whole[:size])
        with pytest.raises(JournalDamagedError, match="too short"):
            read_back(journal.parent)
        found, end = read_back(journal.parent, accept_damage=True)
        assert found == ALL[: len(found)]
        assert end.damaged
        assert end.after_loss.file_id == 2, "nothing is written to it any more"
    journal.write_bytes(whole[: used + NEXT_FILE_BYTES])
    assert read_back(journal.parent)[0] == ALL


def test_a_torn_next_file_record_at_the_very_end_of_a_file_is_cut_silently(tmp_path: Path) -> None:
    """It is the only one that no other one needs space after."""
    body = bytes(SEGMENT_BYTES - FILE_HEADER_BYTES - RECORD_HEADER_BYTES - NEXT_FILE_BYTES)
    write_groups(tmp_path, [[body], [b"in the next file"]])
    path = tmp_path / file_name(1)
    whole = path.read_bytes()
    (tmp_path / file_name(2)).unlink()
    for size in range(len(whole) - NEXT_FILE_BYTES, len(whole)):
        path.write_bytes(whole[:size].ljust(len(whole), b"\0"))
        found, end = read_back(tmp_path)
        assert (found, end.damaged) == ([body], False)


def test_every_torn_write_of_the_last_group_is_cut_silently(journal: Path) -> None:
    """The size of a preallocated file survives a crash; the bytes that were not synced are zeros."""
    whole = journal.read_bytes()
    used = len(whole.rstrip(b"\0"))
    for size in range(whole.index(b"c1"), used + 1):
        journal.write_bytes(whole[:size].ljust(len(whole), b"\0"))
        found, _ = read_back(journal.parent)
        assert found[:3] == BEFORE_LAST
        assert found == ALL[: len(found)]


def test_a_flipped_bit_never_loses_a_synced_record_silently(journal: Path) -> None:
    """In all but the last group it is reported; in the last it looks like a torn write, unless it makes a record longer
    than its file."""
    whole = journal.read_bytes()
    used = len(whole.rstrip(b"\0"))
    last_group = read_back(journal.parent)[1].last_group.start
    records = [
        last_group,
        whole.index(b"c2" * 5) - RECORD_HEADER_BYTES,
        whole.index(b"c3") - RECORD_HEADER_BYTES,
    ]
    too_long = {8 * (each + 4) + bit for each in records for bit in range(16)}
    for bit in range(8 * FILE_HEADER_BYTES, 8 * used):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        journal.write_bytes(flipped)
        if bit // 8 < last_group:
            with pytest.raises(JournalDamagedError, match="limbo_on_damage"):
                read_back(journal.parent)
        else:
            found, end = read_back(journal.parent, accept_damage=True)
            assert found[:3] == BEFORE_LAST
            assert found == ALL[: len(found)]
            assert end.damaged == (bit in too_long)


def test_accepted_damage_loses_only_the_damaged_records(journal: Path) -> None:
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"a2", b"x2"))
    found, end = read_back(journal.parent, accept_damage=True)
    assert found == [b"a1", *ALL[2:]]
    assert end.damaged


def test_a_zeroed_page_in_the_middle_is_damage(journal: Path) -> None:
    whole = journal.read_bytes()
    journal.write_bytes(whole[:FILE_HEADER_BYTES] + bytes(40) + whole[FILE_HEADER_BYTES + 40 :])
    with pytest.raises(JournalDamagedError):
        read_back(journal.parent)


def test_old_records_after_the_tail_are_not_replayed(tmp_path: Path) -> None:
    """A file whose blocks hold an older journal's records, which have another salt."""
    write_groups(tmp_path, GROUPS * 20)
    path = tmp_path / file_name(1)
    old = path.read_bytes()
    path.unlink()
    files = JournalFiles.create(SystemDisk(), tmp_path, SEGMENT_BYTES, lambda: 4242)
    files.write([(RecordType.FENCE, b"new")])
    files.close()
    new = path.read_bytes()
    used = len(new.rstrip(b"\0"))
    for at in range(used, used + 200):
        path.write_bytes(new[:used] + old[used:at] + old[at:])
        assert read_back(tmp_path)[0] == [b"new"]


def test_a_full_file_is_sealed_and_the_journal_goes_on_in_the_next(tmp_path: Path) -> None:
    bodies = [bytes([number]) * 3000 for number in range(100)]
    write_groups(tmp_path, [[body] for body in bodies])
    assert len(file_ids(SystemDisk(), tmp_path)) > 3
    assert read_back(tmp_path)[0] == bodies


def test_a_record_larger_than_a_segment_gets_its_own_file(tmp_path: Path) -> None:
    bodies = [b"small", b"x" * (3 * SEGMENT_BYTES), b"small again"]
    write_groups(tmp_path, [bodies])
    assert read_back(tmp_path)[0] == bodies


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_missing_file_is_damage(tmp_path: Path, missing: int) -> None:
    """Also the last one: the file before it is sealed and names it."""
    write_groups(tmp_path, [[bytes(3000)] for _ in range(60)])
    assert file_ids(SystemDisk(), tmp_path) == [1, 2, 3]
    (tmp_path / file_name(missing)).unlink()
    with pytest.raises(JournalDamagedError, match="missing"):
        read_back(tmp_path)


@pytest.mark.parametrize(
    "header", [b"", bytes(FILE_HEADER_BYTES), b"DLOGJRNL" + bytes(FILE_HEADER_BYTES - 8)]
)
def test_a_file_without_its_header_is_damage_with_a_way_out(journal: Path, header: bytes) -> None:
    journal.write_bytes(header + journal.read_bytes()[len(header) :] if header else b"")
    for accept in (False, True):
        with pytest.raises(JournalDamagedError, match="restore it; if it is lost, start a new bookie"):
            read_back(journal.parent, accept_damage=accept)


def test_a_crash_between_naming_the_next_file_and_the_seal_is_no_damage(tmp_path: Path) -> None:
    write_groups(tmp_path, GROUPS)
    other = tmp_path / "other"
    other.mkdir()
    write_groups(other, [[bytes(3000)] for _ in range(60)])
    successor = (other / file_name(2)).read_bytes()
    (tmp_path / file_name(2)).write_bytes(successor[:FILE_HEADER_BYTES] + bytes(SEGMENT_BYTES))
    assert read_back(tmp_path)[0] == ALL
    assert file_ids(SystemDisk(), tmp_path) == [1]


def test_records_in_a_successor_of_an_unsealed_file_are_damage(tmp_path: Path) -> None:
    write_groups(tmp_path, [[bytes(3000)] for _ in range(60)])
    path = tmp_path / file_name(1)
    content = path.read_bytes()
    used = len(content.rstrip(b"\0"))
    path.write_bytes(content[: used - 20].ljust(len(content), b"\0"))
    with pytest.raises(JournalDamagedError):
        read_back(tmp_path)


def test_accepted_damage_at_the_end_of_a_file_loses_nothing_of_the_next(tmp_path: Path) -> None:
    bodies = [bytes([number]) * 3000 for number in range(60)]
    write_groups(tmp_path, [[body] for body in bodies])
    path = tmp_path / file_name(1)
    content = path.read_bytes()
    last = max(number for number in range(60) if bodies[number] in content)
    path.write_bytes(content[: content.index(bodies[last])].ljust(len(content), b"\0"))
    found, end = read_back(tmp_path, accept_damage=True)
    assert found == bodies[:last] + bodies[last + 1 :]
    assert end.damaged


def test_swapped_files_are_damage(tmp_path: Path) -> None:
    write_groups(tmp_path, [[bytes(3000)] for _ in range(60)])
    one, two = tmp_path / file_name(1), tmp_path / file_name(2)
    one.rename(tmp_path / "x")
    two.rename(one)
    (tmp_path / "x").rename(two)
    with pytest.raises(JournalDamagedError, match="contains journal file 2"):
        read_back(tmp_path)


def test_a_mark_after_the_end_is_damage(journal: Path) -> None:
    with pytest.raises(JournalDamagedError):
        read_back(journal.parent, mark=LogMark(1, 2 * SEGMENT_BYTES, 99))


def test_an_older_copy_that_ends_before_the_mark_is_damage(tmp_path: Path) -> None:
    """What came after the mark is in none of its records: with a torn tail at the mark it would be denied."""
    groups = [[b"a1", b"a2"], [b"b" * 9, bytes(100)], [b"c1", bytes(200)]]
    ends = [write_groups(tmp_path / str(count), groups[:count]) for count in range(4)]
    whole = (tmp_path / "3" / file_name(1)).read_bytes()
    for count, end in enumerate(ends):
        (tmp_path / str(count) / file_name(1)).write_bytes(whole[: end.offset].ljust(len(whole), b"\0"))
        for mark in ends[count + 1 :]:
            with pytest.raises(JournalDamagedError, match=f"offset {end.offset} .* as an older copy"):
                read_back(tmp_path / str(count), mark=mark)
            found, replayed = read_back(tmp_path / str(count), mark=mark, accept_damage=True)
            assert (found, replayed.damaged, replayed.after_loss.file_id) == ([], True, 2)
            listed = list_records(
                SystemDisk(), tmp_path / str(count) / file_name(1), 1, mark.offset, mark.sequence
            )
            [damage] = listed.found
            assert isinstance(damage, JournalDamage), "and offline commands report it"
            assert (damage.start, damage.end) == (end.offset, mark.offset)
        assert not read_back(tmp_path / str(count), mark=end)[1].damaged
        assert not list_records(SystemDisk(), tmp_path / str(count) / file_name(1), 1, end.offset, None).found


def test_damage_before_the_mark_does_not_matter(journal: Path) -> None:
    whole = journal.read_bytes()
    used = len(whole.rstrip(b"\0"))
    mark = read_back(journal.parent)[1].position
    for at in range(FILE_HEADER_BYTES, used):
        journal.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not read_back(journal.parent, mark=mark)[1].damaged


def test_writing_goes_on_after_a_cut_tail(journal: Path) -> None:
    """The torn bytes are zeroed, so that they can never be read behind a shorter new record."""
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"c2c2c2c2c2", b"c2c2c?c2c2"))
    found, end = read_back(journal.parent)
    assert found == [*BEFORE_LAST, b"c1"]
    segment = reopen_at(SystemDisk(), journal.parent, end)
    files = JournalFiles.resume(SystemDisk(), journal.parent, SEGMENT_BYTES, salt, segment, end.position)
    files.write([(RecordType.FENCE, b"d")])
    files.close()
    assert read_back(journal.parent)[0] == [*BEFORE_LAST, b"c1", b"d"]


def test_a_record_with_an_impossible_body_is_damage_even_at_the_end(tmp_path: Path) -> None:
    """Its checksum is right, so it may have been acknowledged: it is no torn tail."""
    write_groups(tmp_path, [[b"before"], [b"impossible"]])

    def handle(record: Record) -> None:
        if record.body == b"impossible":
            raise JournalRecordError("planted")
        found.append(bytes(record.body))

    found: list[bytes] = []
    with pytest.raises(JournalDamagedError, match="planted"):
        replay(SystemDisk(), tmp_path, START, handle)
    found.clear()
    end = replay(SystemDisk(), tmp_path, START, handle, accept_damage=True)
    assert (found, end.damaged, end.position.sequence) == ([b"before"], True, 3)


@pytest.mark.parametrize(
    "after", [[b"d1"], [b"x" * 36]], ids=["as long as the torn record", "as long as two"]
)
def test_no_record_of_a_torn_group_is_read_after_a_later_one(tmp_path: Path, after: list[bytes]) -> None:
    """The later record ends where one of the torn group begins, which was written whole and never acknowledged.

    With the next number it would be taken for a record, with a higher one for what follows damage.
    """
    write_groups(tmp_path, [[b"a1"], [b"b1", b"b2", b"b3"]])
    path = tmp_path / file_name(1)
    path.write_bytes(path.read_bytes().replace(b"b1", b"b?", 1))
    found, end = read_back(tmp_path)
    assert found == [b"a1"]
    segment = reopen_at(SystemDisk(), tmp_path, end)
    files = JournalFiles.resume(SystemDisk(), tmp_path, SEGMENT_BYTES, salt, segment, end.position)
    files.write([(RecordType.FENCE, body) for body in after])
    files.close()
    assert read_back(tmp_path)[0] == [b"a1", *after]
