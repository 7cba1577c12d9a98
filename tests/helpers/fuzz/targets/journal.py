"""A bookie's journal: its records, and the replay of files of any content."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from bookie_server.errors import CorruptionError, JournalDamagedError, JournalVersionError
from bookie_server.journal.block import block_body, decode_body
from bookie_server.journal.files import JournalFiles
from bookie_server.journal.log_mark import LogMark, decode_log_mark, encode_log_mark
from bookie_server.journal.record import (
    FILE_HEADER_BYTES,
    FileHeader,
    Record,
    RecordType,
    adds_body,
    decode_adds,
    decode_explicit_lac,
    decode_file_header,
    decode_key,
    decode_record,
    encode_file_header,
    encode_record,
    explicit_lac_body,
    file_name,
    key_body,
    ledger_body,
    ledger_of,
)
from bookie_server.journal.replay import reopen_at, replay
from ledger.errors import ConfigurationError
from ledger.wire.crc32c import crcmod_extend
from tests.helpers.bookie.storage import make_entry
from tests.helpers.fuzz.cutting import Cutter
from tests.helpers.fuzz.file_images import ImageDisk
from tests.helpers.fuzz.target import Target, plain

DIRECTORY = Path("/journal")
SALT = 0x1234_5678_9ABC_DEF0
HEADER = FileHeader(1, SALT)
START = LogMark(1, FILE_HEADER_BYTES, 1)
SEGMENT_BYTES = 1024
_slow_crc = crcmod_extend()


def journal_files(data: bytes) -> None:
    """Files of any content: first byte for what to begin with, then the content after a good header.

    Replay delivers only records whose checksum is right by another implementation, and raises nothing undeclared.
    """
    cutter = Cutter(data)
    shape, mark_at = cutter.number(), cutter.number()
    first = cutter.take(cutter.number(2) % 1500) if shape & 4 else cutter.rest()
    disk = ImageDisk()
    disk.files[DIRECTORY / file_name(1)] = bytearray(encode_file_header(HEADER) + first)
    if shape & 4:
        header = encode_file_header(FileHeader(2, SALT)) if shape & 8 else b""
        disk.files[DIRECTORY / file_name(2)] = bytearray(header + cutter.rest())
    mark = START if shape & 2 else LogMark(1, FILE_HEADER_BYTES + mark_at, 1)
    found: list[Record] = []
    try:
        end = replay(disk, DIRECTORY, mark, found.append, accept_damage=bool(shape & 1))
    except (JournalDamagedError, JournalVersionError):
        _check(found)
        return
    _check(found)
    _write_on(disk, end, [bytes(each.body) for each in found], mark, accept_damage=bool(shape & 1))


def _check(found: list[Record]) -> None:
    for record in found:
        head = struct.pack(">II", HEADER.marker, len(record.body))
        tail = struct.pack(">B3xQQ", record.type, record.sequence, record.group_start)
        place = record.offset.to_bytes(8, "big") if record.type is RecordType.BLOCK else b""
        crc = _slow_crc(0, SALT.to_bytes(8, "big") + place + head + tail + bytes(record.body))
        backing = bytes(record.body.obj)  # the whole file: the record begins 32 bytes before its body
        assert head + crc.to_bytes(4, "big") + tail + bytes(record.body) in backing


def _write_on(
    disk: ImageDisk, end: object, found: list[bytes], mark: LogMark, *, accept_damage: bool
) -> None:
    """Writing goes on where the replay ended, and the next replay finds the same and the new record."""
    segment = reopen_at(disk, DIRECTORY, end)  # type: ignore[arg-type]
    files = JournalFiles.resume(disk, DIRECTORY, SEGMENT_BYTES, lambda: SALT + 1, segment, end.position)  # type: ignore[attr-defined]
    files.write([(RecordType.FENCE, b"newest!!")])
    files.close()
    again: list[bytes] = []
    replay(
        disk, DIRECTORY, mark, lambda record: again.append(bytes(record.body)), accept_damage=accept_damage
    )
    assert again == [*found, b"newest!!"]


# ---- files that were written by us and then damaged


def damaged_journal(data: bytes) -> None:
    """Groups of records are written, then bytes change, the end is cut off, a file is lost.

    What replay delivers was written, in this order. Without damage it is all of it.
    """
    cutter = Cutter(data)
    accept, damage_count = cutter.below(2), cutter.below(4)
    damages = [(cutter.number(2), cutter.number()) for _ in range(damage_count)]
    written, disk = _journal(cutter)
    for place, change in damages:
        _damage(disk, place, change)
    found: list[bytes] = []
    try:
        end = replay(
            disk,
            DIRECTORY,
            START,
            lambda record: found.append(bytes(record.body)),
            accept_damage=bool(accept),
        )
    except (JournalDamagedError, JournalVersionError):
        assert damage_count
        return
    assert found == written if not damage_count else _in_order(found, written)
    if not end.damaged:
        assert found == written[: len(found)]  # the end may be torn, the middle may not
    _write_on(disk, end, found, START, accept_damage=bool(accept))


def _journal(cutter: Cutter) -> tuple[list[bytes], ImageDisk]:
    disk, written = ImageDisk(), []
    files = JournalFiles.create(disk, DIRECTORY, SEGMENT_BYTES, lambda: SALT)
    while cutter.left:
        group = []
        for _ in range(1 + cutter.below(4)):
            body = bytes([len(written) & 0xFF]) * (8 + cutter.number()) + cutter.take(4)
            written.append(body)
            group.append((RecordType.FENCE, body))
        files.write(group)
    files.close()
    return written, disk


def _damage(disk: ImageDisk, place: int, change: int) -> None:
    paths = sorted(disk.files)
    path = paths[place % len(paths)]
    content = disk.files[path]
    at = place % max(1, len(content))
    if change == 0 and path != paths[0]:
        del disk.files[path]
    elif change == 1:
        del content[at:]
    elif change == 2:
        content[at:] = bytes(len(content) - at)
    elif content:
        content[at] ^= change


def _in_order(found: list[bytes], written: list[bytes]) -> bool:
    rest = iter(written)
    return all(body in rest for body in found)


# ---- single parts


def journal_record(data: bytes) -> None:
    """A body of any content behind a checksum that is right: what reads it refuses it with JournalDamagedError."""
    cutter = Cutter(data)
    kind = list(RecordType)[cutter.below(len(RecordType))]
    body = cutter.rest()
    head, body = encode_record(HEADER, kind, 7, 512, body, 512)
    image = bytes(512) + head + body
    record = decode_record(HEADER, memoryview(image), 512)
    assert record is not None and (record.type, bytes(record.body)) == (kind, body)
    try:
        _READERS[kind](record.body)
    except CorruptionError:
        return


def _adds(body: memoryview) -> None:
    """The entries fill the body, and encode to it again."""
    entries = [bytes(entry) for _, _, _, entry in decode_adds(body)]
    assert adds_body(list(map(len, entries)), entries) == body


def _block(body: memoryview) -> None:
    """The same of a block of one ledger."""
    block = decode_body(body)
    entries = [entry for each in block.ids if (entry := block.entry(each)) is not None]
    assert block_body(block.ledger_id, block.ids, entries) == body


_READERS: dict[RecordType, Callable[[memoryview], object]] = {
    RecordType.ADDS: _adds,
    RecordType.LEDGER_KEY: decode_key,
    RecordType.FENCE: ledger_of,
    RecordType.EXPLICIT_LAC: decode_explicit_lac,
    RecordType.TOMBSTONE: ledger_of,
    RecordType.NEXT_FILE: ledger_of,
    RecordType.BLOCK: _block,
}


def journal_headers(data: bytes) -> None:
    """A file's header, and the log mark."""
    try:
        header = decode_file_header(data, "journal")
    except (CorruptionError, ConfigurationError):
        pass
    else:
        assert encode_file_header(header)[:FILE_HEADER_BYTES] == data[:FILE_HEADER_BYTES]
    try:
        mark = decode_log_mark(data, "mark")
    except (CorruptionError, ConfigurationError):
        return
    assert encode_log_mark(mark) == data


