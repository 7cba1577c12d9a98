"""Bytes of entries that are written once: the body of a BLOCK record. Pure.

    offset  size  field
    0       8     ledger id    i64
    8       8     first entry  i64
    16      8     last entry   i64
    24      4     count        u32
    28      4     entry bytes  u32
    32      4n    lengths      count times u32
    32+4n   ...   entries as stored, ascending ids, one after the other

It is what an entry log has after the CRC of a block, so both are read alike. A block stays in its journal file after
the checkpoint, which only notes in the index where it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from bookie_server.errors import BlockDamagedError, JournalRecordError
from bookie_server.journal.record import (
    RECORD_HEADER_BYTES,
    FileHeader,
    Record,
    RecordType,
    decode_adds,
    decode_record,
)
from bookie_server.storage.entry_logs.format import Block, decode_facts, encode_facts
from bookie_server.storage.stored_entry import StoredEntry
from ledger.wire.entry import ENTRY_IDS, STORED_BYTES_MIN


def block_body(ledger_id: int, ids: Sequence[int], entries: Sequence[StoredEntry]) -> bytes:
    """The body of the record for these entries of one ledger; ids ascend."""
    return b"".join((encode_facts(ledger_id, ids, entries, sum(map(len, entries))), *entries))


def decode_body(body: memoryview) -> Block:
    """JournalRecordError if its checksum is right, and its content is not a block."""
    block = decode_facts(body, 0)
    if block is None or not all(_is(block.entry(each), block.ledger_id, each) for each in block.ids):
        raise JournalRecordError(f"a block record has {len(body)} bytes, which are not its entries")
    return block


def _is(entry: memoryview | None, ledger_id: int, entry_id: int) -> bool:
    if entry is None or len(entry) < STORED_BYTES_MIN:
        return False
    return ENTRY_IDS.unpack_from(entry)[:2] == (ledger_id, entry_id)


def read_block(
    header: FileHeader, data: memoryview, offset: int, ledger_id: int, path: object, *, apart: bool = False
) -> Block:
    """The block of the record that fills `data`, read from `offset` of its file. BlockDamagedError if it is not.

    `apart`: it is no view of `data`.
    """
    record = decode_record(header, data, 0, offset, apart=apart)
    if (
        record is not None
        and record.type is RecordType.BLOCK
        and len(data) == RECORD_HEADER_BYTES + len(record.body)
    ):
        block = decode_facts(record.body, 0, size=len(data))
        if block is not None and block.ledger_id == ledger_id:
            return block
    raise BlockDamagedError(
        f"journal file {path} is damaged at offset {offset}: read ledger {ledger_id} from other bookies",
        path=path,
        offset=offset,
        ledger_id=ledger_id,
    )


def entries_of(record: Record) -> Iterator[tuple[int, int, int, memoryview]]:
    """(ledger id, entry id, LAC, entry) of each add in a record of either kind, none in any other."""
    if record.type is RecordType.ADDS:
        yield from decode_adds(record.body)
    elif record.type is RecordType.BLOCK:
        block = decode_body(record.body)
        for entry_id in block.ids:
            entry = block.entry(entry_id)
            assert entry is not None, "a block holds what it lists"
            yield block.ledger_id, entry_id, ENTRY_IDS.unpack_from(entry)[2], entry


def in_blocks(
    runs: Sequence[tuple[Sequence[int], Sequence[StoredEntry]]], bytes_max: int
) -> Iterator[tuple[list[int], list[StoredEntry]]]:
    """Cut ascending runs into blocks of at most `bytes_max` bytes, but of at least one entry."""
    ids: list[int] = []
    entries: list[StoredEntry] = []
    room = bytes_max
    for run_ids, run_entries in runs:
        ends = list(accumulate(map(len, run_entries)))
        start = before = 0
        while start < len(ends):
            stop = bisect_right(ends, before + room)
            if stop <= start:  # the next entry does not fit any more; after a large one not even nothing fits
                if ids:
                    yield ids, entries
                    ids, entries, room = [], [], bytes_max
                    continue
                stop = start + 1
            ids += run_ids[start:stop]
            entries += run_entries[start:stop]
            room -= ends[stop - 1] - before
            start, before = stop, ends[stop - 1]
    if ids:
        yield ids, entries
