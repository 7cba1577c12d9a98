"""A ledger is deleted only when metadata proves, twice and for a while, that it is gone."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from bookie_server.errors import DiskFullError
from bookie_server.storage.garbage_collector import (
    CollectorPass,
    GarbageCollector,
    GarbageCollectorConfig,
    GarbageTask,
)
from bookie_server.storage.index import state_record
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from ledger.errors import LayoutMismatchError, LedgerNotFoundError, MetadataUnavailableError
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId
from tests.helpers.bookie.storage import KEY, SINGLE_WRITE, add, found_ids, open_storage

pytestmark = pytest.mark.usefixtures("both_storages")


class Listing:
    """The two questions the collector asks, with answers that may be wrong or fail."""

    def __init__(self, existing: set[int]) -> None:
        self.existing = existing
        self.listed: set[int] | None = None
        self.listing_error: Exception | None = None
        self.read_error: Exception | None = None
        self.on_list: Callable[[], None] = lambda: None

    async def ledger_ids(self) -> AsyncIterator[int]:
        self.on_list()
        for ledger_id in sorted(self.existing if self.listed is None else self.listed):
            yield ledger_id
        if self.listing_error is not None:
            raise self.listing_error

    async def read_ledger(self, ledger_id: LedgerId) -> object:
        if self.read_error is not None:
            raise self.read_error
        if ledger_id not in self.existing:
            raise LedgerNotFoundError(f"no ledger {ledger_id}", ledger_id=ledger_id)
        return object()


class Case:
    """An open storage with ledgers 0 to 4 of ten entries each, a listing and a clock."""

    def __init__(self, storage: LedgerStorage, config: GarbageCollectorConfig) -> None:
        self.storage = storage
        self.store = Listing({0, 1, 2, 3, 4})
        self.now = 0.0
        self.collector = GarbageCollector(
            storage, cast(MetadataStore, self.store), config, now=lambda: self.now
        )

    def left(self) -> list[int]:
        return list(self.storage.ledger_ids())


def run_case(directory: Path, body: Callable[[Case], Any], **config: Any) -> None:
    async def main() -> None:
        storage = await open_storage(directory, entry_log_bytes_max=600)
        for ledger_id in range(5):
            await add(storage, storage.create_ledger(ledger_id, KEY), range(10))
            await storage.checkpoint()
        await body(Case(storage, GarbageCollectorConfig(**config)))
        await storage.close()

    asyncio.run(main())


def test_a_ledger_missing_for_the_grace_time_is_deleted_with_its_logs(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.store.existing = {1, 3, 4}
        first = await case.collector.collect()
        assert (first.deleted, first.waiting) == (0, 2)
        case.now = 60.0
        second = await case.collector.collect()
        removed = 0 if SINGLE_WRITE.get() else 2  # all entries are in the journal file that is written to
        assert (second.deleted, second.waiting, second.removed_logs) == (2, 0, removed)
        assert case.left() == [1, 3, 4]
        state = case.storage.ledger(2)
        assert state is not None
        assert state.deleted
        assert await found_ids(case.storage, 3, 12) == list(range(10))

    run_case(tmp_path, body)


def test_a_ledger_that_comes_back_to_the_listing_starts_its_grace_anew(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        for listed, at in (({0, 1}, 0.0), ({0, 1, 2, 3, 4}, 30.0), ({0, 1}, 60.0), ({0, 1}, 100.0)):
            case.store.listed, case.now = listed, at
            assert (await case.collector.collect()).deleted == 0
        assert case.left() == [0, 1, 2, 3, 4]

    run_case(tmp_path, body)


def test_a_short_listing_deletes_nothing_that_still_exists(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.store.listed = set()
        for case.now in (0.0, 100.0):
            await case.collector.collect()
        assert case.left() == [0, 1, 2, 3, 4]

    run_case(tmp_path, body)


def test_a_failed_listing_deletes_nothing(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.store.existing = set()
        case.store.listing_error = MetadataUnavailableError("lost")
        for case.now in (0.0, 100.0):
            assert (await case.collector.collect()).error is case.store.listing_error
        assert case.left() == [0, 1, 2, 3, 4]

    run_case(tmp_path, body)


def test_an_unanswered_point_read_keeps_the_ledger(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.store.existing = {0}
        case.store.read_error = MetadataUnavailableError("lost")
        for case.now in (0.0, 100.0):
            assert (await case.collector.collect()).deleted == 0
        assert case.left() == [0, 1, 2, 3, 4]

    run_case(tmp_path, body)


def test_a_ledger_created_while_the_listing_runs_is_kept(tmp_path: Path) -> None:
    """It is in neither list: local ids were taken first."""

    async def body(case: Case) -> None:
        def create_another() -> None:
            if case.storage.ledger(9) is None:
                case.storage.create_ledger(9, KEY)

        case.store.on_list = create_another
        await case.collector.collect()
        assert case.left() == [0, 1, 2, 3, 4, 9]

    run_case(tmp_path, body, grace_s=0.0)


def test_one_pass_deletes_no_more_than_its_part(tmp_path: Path) -> None:
    """Metadata of another cluster proves every ledger absent; the operator has time to notice."""

    async def body(case: Case) -> None:
        case.store.existing = set()
        found = await case.collector.collect()
        assert (found.deleted, found.waiting) == (2, 3)

    run_case(tmp_path, body, grace_s=0.0, deletes_part_max=0.5, deletes_always=1)


def test_a_deleted_ledger_is_not_collected_again(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.store.existing = {0}
        assert (await case.collector.collect()).deleted == 4
        assert (await case.collector.collect()).deleted == 0

    run_case(tmp_path, body, grace_s=0.0)


def test_a_checkpoint_that_meets_a_full_disk_does_not_keep_dead_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they hold is the space that the checkpoint lacks."""

    async def body(case: Case) -> None:
        async def full() -> None:
            raise DiskFullError("no space left", path=tmp_path)

        async def remove_dead_logs() -> int:
            return 3

        monkeypatch.setattr(case.storage, "checkpoint", full)
        monkeypatch.setattr(case.storage, "remove_dead_logs", remove_dead_logs)
        case.store.existing = {0}
        found = await case.collector.collect()
        monkeypatch.undo()
        assert (found.deleted, found.removed_logs) == (4, 3)
        assert isinstance(found.error, DiskFullError)

    run_case(tmp_path, body, grace_s=0.0)