# ---- inputs to start from


def _bodies() -> list[tuple[RecordType, bytes]]:
    entries = [make_entry(7, number) for number in range(3)]
    return [
        (RecordType.LEDGER_KEY, key_body(7, b"k" * 20)),
        (RecordType.ADDS, adds_body(list(map(len, entries)), entries)),
        (RecordType.EXPLICIT_LAC, explicit_lac_body(7, 1, b"packet")),
        (RecordType.FENCE, ledger_body(7)),
        (RecordType.TOMBSTONE, ledger_body(8)),
        (RecordType.BLOCK, block_body(7, range(3), entries)),
    ]


def _contents() -> Iterator[bytes]:
    content, at, starts = b"", FILE_HEADER_BYTES, []
    for sequence, (kind, body) in enumerate(_bodies(), 1):
        starts.append(at)
        content += b"".join(encode_record(HEADER, kind, sequence, at, body, at))
        at = FILE_HEADER_BYTES + len(content)
    yield b"\x02\x00" + content
    yield b"\x03\x00" + content + bytes(100)
    yield b"\x01\x40" + content
    sealed = content + b"".join(
        encode_record(HEADER, RecordType.NEXT_FILE, len(_bodies()) + 1, at, ledger_body(2))
    )
    yield b"\x0e\x00" + len(sealed).to_bytes(2, "big") + sealed + bytes(40)
    yield b"\x0f\x00" + len(content).to_bytes(2, "big") + content + content


def _programs() -> Iterator[bytes]:
    yield b"\x00\x00" + bytes(range(40))
    yield b"\x01\x01\x02\x30\xff" + b"\x03\x80abcd" * 12
    yield b"\x01\x03\x01\x00\x00\x02\x80\x02\x00\x90\x01" + b"\x02\xf0xyz!" * 9


def _records() -> Iterator[bytes]:
    for kind, body in _bodies():
        yield bytes([kind - 1]) + body


TARGETS = [
    Target(name="journal-files", session=plain(journal_files), corpus=_contents, cost=2),
    Target(
        name="damaged-journals", session=plain(damaged_journal), corpus=_programs, input_bytes_max=256, cost=4
    ),
    Target(name="journal-records", session=plain(journal_record), corpus=_records),
    Target(
        name="journal-headers",
        session=plain(journal_headers),
        corpus=lambda: (encode_file_header(HEADER), encode_log_mark(START)),
    ),
]
