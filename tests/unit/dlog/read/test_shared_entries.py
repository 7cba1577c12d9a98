"""What readers of one log in one client keep for each other of the entries that they decode."""

from __future__ import annotations

import gc

import pytest

from dlog.format.entry import Codec, decode_entry
from dlog.read.batch import MessageBatch
from dlog.read.config import ReaderConfig
from dlog.read.fetcher import Fetched
from dlog.read.reader import Reader
from tests.helpers.log.memory_ledgers import MemoryLog, entry_of, poll
from tests.helpers.log.reading import payloads, play

COUNT, MESSAGE_BYTES = 80, 500_000
KEPT_BYTES_MAX = 16 * 1024 * 1024


def decoded_bytes() -> int:
    """Of all batches in memory."""
    batches = [each for each in gc.get_objects() if isinstance(each, MessageBatch)]
    return sum(len(payload or b"") for batch in batches for payload in batch.payloads)


def fetched(reader: Reader) -> int:
    assert reader._fetcher is not None
    return sum(len(found.entries) for found in reader._fetcher._ready if isinstance(found, Fetched))


async def two_tails(log: MemoryLog, entry: bytes, config: ReaderConfig) -> tuple[Reader, Reader]:
    """They have fetched COUNT times this entry, and returned none of them."""
    ledger = log.add_ledger(3, (b"first",))
    await log.record(3)
    readers = log.reader(config=config), log.reader(config=config)
    for reader in readers:
        await anext(reader)
    ledger.entries += [entry] * COUNT
    ledger.confirm()
    await poll(lambda: all(fetched(reader) == COUNT for reader in readers))
    return readers


@pytest.mark.parametrize("fetch_entries_max", [1, COUNT])
@pytest.mark.parametrize("is_slow", [False, True], ids=["both return all", "one has fetched all"])
def test_what_is_decoded_for_others_is_bounded(
    request: pytest.FixtureRequest, fetch_entries_max: int, is_slow: bool
) -> None:
    pytest.importorskip("zstandard")

    async def scene(log: MemoryLog) -> None:
        entry = entry_of(bytes(MESSAGE_BYTES), codec=Codec.ZSTD)
        first, second = await two_tails(log, entry, ReaderConfig(fetch_entries_max=fetch_entries_max))
        for reader in [first] if is_slow else [first, second]:
            assert len(await payloads(reader, COUNT)) == COUNT
        in_use = 2 * MESSAGE_BYTES
        assert decoded_bytes() <= KEPT_BYTES_MAX + in_use
        if is_slow:
            assert await payloads(second, COUNT) == [bytes(MESSAGE_BYTES)] * COUNT
        for reader in (first, second):
            await reader.close()

    play(request, scene)


def test_what_is_decoded_for_others_is_bounded_across_ledgers(request: pytest.FixtureRequest) -> None:
    """One of two readers returns nothing, and has fetched what the other one has decoded of each ledger."""
    pytest.importorskip("zstandard")
    ledger_ids, count = (3, 4, 5), COUNT // 2

    async def scene(log: MemoryLog) -> None:
        entry = entry_of(bytes(MESSAGE_BYTES), codec=Codec.ZSTD)
        seals: dict[int, int] = {}
        readers = log.reader(), log.reader()
        for ledger_id in ledger_ids:
            ledger = log.add_ledger(ledger_id, (b"first",))
            await log.record(*ledger_ids[: ledger_ids.index(ledger_id) + 1], seals=seals)
            if not seals:
                assert [(await anext(reader)).payload for reader in readers] == [b"first"] * 2
            else:
                assert (await anext(readers[0])).payload == b"first"
            ledger.entries += [entry] * count
            ledger.confirm()
            await poll(lambda: fetched(readers[1]) == count + len(seals) * (count + 1))
            assert len(await payloads(readers[0], count)) == count
            ledger.seal()
            seals[ledger_id] = count
        assert decoded_bytes() <= KEPT_BYTES_MAX + 2 * MESSAGE_BYTES
        for reader in readers:
            await reader.close()

    play(request, scene)


def test_a_call_for_many_entries_decodes_few_large_ones(request: pytest.FixtureRequest) -> None:
    """For the second reader they are decoded already."""
    pytest.importorskip("zstandard")

    async def scene(log: MemoryLog) -> None:
        for reader in await two_tails(log, entry_of(bytes(MESSAGE_BYTES), codec=Codec.ZSTD), ReaderConfig()):
            assert len(await reader.next_items(COUNT)) == 3
            await reader.close()

    play(request, scene)


@pytest.mark.parametrize("fetch_entries_max", [1, COUNT])
def test_an_entry_is_decoded_once_for_all_readers(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, fetch_entries_max: int
) -> None:
    decoded = 0

    def count(payload: memoryview) -> object:
        nonlocal decoded
        decoded += 1
        return decode_entry(payload)

    async def scene(log: MemoryLog) -> None:
        entry = entry_of(*[b"%d" % number for number in range(1000)])
        readers = await two_tails(log, entry, ReaderConfig(fetch_entries_max=fetch_entries_max))
        monkeypatch.setattr("dlog.read.batch.decode_entry", count)
        for reader in readers:
            assert len(await payloads(reader, COUNT * 1000)) == COUNT * 1000
            await reader.close()
        assert decoded == COUNT

    play(request, scene)
