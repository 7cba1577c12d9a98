"""What the blocks that were read lately keep in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bookie_server.storage.block_cache import BLOCK_OVERHEAD_BYTES, BlockCache
from bookie_server.storage.entry_logs.format import Block, decode_block, encode_block
from bookie_server.storage.entry_reader import EntryReader
from bookie_server.storage.ledger_storage import LedgerStorage
from tests.helpers.bookie.storage import KEY, EntryRun, add_run, durable, make_entry, open_storage

_ENTRIES = 30


async def _added(storage: LedgerStorage, ledger_id: int, entry_id: int, payload_bytes: int) -> None:
    state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
    run = EntryRun([entry_id], [make_entry(ledger_id, entry_id, payload=bytes(payload_bytes))])
    await durable(lambda done: add_run(storage, state, run, done))


@pytest.mark.parametrize("single_write_bytes_min", [0, 1])
def test_small_blocks_that_were_read_together_keep_only_their_bytes(
    tmp_path: Path, single_write_bytes_min: int
) -> None:
    """Of a ledger that trickles: one read brings many, and what other ledgers wrote between them."""

    async def run() -> None:
        changes = {
            "single_write_bytes_min": single_write_bytes_min,
            "write_cache_bytes_max": 2**26,
            "entry_log_bytes_max": 2**30,
            "journal_segment_bytes": 2**23,
            "block_bytes_max": 64 * 1024,
            "read_ahead_bytes": 2**20,
            "read_cache_bytes_max": 2**20,
        }
        storage = await open_storage(tmp_path, **changes)
        for entry_id in range(_ENTRIES):
            await _added(storage, 1, entry_id, 100)
            await _added(storage, 2, entry_id, 60_000)
            await storage.checkpoint()
        await storage.close()

        storage = await open_storage(tmp_path, **changes)
        try:
            state = storage.ledger(1)
            assert state is not None
            for entry_id in range(_ENTRIES):
                assert await storage.read(state, entry_id) == make_entry(1, entry_id, payload=bytes(100))
            cache = storage._reader._cache
            buffers = {id(block._data.obj): memoryview(block._data.obj) for block in cache._blocks.values()}
            assert len(cache._blocks) == _ENTRIES
            assert (
                sum(len(each) for each in buffers.values())
                < cache._bytes
                < 2 * _ENTRIES * BLOCK_OVERHEAD_BYTES
            )
        finally:
            await storage.close()

    asyncio.run(run())


@pytest.mark.parametrize("single_write_bytes_min", [0, 1])
def test_a_batch_takes_what_was_read_ahead_also_if_the_cache_forgets_it(
    tmp_path: Path, single_write_bytes_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where more ledgers are read than the cache has capacity for: else each entry costs a read-ahead of its own."""
    loads: list[int] = []
    load = EntryReader.load

    async def counted(
        self: EntryReader, ledger_id: int, entry_id: int, *, sequential: bool = False
    ) -> list[Block]:
        loads.append(entry_id)
        return await load(self, ledger_id, entry_id, sequential=sequential)

    async def run() -> None:
        changes = {
            "single_write_bytes_min": single_write_bytes_min,
            "write_cache_bytes_max": 2**20,
            "entry_log_bytes_max": 2**30,
            "read_ahead_bytes": 2**16,
            "read_cache_bytes_max": 2 * BLOCK_OVERHEAD_BYTES,
        }
        storage = await open_storage(tmp_path, **changes)
        for entry_id in (*range(10), *range(11, _ENTRIES)):
            await _added(storage, 1, entry_id, 100)
            await storage.checkpoint()
        await storage.close()

        storage = await open_storage(tmp_path, **changes)
        try:
            state = storage.ledger(1)
            assert state is not None
            for first, end in ((0, 10), (11, _ENTRIES), (15, 20)):
                found = await storage.read_batch(state, first, end - first, 2**20)
                expected = [make_entry(1, entry_id, payload=bytes(100)) for entry_id in range(first, end)]
                assert found == expected
                assert loads == [first]
                loads.clear()
        finally:
            await storage.close()

    monkeypatch.setattr(EntryReader, "load", counted)
    asyncio.run(run())


def test_a_batch_ends_where_it_is_asked_to_although_more_was_read_ahead(tmp_path: Path) -> None:
    """Next comes a block with a gap, which gives its entries one at a time."""

    async def run() -> None:
        storage = await open_storage(tmp_path, read_ahead_bytes=2**16)
        state = storage.create_ledger(1, KEY)
        for ids in ([0, 1], [2, 4]):
            entries = [make_entry(1, entry_id) for entry_id in ids]
            await durable(
                lambda done, ids=ids, entries=entries: add_run(storage, state, EntryRun(ids, entries), done)
            )
            await storage.checkpoint()
        await storage.close()

        storage = await open_storage(tmp_path, read_ahead_bytes=2**16)
        try:
            loaded = storage.ledger(1)
            assert loaded is not None
            assert await storage.read_batch(loaded, 0, 2, 2**20) == [make_entry(1, 0), make_entry(1, 1)]
            assert len(await storage.read_batch(loaded, 0, 9, 2**20)) == 3
        finally:
            await storage.close()

    asyncio.run(run())


def _block(ledger_id: int, ids: list[int]) -> Block:
    parts = encode_block(1, 64, ledger_id, ids, [bytes(make_entry(ledger_id, each)) for each in ids])
    return decode_block(memoryview(b"".join(parts)), 1, 64, ledger_id, "a log")


def test_a_block_takes_more_of_the_cache_than_its_bytes() -> None:
    cache = BlockCache(10 * BLOCK_OVERHEAD_BYTES)
    for ledger_id in range(20):
        cache.put(_block(ledger_id, [3]))
    kept = [each for each in range(20) if cache.block(each, 3) is not None]
    assert 5 < len(kept) < 10
    assert kept == list(range(20 - len(kept), 20)), "those that were used last"
    for ledger_id in kept:
        cache.drop(ledger_id)
    assert cache._bytes == 0


def test_a_block_of_small_entries_takes_more_of_the_cache_than_one_large_entry() -> None:
    dense, gaps = _block(1, list(range(100))), _block(1, list(range(0, 200, 2)))
    costs = []
    for block in (dense, gaps):
        cache = BlockCache(2**20)
        cache.put(block)
        costs.append(cache._bytes - block.size - BLOCK_OVERHEAD_BYTES)
    assert costs[1] == 2 * costs[0] > 100 * 32
