"""The directories of a bookie that wrote entries once, as an earlier build has left them (docs/formats.md)."""

from __future__ import annotations

import asyncio
import tarfile
from functools import partial
from pathlib import Path

import pytest

from bookie_server.storage.ledger_storage import LedgerStorage
from tests.helpers.bookie.storage import KEY, add, durable, found_ids, open_storage
from tests.helpers.golden.single_write import (
    ARCHIVE,
    DELETED,
    ENTRIES,
    SINGLE_WRITE_BYTES_MIN,
    SMALL,
    entry_of,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "bookie"


async def check(storage: LedgerStorage) -> None:
    for ledger_id, count in ENTRIES.items():
        state = storage.ledger(ledger_id)
        assert state is not None
        assert (state.master_key, state.last_entry) == (KEY, count - 1)
        for each in range(count):
            found = await storage.read(state, each)
            assert found is not None
            assert bytes(found) == bytes(entry_of(ledger_id, each))
        assert await storage.read(state, count) is None
        assert state.fenced is (ledger_id == SMALL)
    small, deleted = storage.ledger(SMALL), storage.ledger(DELETED)
    assert small is not None
    assert (small.explicit_lac, small.lac) == (b"packet", 18)
    assert deleted is not None
    assert deleted.deleted


@pytest.mark.parametrize(
    "bytes_min", [SINGLE_WRITE_BYTES_MIN, 0], ids=["as it was", "written twice from now on"]
)
def test_it_opens_serves_and_goes_on(home: Path, bytes_min: int) -> None:
    async def main() -> None:
        storage = await open_storage(home, single_write_bytes_min=bytes_min)
        await check(storage)
        await add(storage, storage.create_ledger(9, KEY), range(100))
        await storage.checkpoint()
        await storage.remove_dead_logs()
        await check(storage)
        await storage.close()
        storage = await open_storage(home, single_write_bytes_min=bytes_min)
        await check(storage)
        assert await found_ids(storage, 9, 110) == list(range(100))
        for ledger_id in (*ENTRIES, 9):
            await durable(partial(storage.delete_ledger, ledger_id))
        await storage.checkpoint()
        await storage.remove_dead_logs()
        assert len(list((home / "journal").glob("*.journal"))) == 1, "nothing is kept of deleted ledgers"
        await storage.close()

    asyncio.run(main())
