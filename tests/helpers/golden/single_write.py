"""Makes tests/vectors/bookie/written-once.tar.gz: the directories of a killed bookie that writes entries once.

    python -m tests.helpers.golden.single_write

It is made once for each version of the format, and never again: the tests open what that version wrote.
"""

from __future__ import annotations

import asyncio
import tarfile
import tempfile
from functools import partial
from pathlib import Path

from bookie_server.storage.ledger_storage import LedgerStorage
from tests.helpers.bookie.storage import (
    KEY,
    EntryRun,
    add_run,
    copy_as_after_kill,
    durable,
    fence,
    make_entry,
    open_storage,
    set_lac,
)
from tests.helpers.repository import ROOT

ARCHIVE = ROOT / "tests" / "vectors" / "bookie" / "written-once.tar.gz"
PAYLOAD = bytes(range(256)) * 16
SINGLE_WRITE_BYTES_MIN = 2000
LARGE, SMALL, MIXED, DELETED = 1, 2, 3, 4
ENTRIES = {LARGE: 30, SMALL: 20, MIXED: 12}
"""How many entries each ledger has, from 0 on."""


def entry_of(ledger_id: int, entry_id: int) -> memoryview:
    """Every other entry of MIXED is large."""
    large = ledger_id in (LARGE, DELETED) or (ledger_id == MIXED and entry_id % 2 == 0)
    return make_entry(ledger_id, entry_id, payload=PAYLOAD if large else None)


async def _add(storage: LedgerStorage, ledger_id: int, first: int, stop: int) -> None:
    state = storage.ledger(ledger_id) or storage.create_ledger(ledger_id, KEY)
    for each in range(first, stop):
        run = EntryRun([each], [entry_of(ledger_id, each)])
        await durable(partial(add_run, storage, state, run))


async def fill(storage: LedgerStorage) -> None:
    """Half of it before a checkpoint, half of it only in the journal."""
    for ledger_id, count in ENTRIES.items():
        await _add(storage, ledger_id, 0, count // 2)
    await _add(storage, DELETED, 0, 20)
    await durable(partial(storage.delete_ledger, DELETED))
    await storage.checkpoint()
    for ledger_id, count in ENTRIES.items():
        await _add(storage, ledger_id, count // 2, count)
    small = storage.ledger(SMALL)
    assert small is not None
    await fence(storage, small)
    await durable(partial(set_lac, storage, small, b"packet", 15))


async def _make(home: Path) -> None:
    storage = await open_storage(home / "bookie", single_write_bytes_min=SINGLE_WRITE_BYTES_MIN)
    await fill(storage)
    copy_as_after_kill(home / "bookie", home / "killed")
    await storage.close()


def main() -> None:
    ARCHIVE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(_make(Path(name)))
        with tarfile.open(ARCHIVE, "w:gz") as archive:
            archive.add(Path(name) / "killed", "bookie")


if __name__ == "__main__":
    main()
