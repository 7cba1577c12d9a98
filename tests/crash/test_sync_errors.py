"""The first write or sync error ends the storage: nothing is retried, nothing that waited is acknowledged."""

import asyncio
from pathlib import Path

import pytest

from bookie_server.disk import system_disk
from bookie_server.disk.durable import until_durable
from bookie_server.errors import DiskFailedError
from bookie_server.journal.files import JournalFiles
from bookie_server.storage.ledger_storage import LedgerStorage
from ledger.errors import LogStoreError
from tests.helpers.bookie.storage import KEY, add, add_run, found_ids, open_storage, run_of
from tests.helpers.crash.forgetful_disk import FailingDisk


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_journal_error_stops_the_storage_for_good(tmp_path: Path, kind: str, number: int) -> None:
    disk = FailingDisk(kind, ".journal", number)

    async def main() -> int:
        storage = await open_storage(tmp_path / "bookie", disk)
        failures: list[Exception] = []
        storage.on_failure = failures.append
        state = storage.create_ledger(1, KEY)
        await add(storage, state, [0])
        disk.armed = True
        acked = 1
        with pytest.raises(DiskFailedError, match="injected"):
            while True:
                await add(storage, state, [acked])
                acked += 1
        assert failures == [storage.failed]
        for _ in range(3):
            with pytest.raises(DiskFailedError, match="injected"):
                await add(storage, state, [acked])
        await storage.wait_for_room()
        await storage.close()
        assert disk.failed_count == 1
        return acked

    acked = asyncio.run(main())

    async def after_restart() -> None:
        storage = await open_storage(disk.image(tmp_path / "bookie", tmp_path / "image"))
        assert (await found_ids(storage, 1, acked))[:acked] == list(range(acked))
        await storage.close()

    asyncio.run(after_restart())


def test_nothing_queued_after_a_failed_sync_is_acknowledged(tmp_path: Path) -> None:
    """The next group is on its way before the loop hears of the error; it must not reach the file."""
    disk = FailingDisk("sync", ".journal", 1)

    async def main() -> list[Exception | None]:
        storage = await open_storage(tmp_path / "bookie", disk)
        state = storage.create_ledger(1, KEY)
        await add(storage, state, [0])
        outcomes: list[Exception | None] = []
        disk.armed = True
        disk.delay_s = 0.02
        for entry_id in range(1, 40):
            add_run(storage, state, run_of(1, [entry_id]), outcomes.append)
            await asyncio.sleep(0.001)
        await storage.close()
        return outcomes

    outcomes = asyncio.run(main())
    assert len(outcomes) == 39
    first_error = next(index for index, outcome in enumerate(outcomes) if outcome is not None)
    assert all(isinstance(outcome, DiskFailedError) for outcome in outcomes[first_error:])


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("write", "entry-logs"),
        ("sync", "entry-logs"),
        ("sync", "index"),
        ("write", "log-mark"),
        ("sync", "log-mark"),
    ],
)
def test_an_error_of_a_checkpoint_never_advances_the_log_mark(tmp_path: Path, kind: str, part: str) -> None:
    disk = FailingDisk(kind, part, 1)
    log_mark = tmp_path / "bookie" / "ledgers" / "log-mark"

    async def main() -> None:
        storage = await open_storage(tmp_path / "bookie", disk, checkpoint_interval_s=0.005)
        failures: list[Exception] = []
        storage.on_failure = failures.append
        disk.armed = True
        await add(storage, storage.create_ledger(1, KEY), range(50))
        with pytest.raises(LogStoreError, match="injected"):
            await storage.checkpoint()
        assert disk.failed_count == len(failures) == 1
        assert isinstance(storage.failed, LogStoreError)
        mark = log_mark.read_bytes()
        with pytest.raises(LogStoreError, match="injected"):
            await storage.checkpoint()
        await storage.check_disk()
        await asyncio.sleep(0.05)  # ten times over, a checkpoint would begin by itself
        assert log_mark.read_bytes() == mark
        await storage.close()

    asyncio.run(main())

    async def after_restart() -> None:
        storage = await open_storage(disk.image(tmp_path / "bookie", tmp_path / "image"))
        assert await found_ids(storage, 1, 60) == list(range(50))
        await storage.close()

    asyncio.run(after_restart())


def test_an_error_of_other_work_ends_the_storage_too(tmp_path: Path) -> None:
    """The next sync of a file that could not be synced may succeed, without what was lost."""

    async def main(work: str, part: str, cancelled: bool) -> None:
        disk = FailingDisk("sync", part, 1)
        storage = await open_storage(
            tmp_path / f"{work} {part} {cancelled}", disk, entry_log_bytes_max=16 * 1024
        )
        failures: list[Exception] = []
        failed = asyncio.Event()
        storage.on_failure = lambda error: (failures.append(error), failed.set())
        await add(storage, storage.create_ledger(1, KEY), range(200))
        await storage.checkpoint()
        await until_durable(lambda on_durable: storage.delete_ledger(1, on_durable))
        await add(storage, storage.create_ledger(2, KEY), range(200))
        await storage.checkpoint()
        disk.armed, disk.delay_s = True, 0.2 if cancelled else 0.0
        asked = asyncio.ensure_future(_other_work(storage, work))
        if cancelled:
            while not disk.failed_count:  # noqa: ASYNC110 - a thread counts
                await asyncio.sleep(0.001)
            asked.cancel()
        with pytest.raises(asyncio.CancelledError if cancelled else DiskFailedError):
            await asked
        await failed.wait()
        assert disk.failed_count == len(failures) == 1
        assert storage.failed is failures[0]
        await storage.close()

    for cancelled in (False, True):
        asyncio.run(main("remove dead logs", "ledger-states", cancelled))
        asyncio.run(main("clear limbo", "index", cancelled))
        asyncio.run(main("clear limbo", "ledger-states", cancelled))


async def _other_work(storage: LedgerStorage, work: str) -> None:
    if work == "clear limbo":
        await storage.clear_limbo()
    else:
        await storage.remove_dead_logs()


@pytest.mark.parametrize("brief_s_max", [-1.0, 1000.0], ids=["in its thread", "on the loop"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_journal_that_breaks_down_ends_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brief_s_max: float
) -> None:
    """All that wait for it hear of that, so the bookie can stop: a checkpoint, and what was queued behind it."""

    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(system_disk, "BRIEF_S_MAX", brief_s_max)

    async def main() -> None:
        storage = await open_storage(tmp_path)
        state = storage.create_ledger(1, KEY)
        await add(storage, state, range(10))
        with monkeypatch.context() as patched:
            patched.setattr(JournalFiles, "write", broken)
            storage._upkeep.flush()
            async with asyncio.timeout(30):
                with pytest.raises(LogStoreError):
                    await add(storage, state, range(10, 20))
                assert storage.failed is not None
                await storage.close()
        storage = await open_storage(tmp_path)
        assert await found_ids(storage, 1, 20) == list(range(10))
        await storage.close()

    asyncio.run(main())
