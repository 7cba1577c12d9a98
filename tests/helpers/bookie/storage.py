"""What tests of the bookie's storage share: entries, small settings, and calls that wait until durable."""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from bookie_server.disk.disk import Disk
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.ledger_storage import LedgerStorage, OnDurable
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from bookie_server.storage.start.first_files import journal_is_unused, ledgers_are_unused, make_first_files
from bookie_server.storage.stored_entry import StoredEntry
from ledger.environment import Environment, SystemEnvironment
from ledger.wire.crc32c import crc32c

KEY = b"k" * 20
COMPACTED_BELOW = 0.99
"""A threshold for compactions that leave next to nothing as it is."""
_HEADER = struct.Struct(">qqqq")


def make_entry(
    ledger_id: int, entry_id: int, *, lac: int | None = None, payload: bytes | None = None
) -> memoryview:
    """An entry as a client with CRC32C sends it."""
    payload = b"payload of %d/%d " % (ledger_id, entry_id) * 3 if payload is None else payload
    header = _HEADER.pack(ledger_id, entry_id, entry_id - 1 if lac is None else lac, 7 * entry_id)
    return memoryview(header + crc32c(payload, crc32c(header)).to_bytes(4, "big") + payload)


class EntryRun(NamedTuple):
    """Entries of one ledger, to be added together."""

    ids: list[int]
    entries: list[StoredEntry]


def run_of(ledger_id: int, ids: Iterable[int]) -> EntryRun:
    chosen = list(ids)
    return EntryRun(chosen, [make_entry(ledger_id, entry_id) for entry_id in chosen])


def small_config(directory: Path, **changes: object) -> StorageConfig:
    """Tiny limits, so that a few entries roll, flush and fill; no background surprises."""
    settings: dict[str, object] = {
        "journal_segment_bytes": 64 * 1024,
        "write_cache_bytes_max": 256 * 1024,
        "entry_log_bytes_max": 256 * 1024,
        "block_bytes_max": 2 * 1024,
        "read_ahead_bytes": 16 * 1024,
        "read_cache_bytes_max": 64 * 1024,
        "reserve_bytes": 64 * 1024,
        "disk_usage_max": 1.0,
        "disk_usage_writable": 1.0,
        "disk_check_interval_s": 3600.0,
        "checkpoint_interval_s": 3600.0,
        "compaction_bytes_per_s": 2**40,
        "read_worker_count": 1,
        "single_write_bytes_min": SINGLE_WRITE.get(),
    }
    settings.update(changes)
    return StorageConfig(
        journal_directory=directory / "journal",
        ledger_directory=directory / "ledgers",
        **settings,  # type: ignore[arg-type]  # the names are StorageConfig's
    )


SINGLE_WRITE: ContextVar[int] = ContextVar("SINGLE_WRITE", default=0)
"""`single_write_bytes_min` of storages that are configured without one: tests that both kinds must pass set it."""


async def open_storage(directory: Path, disk: Disk | None = None, **changes: object) -> LedgerStorage:
    """Open the storage in this directory; a new one is made first, as a bookie's first start does it."""
    config, disk, environment = small_config(directory, **changes), disk or SystemDisk(), SystemEnvironment()
    worker = disk.worker("first-start")
    try:
        await worker.run(lambda: _make_if_new(disk, config, environment))
    finally:
        await worker.close()
    return await LedgerStorage.open(config, disk, environment)


def _make_if_new(disk: Disk, config: StorageConfig, environment: Environment) -> None:
    journal, ledgers = config.journal_directory, config.ledger_directory
    for each in (journal, ledgers):
        disk.make_directory(each)
    journal_unused = journal_is_unused(disk, journal, set(disk.list(journal)))
    if journal_unused and ledgers_are_unused(disk, ledgers, set(disk.list(ledgers))):
        make_first_files(disk, config, environment.token)


def copy_as_after_kill(source: Path, target: Path) -> Path:
    """The files as a process killed now would leave them.

    Once more from the beginning if one was renamed on the way: the room worker makes the journal's next file.
    """
    while True:
        try:
            return Path(shutil.copytree(source, target))
        except shutil.Error:
            shutil.rmtree(target)


def add_run(storage: LedgerStorage, state: StoredLedger, run: EntryRun, on_durable: OnDurable) -> None:
    storage.add([(state, run)], lambda _adds, error: on_durable(error))


def set_lac(
    storage: LedgerStorage, state: StoredLedger, packet: bytes, lac: int, on_durable: OnDurable
) -> None:
    storage.set_explicit_lacs([(state, packet, lac)], on_durable)


async def durable(call: Callable[[OnDurable], None]) -> None:
    """Make the call and wait for its on_durable; raise what it brings."""
    outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    call(outcome.set_result)
    error = await outcome
    if error is not None:
        raise error


async def add(storage: LedgerStorage, state: StoredLedger, ids: Iterable[int]) -> None:
    await durable(lambda done: add_run(storage, state, run_of(state.ledger_id, ids), done))


async def fence(storage: LedgerStorage, state: StoredLedger) -> None:
    await durable(lambda done: storage.fence(state, done))


async def found_ids(storage: LedgerStorage, ledger_id: int, up_to: int) -> list[int]:
    """Ids below `up_to` that a read finds, each checked to hold the right bytes."""
    state = storage.ledger(ledger_id)
    if state is None:
        return []
    found = []
    for entry_id in range(up_to):
        entry = await storage.read(state, entry_id)
        if entry is not None:
            assert bytes(entry) == bytes(make_entry(ledger_id, entry_id))
            found.append(entry_id)
    return found
