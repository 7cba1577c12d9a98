"""Flipped bits damage blocks of the given ledgers, and no others."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from benchmarks.hour.bit_flips import flip_bits
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import StorageError
from bookie_server.journal.files import FIRST_POSITION
from bookie_server.journal.log_mark import encode_log_mark
from bookie_server.storage.entry_logs.format import encode_block, encode_file_header, file_name
from bookie_server.storage.entry_logs.scan import FoundBlock, scan
from bookie_server.storage.stored_entry import StoredEntry
from tests.helpers.bookie.storage import KEY, add, open_storage

ENTRY_BYTES = 500
LEDGERS = (5, 6, 7)
IN_EACH = 4
"""Blocks of a ledger."""


def entry_logs(bookie: Path) -> Path:
    return bookie / "ledgers" / "entry-logs"


def write_log(bookie: Path) -> None:
    """One entry log with blocks of three ledgers in turn."""
    for directory in (bookie / "journal", entry_logs(bookie)):
        directory.mkdir(parents=True)
    (bookie / "ledgers" / "log-mark").write_bytes(encode_log_mark(FIRST_POSITION))
    content = encode_file_header(1)
    for number in range(IN_EACH):
        for ledger_id in LEDGERS:
            ids = [2 * number, 2 * number + 1]
            entries: list[StoredEntry] = [bytes([ledger_id]) * ENTRY_BYTES for _ in ids]
            content += b"".join(encode_block(1, len(content), ledger_id, ids, entries))
    (entry_logs(bookie) / file_name(1)).write_bytes(content)


def intact_blocks(bookie: Path) -> set[tuple[int, int]]:
    """Ledger and first entry of each."""
    found = scan(SystemDisk(), entry_logs(bookie) / file_name(1), 1, None)
    return {(each.block.ledger_id, each.block.first) for each in found if isinstance(each, FoundBlock)}


def test_the_blocks_that_are_named_are_damaged_and_no_others(tmp_path: Path) -> None:
    write_log(tmp_path)
    before = intact_blocks(tmp_path)
    assert len(before) == IN_EACH * len(LEDGERS)
    flipped = flip_bits(tmp_path, 3, {5, 7}, random.Random(1))
    assert len(flipped) == 3
    assert {each.ledger_id for each in flipped} <= {5, 7}
    assert all(each.last == each.first + 1 for each in flipped)
    assert before - intact_blocks(tmp_path) == {(each.ledger_id, each.first) for each in flipped}


def test_no_more_blocks_are_damaged_than_there_are(tmp_path: Path) -> None:
    write_log(tmp_path)
    assert len(flip_bits(tmp_path, 100, {6}, random.Random(1))) == IN_EACH
    assert {ledger_id for ledger_id, _ in intact_blocks(tmp_path)} == {5, 7}


def test_entries_that_were_written_once_are_damaged_too(tmp_path: Path) -> None:
    """In journal files that no start replays: another would put the bookie into limbo."""

    async def main() -> None:
        storage = await open_storage(tmp_path, single_write_bytes_min=1)
        state = storage.create_ledger(5, KEY)
        for number in range(100):
            await add(storage, state, range(10 * number, 10 * number + 10))
        await storage.checkpoint()
        flipped = flip_bits(tmp_path, 3, {5}, random.Random(1))
        assert len(flipped) == 3
        await storage.forget_blocks()
        for block in flipped:
            with pytest.raises(StorageError):
                await storage.read(state, block.first)
        await storage.close()
        await (await open_storage(tmp_path, single_write_bytes_min=1)).close()

    asyncio.run(main())