def test_a_collection_cancelled_while_it_waits_for_the_journal_leaves_others_their_answer(
    tmp_path: Path,
) -> None:
    """A bookie that is stopped cancels it; what waits in the same group, such as the stop, hung for ever."""

    async def body(case: Case) -> None:
        case.store.existing = {1, 2, 3, 4}
        told = asyncio.Event()
        collecting = asyncio.create_task(case.collector.collect())
        state = case.storage.ledger(0)
        while state is not None and not state.deleted:  # noqa: ASYNC110 - it happens in few steps
            await asyncio.sleep(0)
        case.storage.force(lambda _: told.set())
        collecting.cancel()
        await asyncio.wait_for(told.wait(), 5.0)

    run_case(tmp_path, body, grace_s=0.0)


def test_a_pass_over_many_states_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    """200,000 deleted ledgers leave a tombstone each; reading them where requests are served stalled these."""

    async def main() -> None:
        storage = await open_storage(tmp_path)
        states = []
        for ledger_id in range(200_000):
            state = StoredLedger(ledger_id, KEY)
            state.deleted = ledger_id % 1000 > 0
            states.append(state_record(state))
        storage._parts.index.put_states(states)
        collector = GarbageCollector(
            storage, cast(MetadataStore, Listing(set(range(0, 200_000, 1000)))), GarbageCollectorConfig()
        )
        ratios = []
        for _ in range(3):
            began = time.perf_counter()
            assert len(list(storage.ledger_ids())) == 200
            scan_s = time.perf_counter() - began
            stall_s = await longest_stall(collector.collect())
            ratios.append(stall_s / scan_s)
        await storage.close()
        assert min(ratios) < 0.2, f"the loop stood still for these parts of a scan: {ratios}"

    asyncio.run(main())


async def test_the_task_counts_its_passes_and_those_that_ended_early() -> None:
    class Instance:
        async def instance_id(self) -> str:
            return "i"

    class Collector:
        passes = 0
        is_done = asyncio.Event()

        async def collect(self) -> CollectorPass:
            self.passes += 1
            if self.passes > 3:
                self.is_done.set()
                await asyncio.Event().wait()
            error = MetadataUnavailableError("no response") if self.passes == 2 else None
            return CollectorPass(waiting=self.passes, error=error)

    collector, other = Collector(), list[LayoutMismatchError]()
    task = GarbageTask(
        cast(GarbageCollector, collector), cast(MetadataStore, Instance()), "i", 0.0, other.append
    )
    await collector.is_done.wait()
    assert (task.passes, task.failed_passes, task.ledgers_waiting) == (3, 1, 3) and not other
    await task.close()


async def longest_stall(work: Coroutine[Any, Any, object]) -> float:
    """Seconds between two steps of the loop while it does the work, at most."""
    task, longest = asyncio.ensure_future(work), 0.0
    while not task.done():
        began = time.perf_counter()
        await asyncio.sleep(0)
        longest = max(longest, time.perf_counter() - began)
    assert (await task) is not None
    return longest
