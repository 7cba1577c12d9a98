"""`bookie rebuild-index` where a full disk kept a compaction from noting what it did."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import pytest

from bookie_server.disk.disk import Disk
from bookie_server.errors import DiskFullError
from bookie_server.storage.index import Index
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.state_log import StateLog
from bookie_server.storage.rebuild.new_index import Rebuilt
from bookie_server.storage.rebuild.stopped import rebuild_index
from tests.helpers.bookie.storage import (
    COMPACTED_BELOW,
    KEY,
    add,
    durable,
    fence,
    found_ids,
    open_storage,
    small_config,
)
from tests.helpers.simulation.disk import new_disk, run

_HOME = Path("/bookie")
_FIRST_LOG = _HOME / "ledgers/entry-logs/0000000000000001.log"
_COUNT = 50


async def _opened(disk: Disk) -> LedgerStorage:
    return await open_storage(_HOME, disk, reserve_bytes=0, single_write_bytes_min=0)


async def _added(storage: LedgerStorage, ledger_id: int) -> None:
    await add(storage, storage.create_ledger(ledger_id, KEY), range(_COUNT))
    await storage.checkpoint()


async def _deleted(storage: LedgerStorage, ledger_id: int) -> None:
    await durable(partial(storage.delete_ledger, ledger_id))
    await storage.checkpoint()


def _rebuilt(disk: Disk) -> Rebuilt:
    return rebuild_index(disk, small_config(_HOME, reserve_bytes=0), lambda _: None)


async def _compacted_while_full(
    storage: LedgerStorage, monkeypatch: pytest.MonkeyPatch, kind: type, method: str
) -> None:
    """The log with the garbage is removed; what this method of the compaction was to write had no space."""

    def full(*_: object) -> None:
        raise DiskFullError("no space left", path=_HOME)

    with monkeypatch.context() as patched:
        patched.setattr(kind, method, full)
        assert (await storage.compact(COMPACTED_BELOW)).refusal
        assert await storage.remove_dead_logs() == 1


def test_the_log_that_replaced_a_missing_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state log knows of neither: it names the old log, and the new one comes after the last that it knows."""
    disk = new_disk()

    async def compact() -> None:
        storage = await _opened(disk)
        await _added(storage, 1)
        await _added(storage, 2)
        await _deleted(storage, 1)
        await _compacted_while_full(storage, monkeypatch, StateLog, "_put")
        disk.process_crash()

    async def check() -> None:
        storage = await _opened(disk)
        assert await found_ids(storage, 2, _COUNT) == list(range(_COUNT))
        assert storage.limbo
        await storage.close()

    run(compact())
    assert _rebuilt(disk).lost
    run(check())
    run(_repeated_start(disk))


async def _repeated_start(disk: Disk) -> None:
    """What is written next goes into another log than what was found."""
    storage = await _opened(disk)
    await _added(storage, 3)
    for ledger_id in (2, 3):
        assert await found_ids(storage, ledger_id, _COUNT) == list(range(_COUNT))
    await storage.close()


@pytest.mark.parametrize("then", ["a checkpoint", "a compaction"])
def test_the_log_after_the_current_one_is_not_written_over(
    monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """The index knows of no move into the compaction's log; the state log has its end, and leads a rebuild there."""
    disk = new_disk()

    def full(*_: object) -> None:
        raise DiskFullError("no space left", path=_HOME)

    async def compact() -> None:
        storage = await _opened(disk)
        for ledger_id in (1, 2):
            await _added(storage, ledger_id)
        await _deleted(storage, 1)
        with monkeypatch.context() as patched:
            patched.setattr(Index, "put_log_end", full)
            assert (await storage.compact(COMPACTED_BELOW)).refusal
        fenced = storage.ledger(2)
        assert fenced is not None
        await fence(storage, fenced)
        await storage.checkpoint()
        await storage.close()

    async def rebuild_and_begin_a_log() -> None:
        storage = await _opened(disk)
        await storage.rebuild_index()
        assert {each.log_id for each in storage._parts.index.intervals(2)} == {2}
        await _added(storage, 3)
        if then == "a compaction":
            assert (await storage.compact(COMPACTED_BELOW)).copied_bytes
        else:
            storage._parts.writer.end_log()
            await _added(storage, 4)
        await storage.close()

    async def check() -> None:
        storage = await _opened(disk)
        assert await found_ids(storage, 2, _COUNT) == list(range(_COUNT))
        await storage.close()

    run(compact())
    run(rebuild_and_begin_a_log())
    run(check())


@pytest.mark.parametrize("seed", range(4))
def test_a_removed_log_that_is_written_again_is_not_named_as_removed(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A power cut undoes the removal, and the index still has that log as the one to go on in."""
    disk = new_disk(seed)

    async def remove_current_log() -> None:
        storage = await _opened(disk)
        await _added(storage, 1)
        await _deleted(storage, 1)
        await _compacted_while_full(storage, monkeypatch, Index, "sync")

    async def write_again() -> None:
        storage = await _opened(disk)
        await _added(storage, 2)
        await storage.close()

    async def check() -> None:
        storage = await _opened(disk)
        assert await found_ids(storage, 2, _COUNT) == list(range(_COUNT))
        await storage.close()

    run(remove_current_log())
    with_log = [each for each in disk.legal_images(100, Random(1)) if _FIRST_LOG in each.files]
    assert with_log
    for image in with_log:
        disk.restore(image)
        run(write_again())
        _rebuilt(disk)
        run(check())
