"""What a bookie's storage has promised while it worked, and the check that a boot keeps all of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.storage.ledger_storage import LedgerStorage
from tests.helpers.bookie.storage import (
    KEY,
    EntryRun,
    add,
    add_run,
    durable,
    fence,
    found_ids,
    make_entry,
    open_storage,
)

SETTINGS = {"journal_segment_bytes": 64 * 1024, "entry_log_bytes_max": 64 * 1024, "reserve_bytes": 0}
LARGE = bytes(range(256)) * 64
"""A payload of which four fill a journal file or an entry log."""


class Promises:
    """What has been acknowledged so far; grows on the loop, copied by the disk's hook."""

    def __init__(self) -> None:
        self.entries: dict[int, int] = {}
        """How many entries of each ledger, from 0 on."""
        self.large = 0
        """How many of ledger 4, whose payload is LARGE."""
        self.fenced: frozenset[int] = frozenset()
        self.deleted: frozenset[int] = frozenset()

    def copy(self) -> Promises:
        other = Promises()
        other.entries, other.large = dict(self.entries), self.large
        other.fenced, other.deleted = self.fenced, self.deleted
        return other


async def workload(directory: Path, disk: Disk, promises: Promises) -> None:
    """Adds to three ledgers, rolls of the journal and the entry log, checkpoints, a fence, a deletion."""
    storage = await open_storage(directory, disk, **SETTINGS)
    one, two, gone, large = (storage.create_ledger(ledger_id, KEY) for ledger_id in (1, 2, 3, 4))
    await add(storage, gone, range(5))
    for step in range(6):
        await add(storage, one, range(step * 60, step * 60 + 60))
        promises.entries[1] = step * 60 + 60
        await add(storage, two, [step])
        promises.entries[2] = step + 1
        run = EntryRun([step], [make_entry(4, step, payload=LARGE)])
        await durable(partial(add_run, storage, large, run))
        promises.large = step + 1
        if step in (1, 4):
            await storage.checkpoint()
        if step == 2:
            await fence(storage, two)
            promises.fenced = frozenset({2})
            await durable(lambda done: storage.delete_ledger(3, done))
            promises.deleted = frozenset({3})
    await storage.close()


async def check_boot(directory: Path, promises: Promises, *, go_on: bool, disk: Disk | None = None) -> None:
    """Open the storage, compare; with `go_on` also use it, close it and open it once more."""
    storage = await open_storage(directory, disk, **SETTINGS)
    await check_promises(storage, promises)
    if go_on:
        await add(storage, storage.ledger(9) or storage.create_ledger(9, KEY), range(3))
    await storage.close()
    if go_on:
        storage = await open_storage(directory, disk, **SETTINGS)
        assert await found_ids(storage, 9, 3) == [0, 1, 2]
        await storage.close()


async def check_promises(storage: LedgerStorage, promises: Promises) -> None:
    """Everything acknowledged is there as it was."""
    for ledger_id, count in promises.entries.items():
        found = await found_ids(storage, ledger_id, count)
        assert found == list(range(count)), f"ledger {ledger_id} lost entries"
    for entry_id in range(promises.large):
        large = storage.ledger(4)
        assert large is not None
        entry = await storage.read(large, entry_id)
        assert entry is not None
        assert bytes(entry) == bytes(make_entry(4, entry_id, payload=LARGE))
    for ledger_id in promises.fenced:
        state = storage.ledger(ledger_id)
        assert state is not None
        assert state.fenced
    for ledger_id in promises.deleted:
        state = storage.ledger(ledger_id)
        assert state is not None
        assert state.deleted
