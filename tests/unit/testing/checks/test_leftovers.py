"""Files that nobody will ever look for are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie_server.journal.log_mark import LogMark, encode_log_mark
from bookie_server.storage.index import Index, Interval
from dlog.testing.checks.leftovers import c17_no_file_is_left_over
from dlog.testing.disk.disk import SimulatedDisk
from tests.helpers.bookie.storage import KEY, add, durable, open_storage, small_config
from tests.helpers.simulation.disk import new_disk, run

HOME = Path("/bookie")


def stopped() -> SimulatedDisk:
    """A bookie's disk with two entry logs, in the older of which nothing lives any more."""
    disk = new_disk()

    async def main() -> None:
        storage = await open_storage(HOME, disk, entry_log_bytes_max=4096)
        await add(storage, storage.create_ledger(1, KEY), range(50))
        await storage.checkpoint()
        await durable(lambda done: storage.delete_ledger(1, done))
        await add(storage, storage.create_ledger(2, KEY), range(50))
        await storage.close()

    run(main())
    return disk


def lead_index_to(disk: SimulatedDisk, ledger_id: int, log_id: int) -> None:
    index = Index(disk.open_key_values(HOME / "ledgers" / "index"))
    index.append(ledger_id, [Interval(0, 9, log_id, 64, 1000, dense=True)])
    index.sync(index.generation())
    index.close()


def found(disk: SimulatedDisk, *, swept: bool = False) -> list[str]:
    return list(c17_no_file_is_left_over(disk, small_config(HOME), swept=swept))


def test_a_bookie_stopped_in_good_order_leaves_nothing() -> None:
    assert found(stopped()) == []


def test_a_dead_entry_log_is_left_over_once_all_was_swept() -> None:
    assert found(stopped(), swept=True) == ["entry log 1 has no entry of an existing ledger"]


@pytest.mark.parametrize("path", ["journal/x.tmp", "ledgers/old-mark", "ledgers/entry-logs/copy.log"])
def test_a_file_of_no_known_name_is_found(path: str) -> None:
    disk = stopped()
    disk.create(HOME / path).close()
    assert found(disk) == [f"{HOME / path} is not a file of a bookie"]


def test_entries_of_a_deleted_ledger_in_the_index_are_found() -> None:
    disk = stopped()
    lead_index_to(disk, 1, 1)
    assert found(disk) == ["the index has entries of ledger 1, which is deleted or unknown"]


def test_an_entry_log_with_entries_after_the_last_is_found() -> None:
    disk = stopped()
    disk.create(HOME / "ledgers" / "entry-logs" / f"{77:016x}.log").close()
    lead_index_to(disk, 2, 77)
    assert found(disk) == ["entry log 77 has entries after the end of all entry logs, which is in 2"]


def test_entry_logs_of_crashes_may_be_left_half_made() -> None:
    """Seed 4985: a crash in the first flush, and then the only ledger was deleted before the next one."""
    disk = new_disk()

    async def main() -> None:
        await (await open_storage(HOME, disk)).close()

    run(main())
    for log_id in (1, 2):
        disk.create(HOME / "ledgers" / "entry-logs" / f"{log_id:016x}.log").close()
        assert found(disk) == []


def test_a_journal_file_before_the_mark_is_found() -> None:
    disk = stopped()
    disk.replace_file(HOME / "ledgers" / "log-mark", encode_log_mark(LogMark(9, 0, 0)))
    assert found(disk) == ["journal file 1 is before the log mark, which is in 9, and no entry is in it"]
