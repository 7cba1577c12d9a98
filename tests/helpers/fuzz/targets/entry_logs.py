"""What a bookie stores next to its journal: entry logs, index records, ledger states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from bookie_server.errors import StorageError
from bookie_server.storage.entry_logs.format import (
    FILE_HEADER_BYTES,
    check_file_header,
    encode_block,
    encode_file_header,
    file_name,
)
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock, scan
from bookie_server.storage.index import ENTRY_MAX, Index, Interval, LogEnd, state_of, state_record
from bookie_server.storage.ledgers.state_log_format import (
    decode_log_ends,
    decode_state_file,
    encode_frame,
    log_end_record,
)
from bookie_server.storage.ledgers.state_log_format import encode_file_header as state_header
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.scrub.block_files import BlockFile
from bookie_server.storage.scrub.file_walk import FIRST_FILE, FilePosition, FileWalk
from bookie_server.storage.storage_paths import StoragePaths
from ledger.errors import ConfigurationError, CorruptionError
from tests.helpers.bookie.storage import make_entry
from tests.helpers.fuzz.cutting import Cutter
from tests.helpers.fuzz.file_images import ImageDisk, ImageKeyValues
from tests.helpers.fuzz.target import Target, plain

DIRECTORY = Path("/entry-logs")
LOG_ID = 3


# ---- entry logs


def log_files(data: bytes) -> None:
    """Any content behind a good header: what is found and what is damaged cover the file, block by block."""
    cutter = Cutter(data)
    with_end = cutter.below(2)
    content = encode_file_header(LOG_ID) + cutter.rest()
    _scan(content, len(content) - with_end * cutter.below(9))
    try:
        check_file_header(data, LOG_ID, "log")
    except StorageError:
        return


def damaged_logs(data: bytes) -> None:
    """Blocks are written and bytes change: what is found was written there, and without damage it is everything."""
    cutter = Cutter(data)
    damages = [(cutter.number(2), cutter.number()) for _ in range(cutter.below(4))]
    content = bytearray(encode_file_header(LOG_ID))
    written: dict[int, list[bytes]] = {}
    while cutter.left:
        ledger_id, first, count = cutter.number(), cutter.number(), 1 + cutter.below(5)
        ids = [first + each * (1 + first % 2) for each in range(count)]
        entries = [make_entry(ledger_id, each, payload=cutter.take(cutter.below(30))) for each in ids]
        written[len(content)] = list(map(bytes, entries))
        content += b"".join(encode_block(LOG_ID, len(content), ledger_id, ids, entries))
    for at, change in damages:
        content[at % len(content)] ^= change
    found = _scan(bytes(content), len(content))
    if not any(change for _, change in damages):
        assert found == written
    assert all(written[offset] == entries for offset, entries in found.items())


def _scan(content: bytes, end: int) -> dict[int, list[bytes]]:
    disk = ImageDisk()
    disk.files[DIRECTORY / file_name(LOG_ID)] = bytearray(content)
    found: dict[int, list[bytes]] = {}
    at = FILE_HEADER_BYTES
    for each in scan(disk, DIRECTORY / file_name(LOG_ID), LOG_ID, end):
        match each:
            case Damage(start=0):
                assert content[:FILE_HEADER_BYTES] != encode_file_header(LOG_ID)
            case Damage(start=start, end=stop):
                assert start == at < stop
                at = stop
            case FoundBlock(offset=offset, block=block):
                assert offset == at
                entries = [block.entry(entry_id) for entry_id in block.ids]
                assert None not in entries and block.first <= block.last
                found[offset] = [bytes(entry) for entry in entries if entry is not None]
                if len(block.ids):
                    assert list(map(bytes, block.consecutive(block.ids[0], 1))) == found[offset][:1]
                at += block.size
    assert at >= end
    _walk(disk, end, set(found))
    return found


def _walk(disk: ImageDisk, end: int, offsets: set[int]) -> None:
    """With an index that has lost everything, the scrubber finds the same blocks, in steps of any size."""
    walk = FileWalk(disk, cast(Index, _EmptyIndex()), StoragePaths(DIRECTORY.parent, DIRECTORY.parent))
    for bytes_max in (1, 2**20):
        found: list[int] = []
        position: FilePosition | None = FIRST_FILE
        while position is not None:
            step = walk.step([BlockFile(LOG_ID, end)], position, bytes_max)
            assert step.next is None or step.next.offset > position.offset
            found += [each.offset for each in step.unindexed]
            position = step.next
        assert sorted(found) == sorted(offsets)


class _EmptyIndex:
    """It knows each ledger, and none of its entries."""

    def overlapping(self, *_: int) -> Iterator[Interval]:
        return iter(())

    def bytes_in_log(self, *_: int) -> int:
        return 0

    def state(self, ledger_id: int) -> StoredLedger:
        state = StoredLedger(ledger_id, b"")
        state.last_entry = ENTRY_MAX
        return state


def log_block(data: bytes) -> None:
    """A block of any shape behind a checksum that is right: found with its entries, or damage."""
    from bookie_server.storage.entry_logs import format as layout
    from ledger.wire.crc32c import crc32c

    cutter = Cutter(data)
    facts, rest = cutter.take(24), cutter.rest()
    count, body = rest[:4], rest[4:]
    counted = min(int.from_bytes(count, "big") % 8, len(body) // 4)
    tail = facts.ljust(24, b"\0") + counted.to_bytes(4, "big") + (len(body) - 4 * counted).to_bytes(4, "big")
    place = layout._PLACE.pack(LOG_ID, FILE_HEADER_BYTES)
    crc = crc32c(tail + body, crc32c(place))
    block = layout.BLOCK_MAGIC + crc.to_bytes(4, "big") + tail + body
    _scan(encode_file_header(LOG_ID) + block, FILE_HEADER_BYTES + len(block))


# ---- index


def index_records(data: bytes) -> None:
    """Each kind of record with a value of any bytes: it is read, or refused with an error of the storage."""
    cutter = Cutter(data)
    kind, value = cutter.below(len(_KINDS)), cutter.rest()
    key, read = _KINDS[kind]
    try:
        read(Index(ImageKeyValues({key: value})))
    except (CorruptionError, ConfigurationError):
        return


def _look_up(index: Index) -> None:
    list(index.intervals(7))
    index.find(7, 5)
    index.last_covered(7)


_KINDS: tuple[tuple[bytes, Callable[[Index], object]], ...] = (
    (b"I" + (7).to_bytes(8, "big") + (3).to_bytes(8, "big"), _look_up),
    (b"S" + (7).to_bytes(8, "big"), lambda index: (index.state(7), list(index.ledger_ids()))),
    (b"L" + (3).to_bytes(8, "big") + (7).to_bytes(8, "big"), lambda index: index.append(7, [_INTERVAL])),
    (b"G", lambda index: index.generation()),
    (b"E", lambda index: index.log_end()),
    (b"M", lambda index: index.limbo_since()),
)
_INTERVAL = Interval(first=9, last=12, log_id=3, offset=64, block_bytes=100, dense=True)


def ledger_state(data: bytes) -> None:
    """The value of a state: what was read is written as it was, but for bits that mean nothing."""
    try:
        state = state_of(7, data)
    except CorruptionError:
        return
    _, value = state_record(state)
    again = state_of(7, value)
    names = [name for name in StoredLedger.__slots__ if not name.startswith("__")]
    assert [getattr(again, name) for name in names] == [getattr(state, name) for name in names]


def state_file(data: bytes) -> None:
    """First byte 0: a file as it is; else frames with right checksums around bodies of any content."""
    cutter = Cutter(data)
    if not cutter.below(2):
        decode_state_file(cutter.rest())
        return
    content = state_header()
    while cutter.left:
        generation, size = cutter.number(), cutter.number()
        content += _frame(len(content), generation, cutter.take(size))
    found = decode_state_file(content)
    assert found.generation <= 255
    assert replace(found, records={}) == decode_log_ends(content)


def _frame(offset: int, generation: int, body: bytes) -> bytes:
    from bookie_server.storage.ledgers import state_log_format as layout
    from ledger.wire.crc32c import crc32c

    rest = layout._FRAME.pack(layout._FRAME_MAGIC, 0, generation, len(body))[8:] + body
    crc = crc32c(rest, crc32c(layout._PLACE.pack(offset)))
    return layout._FRAME_MAGIC + crc.to_bytes(4, "big") + rest


# ---- inputs to start from


def _contents() -> Iterator[bytes]:
    entries = [make_entry(7, number) for number in (3, 4, 5)]
    block = b"".join(encode_block(LOG_ID, FILE_HEADER_BYTES, 7, [3, 4, 5], entries))
    sparse = b"".join(encode_block(LOG_ID, FILE_HEADER_BYTES, 7, [3, 5], entries[::2]))
    yield b"\0" + block
    yield b"\1" + sparse + block
    yield b"\0" + b"EBLK" * 9 + block[:50]
    yield encode_file_header(LOG_ID)


def _blocks() -> Iterator[bytes]:
    for content in _contents():
        if content[1:5] == b"EBLK":
            yield content[9:33] + content[33:37] + content[41:]
    yield bytes(24) + b"\0\0\0\1" + b"\0\0\0\x08" + bytes(8)


def _state_values() -> Iterator[bytes]:
    state = StoredLedger(7, b"k" * 20)
    yield state_record(state)[1]
    state.explicit_lac, state.explicit_lac_value, state.fenced = b"packet", 4, True
    yield state_record(state)[1]


def _index_values() -> Iterator[bytes]:
    store = ImageKeyValues({})
    index = Index(store)
    index.append(7, [Interval(3, 5, 3, 64, 100, True)])
    index.put_log_end(LogEnd(3, 164))
    index.set_limbo(2)
    index.sync(9)
    index.put_states([state_record(StoredLedger(7, b"k" * 20))])
    for number, (key, _) in enumerate(_KINDS):
        yield bytes([number]) + store.records[key]


def _state_files() -> Iterator[bytes]:
    frame = encode_frame(16, 4, [log_end_record(3, 164), *(state_record(StoredLedger(7, b"k" * 20)),)])
    yield b"\0" + state_header() + frame
    yield b"\1\4" + bytes([len(frame) - 20]) + frame[20:]
    yield b"\1\0\x17" + b"\0\x09\0\0\0\x08E" + (3).to_bytes(8, "big") + bytes(8)


TARGETS = [
    Target(name="entry-log-files", session=plain(log_files), corpus=_contents),
    Target(
        name="damaged-entry-logs",
        session=plain(damaged_logs),
        corpus=lambda: (b"\0" + bytes(range(60)), b"\1" * 50),
        input_bytes_max=256,
    ),
    Target(name="entry-log-blocks", session=plain(log_block), corpus=_blocks),
    Target(name="index-records", session=plain(index_records), corpus=_index_values),
    Target(name="ledger-states", session=plain(ledger_state), corpus=_state_values),
    Target(name="state-files", session=plain(state_file), corpus=_state_files),
]
