"""What the server may rely on: adds, fences, reads, states, before and after a flush and a restart."""

import asyncio
import pkgutil
import struct
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bookie_server.disk.durable import OnDurable
from bookie_server.errors import DiskFailedError, EntryConflictError, StorageClosedError
from bookie_server.journal.log_mark import LogMark, decode_log_mark
from bookie_server.storage import maintenance
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.format import Block
from bookie_server.storage.index import Interval
from bookie_server.storage.ledger_storage import LedgerStorage
from dlog.testing.disk.timing import DiskTiming
from tests.helpers.bookie.open_files import removed_and_open
from tests.helpers.bookie.storage import (
    KEY,
    EntryRun,
    add,
    add_run,
    copy_as_after_kill,
    durable,
    fence,
    found_ids,
    make_entry,
    open_storage,
    run_of,
    set_lac,
)
from tests.helpers.metadata.drivers import eventually
from tests.helpers.simulation.disk import new_disk
from tests.helpers.simulation.disk import run as run_simulated

pytestmark = pytest.mark.usefixtures("both_storages")

Body = Callable[[LedgerStorage], Coroutine[Any, Any, None]]


@pytest.fixture
def with_storage(tmp_path: Path) -> Callable[..., None]:
    """Run a test's body with an open storage."""

    def run(body: Body, **changes: object) -> None:
        async def main() -> None:
            storage = await open_storage(tmp_path / "bookie", **changes)
            try:
                await body(storage)
            finally:
                await storage.close()

        asyncio.run(main())

    return run


def test_an_unknown_ledger_is_proved_unknown(with_storage: Callable[..., None]) -> None:
    async def body(storage: LedgerStorage) -> None:
        assert storage.ledger(5) is None
        assert list(storage.ledger_ids()) == []

    with_storage(body)


def test_entries_are_read_back_from_memory_from_disk_and_after_restart(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path)
        state = storage.create_ledger(5, KEY)
        await add(storage, state, range(100))
        assert await found_ids(storage, 5, 110) == list(range(100))
        await storage.checkpoint()
        assert storage.bytes_pending == 0
        assert await found_ids(storage, 5, 110) == list(range(100))
        await add(storage, state, range(100, 150))
        await storage.close()
        storage = await open_storage(tmp_path)
        assert await found_ids(storage, 5, 160) == list(range(150))
        again = storage.ledger(5)
        assert again is not None
        assert (again.master_key, again.last_entry, again.lac) == (KEY, 149, 148)
        await storage.close()

    asyncio.run(main())


@pytest.mark.parametrize("step", [1, 3], ids=["dense", "with gaps"])
def test_entries_shorter_than_a_header_live_like_others(tmp_path: Path, step: int) -> None:
    """From memory, after replay, from entry logs and the index, one by one, in batches, and repeated."""
    stored = {
        each * step: struct.pack(">qqq", 5, each * step, each - 1) + bytes(range(each)) for each in range(12)
    }
    ids = list(stored)

    async def check(storage: LedgerStorage) -> None:
        state = storage.ledger(5)
        assert state is not None
        assert (state.last_entry, state.lac) == (ids[-1], 10)
        for entry_id, entry in stored.items():
            assert await storage.read(state, entry_id) == entry
        assert await storage.read(state, ids[-1] + 1) is None
        batch = await storage.read_batch(state, 0, 100, 10_000)
        assert batch == (list(stored.values()) if step == 1 else [stored[0]])
        ranges = await storage.entry_ranges(state)
        assert [each for first, last in ranges for each in range(first, last + 1)] == ids
        again = EntryRun(ids, list(stored.values()))
        await durable(lambda done: add_run(storage, state, again, done))
        changed = EntryRun([ids[-1]], [stored[ids[-1]][:-1] + b"?"])
        with pytest.raises(EntryConflictError):
            await durable(lambda done: add_run(storage, state, changed, done))

    async def main() -> None:
        storage = await open_storage(tmp_path / "first")
        state = storage.create_ledger(5, KEY)
        await durable(lambda done: add_run(storage, state, EntryRun(ids, list(stored.values())), done))
        await check(storage)
        replayed = await open_storage(copy_as_after_kill(tmp_path / "first", tmp_path / "killed"))
        await check(replayed)
        await replayed.close()
        await storage.checkpoint()
        await check(storage)
        await storage.close()
        storage = await open_storage(tmp_path / "first")
        await check(storage)
        await storage.close()

    asyncio.run(main())


def test_reads_see_an_add_before_it_is_durable(with_storage: Callable[..., None]) -> None:
    """A fence or recovery read reflects every accepted add."""

    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        waiting = asyncio.ensure_future(add(storage, state, [0]))
        await asyncio.sleep(0)
        assert storage.read_cached(state, 0) == make_entry(5, 0)
        assert storage.last_entry(state) == 0
        await waiting

    with_storage(body)


def test_callbacks_come_in_order_and_never_inside_the_call(with_storage: Callable[..., None]) -> None:
    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        order: list[str] = []
        add_run(storage, state, run_of(5, [0, 1]), lambda _: order.append("add"))
        storage.fence(state, lambda _: order.append("fence"))
        add_run(storage, state, run_of(5, [2]), lambda _: order.append("recovery add"))
        storage.force(lambda _: order.append("force"))
        assert order == []
        assert state.fenced
        await durable(storage.force)
        assert order == ["add", "fence", "recovery add", "force"]
        assert state.fence_durable

    with_storage(body)


def test_an_explicit_lac_below_any_is_answered_and_not_kept(with_storage: Callable[..., None]) -> None:
    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        await durable(lambda done: set_lac(storage, state, b"packet", -2, done))
        assert (state.explicit_lac, state.lac) == (None, -1)

    with_storage(body)


def test_a_fence_survives_restart_with_and_without_a_checkpoint(tmp_path: Path) -> None:
    """Also on a ledger that never saw an add: it must refuse the first one."""

    async def main() -> None:
        for checkpointed in (False, True):
            storage = await open_storage(tmp_path)
            ledger_id = 7 + checkpointed
            await fence(storage, storage.create_ledger(ledger_id, KEY))
            if checkpointed:
                await storage.checkpoint()
            await storage.close()
            storage = await open_storage(tmp_path)
            state = storage.ledger(ledger_id)
            assert state is not None
            assert state.fenced
            assert state.fence_durable
            await fence(storage, state)
            await storage.close()

    asyncio.run(main())


@pytest.mark.parametrize("flushed", [False, True])
def test_a_repeated_entry_is_accepted_and_another_one_refused(
    with_storage: Callable[..., None], flushed: bool
) -> None:
    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        await add(storage, state, range(10))
        if flushed:
            await storage.checkpoint()
        await add(storage, state, [3, 4])
        recovered = EntryRun([3], [make_entry(5, 3, lac=1)])
        await durable(lambda done: add_run(storage, state, recovered, done))
        entries = [make_entry(5, 2), make_entry(5, 3, payload=b"other"), make_entry(5, 10)]
        wrong = EntryRun([2, 3, 10], [*entries])
        with pytest.raises(EntryConflictError) as caught:
            await durable(lambda done: add_run(storage, state, wrong, done))
        assert caught.value.entry_ids == {3}
        assert await found_ids(storage, 5, 20) == list(range(11))

    with_storage(body)


def test_a_repeated_entry_is_written_again_only_if_it_may_not_be_durable(tmp_path: Path) -> None:
    """Until its first checkpoint a storage cannot know what a killed process left in the index without a sync."""

    def copies() -> int:
        return sum(
            each.read_bytes().count(bytes(make_entry(5, 3))) for each in (tmp_path / "journal").iterdir()
        )

    async def main() -> None:
        storage = await open_storage(tmp_path)
        state = storage.create_ledger(5, KEY)
        await add(storage, state, range(10))
        await add(storage, state, [3, 4, 9])
        assert copies() == 2
        await add(storage, state, [10])
        await storage.checkpoint()
        for repeated in ([3], [3, 4, 9], [3, 11]):
            await add(storage, state, repeated)
        assert copies() == 2
        assert await found_ids(storage, 5, 20) == list(range(12))
        await storage.close()

    asyncio.run(main())


def test_a_repetition_is_answered_after_what_it_repeats_is_durable() -> None:
    """It is not written again, and waits for the record of the first all the same."""

    async def main() -> list[str]:
        storage, order = await open_storage(Path("/bookie"), new_disk(timing=DiskTiming())), list[str]()
        state = storage.create_ledger(5, KEY)
        await add(storage, state, [0])
        await storage.checkpoint()
        for name in ("first", "again"):
            add_run(storage, state, run_of(5, [1]), lambda _, name=name: order.append(name))  # type: ignore[misc]
        await durable(storage.force)
        await storage.close()
        return order

    assert run_simulated(main()) == ["first", "again"]


@pytest.mark.parametrize("flushed", [False, True])
def test_entries_may_come_in_any_order_and_with_gaps(
    with_storage: Callable[..., None], flushed: bool
) -> None:
    """A bookie of a striped ledger holds some ids only; repair fills gaps later."""
    batches = [[0, 1, 3, 4, 9], [12, 15], [2], [7, 8], [13, 5, 14], [20, 19], [6, 10]]

    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        expected: set[int] = set()
        for batch in batches:
            await add(storage, state, batch)
            expected.update(batch)
            if flushed:
                await storage.checkpoint()
            assert await found_ids(storage, 5, 25) == sorted(expected)
        assert await storage.entry_ranges(state) == [(0, 10), (12, 15), (19, 20)]
        assert state.last_entry == 20

    with_storage(body)


def test_a_piece_between_late_entries_that_holds_nothing_is_not_listed(
    with_storage: Callable[..., None],
) -> None:
    """Late entries split the interval of the block with 0 and 5; of its ids none is in the piece from 2 to 2."""

    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        for ids in ([0, 5], [3], [1]):
            await add(storage, state, ids)
            await storage.checkpoint()
        assert await storage.entry_ranges(state) == [(0, 1), (3, 3), (5, 5)]

    with_storage(body)


def test_what_is_added_and_flushed_while_a_listing_is_on_its_way_is_not_taken_for_lost(
    with_storage: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has answered, and the loop hears of it only when a later entry has been flushed."""

    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        await add(storage, state, [0, 1])
        ranges = storage._reader.ranges

        async def late(ledger_id: int) -> list[tuple[int, int]]:
            found = await ranges(ledger_id)
            await add(storage, state, [2])
            await storage.checkpoint()
            return found

        monkeypatch.setattr(storage._reader, "ranges", late)
        assert await storage.entry_ranges(state) == [(0, 1)]
        monkeypatch.undo()
        assert await storage.entry_ranges(state) == [(0, 2)]

    with_storage(body)


def test_batch_reads_stop_at_gaps_counts_and_bytes(with_storage: Callable[..., None]) -> None:
    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        await add(storage, state, [*range(40), *range(41, 60)])
        size = len(make_entry(5, 20))
        for _ in range(2):

            async def ids(first: int, max_count: int, max_bytes: int) -> list[int]:
                entries = await storage.read_batch(state, first, max_count, max_bytes)
                return [int.from_bytes(entry[8:16], "big") for entry in entries]

            assert await ids(0, 0, 10**6) == list(range(40))
            assert await ids(0, 5, 10**6) == list(range(5))
            assert await ids(20, 0, 2 * (size + 4)) == [20, 21]
            assert await ids(20, 0, 2 * (size + 4) - 1) == [20]
            assert await ids(20, 0, 0) == [20]
            assert await ids(39, 0, 10**6) == [39]
            assert await ids(40, 0, 10**6) == []
            assert await ids(59, 0, 10**6) == [59]
            assert await ids(60, 0, 10**6) == []
            await storage.checkpoint()

    with_storage(body)


def test_batch_reads_cross_from_disk_into_memory(with_storage: Callable[..., None]) -> None:
    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        await add(storage, state, range(30))
        await storage.checkpoint()
        await add(storage, state, range(30, 60))
        assert len(await storage.read_batch(state, 10, 0, 10**6)) == 50

    with_storage(body)


def worker_threads() -> list[str]:
    return sorted(each.name for each in threading.enumerate() if not each.name.startswith("asyncio"))


@pytest.mark.parametrize(
    "step",
    [
        "bookie_server.storage.ledger_storage.open_parts",
        "bookie_server.storage.maintenance.StorageMaintenance._measure",
    ],
)
def test_a_start_that_is_cancelled_ends_its_workers_and_closes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its caller then releases the locks of the directories, and another start may follow."""
    module, _, name = step.rpartition(".")
    original = getattr(pkgutil.resolve_name(module), name)
    began, go_on = threading.Event(), threading.Event()

    def slow(*arguments: object) -> object:
        began.set()
        go_on.wait(30)
        return original(*arguments)

    async def main() -> None:
        storage = await open_storage(tmp_path)
        await add(storage, storage.create_ledger(5, KEY), range(10))
        await storage.close()
        threads = worker_threads()
        with monkeypatch.context() as patch:
            patch.setattr(step, slow)
            opening = asyncio.create_task(open_storage(tmp_path))
            await asyncio.to_thread(began.wait, 30)
            opening.cancel()
            asyncio.get_running_loop().call_later(0.01, go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await opening
        assert worker_threads() == threads
        storage = await open_storage(tmp_path)
        assert await found_ids(storage, 5, 10) == list(range(10))
        await storage.close()

    asyncio.run(main())


def test_the_highest_explicit_lac_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path)
        state = storage.create_ledger(5, KEY)
        for lac, packet in ((3, b"three"), (7, b"seven"), (5, b"five")):
            await durable(lambda done, lac=lac, packet=packet: set_lac(storage, state, packet, lac, done))
        assert (state.explicit_lac, state.lac) == (b"seven", 7)
        await storage.close()
        storage = await open_storage(tmp_path)
        again = storage.ledger(5)
        assert again is not None
        assert (again.explicit_lac, again.lac) == (b"seven", 7)
        await storage.close()

    asyncio.run(main())


def test_a_deleted_ledger_stays_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path)
        kept, gone = storage.create_ledger(5, KEY), storage.create_ledger(6, KEY)
        await add(storage, kept, range(10))
        await add(storage, gone, range(10))
        await storage.checkpoint()
        await add(storage, gone, range(10, 20))
        await durable(lambda done: storage.delete_ledger(6, done))
        assert await storage.read(gone, 3) is None
        assert await storage.read(gone, 13) is None
        assert list(storage.ledger_ids()) == [5]
        await storage.close()
        storage = await open_storage(tmp_path)
        again = storage.ledger(6)
        assert again is not None
        assert again.deleted
        assert await storage.read(again, 3) is None
        assert await found_ids(storage, 5, 10) == list(range(10))
        assert list(storage.ledger_ids()) == [5]
        await storage.close()

    asyncio.run(main())


def test_a_deleted_ledger_keeps_no_explicit_lac(tmp_path: Path) -> None:
    """Its state stays in the index, and another copy in the ledger states."""

    async def main() -> None:
        storage = await open_storage(tmp_path / "first")
        state = storage.create_ledger(5, KEY)
        await durable(lambda done: set_lac(storage, state, b"seven", 7, done))
        await durable(lambda done: storage.delete_ledger(5, done))
        copy_as_after_kill(tmp_path / "first", tmp_path / "killed")
        assert state.explicit_lac is None
        await storage.close()
        for name in ("first", "killed"):
            storage = await open_storage(tmp_path / name)
            again = storage.ledger(5)
            assert again is not None
            assert (again.deleted, again.explicit_lac) == (True, None)
            await storage.close()

    asyncio.run(main())


def test_a_tombstone_for_a_ledger_never_seen_refuses_it_permanently(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path)
        await durable(lambda done: storage.delete_ledger(6, done))
        await storage.close()
        storage = await open_storage(tmp_path)
        state = storage.ledger(6)
        assert state is not None
        assert state.deleted
        await storage.close()

    asyncio.run(main())


def test_what_metadata_knows_is_restored_and_survives_a_restart(tmp_path: Path) -> None:
    """Of ledgers that are known, unknown, without their key, or deleted; that are written to, or not any more."""

    async def main() -> None:
        storage = await open_storage(tmp_path / "first")
        await add(storage, storage.create_ledger(1, KEY), [0])
        await add(storage, storage.create_ledger(2, KEY), [0])
        await durable(lambda done: storage.fence(storage.create_ledger(3, b""), done))
        await durable(lambda done: storage.delete_ledger(4, done))
        for ledger_id, ended in ((1, True), (2, False), (3, False), (4, True), (5, True), (6, False)):
            await durable(partial(restore, storage, ledger_id, ended))
        copy_as_after_kill(tmp_path / "first", tmp_path / "killed")
        for again in (tmp_path / "first", tmp_path / "killed"):
            await storage.close()
            storage = await open_storage(again)
            found = {
                ledger_id: (state.master_key, state.fenced, state.deleted)
                for ledger_id in range(1, 7)
                if (state := storage.ledger(ledger_id)) is not None
            }
            assert found == {
                1: (KEY, True, False),
                2: (KEY, False, False),
                3: (KEY, True, False),
                4: (b"", False, True),
                5: (KEY, True, False),
            }
        await storage.close()

    asyncio.run(main())


def restore(storage: LedgerStorage, ledger_id: int, ended: bool, done: OnDurable) -> None:
    storage.restore_ledger(ledger_id, KEY, ended=ended, on_durable=done)


def test_dead_entry_logs_are_removed_and_live_ones_kept(
    with_storage: Callable[..., None], tmp_path: Path
) -> None:
    async def body(storage: LedgerStorage) -> None:
        for ledger_id in range(5):
            state = storage.create_ledger(ledger_id, KEY)
            await add(storage, state, range(40))
            await storage.checkpoint()
        assert await storage.remove_dead_logs() == 0
        for ledger_id in (0, 2):
            assert await found_ids(storage, ledger_id, 40) == list(range(40)), "so reads have its log open"
            await durable(lambda done, ledger_id=ledger_id: storage.delete_ledger(ledger_id, done))
        await storage.checkpoint()
        assert await storage.remove_dead_logs() == 2
        await eventually(lambda: not removed_and_open(tmp_path))
        assert await storage.remove_dead_logs() == 0
        for ledger_id in (1, 3, 4):
            assert await found_ids(storage, ledger_id, 40) == list(range(40))

    with_storage(body, entry_log_bytes_max=1024, single_write_bytes_min=0)


def test_there_is_one_state_object_per_ledger(with_storage: Callable[..., None]) -> None:
    """Two objects would be two fences; the bounded cache must not make a second one."""

    async def body(storage: LedgerStorage) -> None:
        held = storage.create_ledger(0, KEY)
        for ledger_id in range(1, 50):
            storage.create_ledger(ledger_id, KEY)
        await storage.checkpoint()
        for ledger_id in range(1, 50):
            assert storage.ledger(ledger_id) is not None
        assert storage.ledger(0) is held

    with_storage(body, ledger_states_max=4)


def test_changed_states_survive_eviction(with_storage: Callable[..., None]) -> None:
    async def body(storage: LedgerStorage) -> None:
        for ledger_id in range(30):
            await fence(storage, storage.create_ledger(ledger_id, KEY))
        for ledger_id in range(30):
            state = storage.ledger(ledger_id)
            assert state is not None
            assert state.fenced

    with_storage(body, ledger_states_max=2)


def test_senders_wait_while_both_halves_of_the_cache_are_full(with_storage: Callable[..., None]) -> None:
    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        first = 0
        while storage.has_room:
            add_run(storage, state, run_of(5, range(first, first + 100)), lambda _: None)
            first += 100
        await storage.wait_for_room()
        assert storage.has_room
        await durable(storage.force)
        assert await found_ids(storage, 5, first) == list(range(first))

    with_storage(body, write_cache_bytes_max=128 * 1024)


@pytest.mark.parametrize("change", ["fence", "explicit LAC", "deletion"])
def test_senders_wait_for_a_checkpoint_of_many_changed_states(
    with_storage: Callable[..., None], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """They hold no entries, so that the write cache is never full of them."""
    monkeypatch.setattr(maintenance, "CHANGED_STATES_MAX", 20)

    async def body(storage: LedgerStorage) -> None:
        for ledger_id in range(100):
            state = storage.create_ledger(ledger_id, KEY)
            if change == "fence":
                storage.fence(state, lambda _: None)
            elif change == "deletion":
                storage.delete_ledger(ledger_id, lambda _: None)
            else:
                storage.set_explicit_lacs([(state, bytes(16), 0)], lambda _: None)
        assert not storage.has_room
        async with asyncio.timeout(30):
            await storage.wait_for_room()
        assert storage.has_room
        await eventually(lambda: storage.counts().checkpoints > 0)

    with_storage(body, checkpoint_interval_s=3600)


def test_senders_wait_for_a_checkpoint_of_many_new_ledgers(
    with_storage: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "CREATED_STATES_MAX", 20)

    async def body(storage: LedgerStorage) -> None:
        for ledger_id in range(20):
            assert storage.has_room
            state = storage.create_ledger(ledger_id, KEY)
            add_run(storage, state, run_of(ledger_id, range(1)), lambda _: None)
        await eventually(lambda: storage.counts().checkpoints == 1)
        for ledger_id in range(100, 140):
            storage.fence(storage.create_ledger(ledger_id, KEY), lambda _: None)
        assert not storage.has_room
        async with asyncio.timeout(30):
            await storage.wait_for_room()
        assert storage.has_room
        await eventually(lambda: storage.counts().checkpoints > 2)

    with_storage(body, checkpoint_interval_s=3600)


def test_old_journal_files_go_away_at_checkpoints(tmp_path: Path) -> None:
    """Those that no entry stays in (tests/unit/bookie_server/storage/test_single_write.py)."""

    async def main() -> None:
        storage = await open_storage(tmp_path, single_write_bytes_min=0)
        state = storage.create_ledger(5, KEY)
        for first in range(0, 5000, 100):
            await add(storage, state, range(first, first + 100))
        await storage.checkpoint()
        names = [path.name for path in (tmp_path / "journal").glob("*.journal")]
        assert len(names) == 1
        await storage.close()
        storage = await open_storage(tmp_path)
        assert storage.bytes_pending == 0
        await storage.close()

    asyncio.run(main())


def log_mark(directory: Path) -> LogMark:
    path = directory / "ledgers" / "log-mark"
    return decode_log_mark(path.read_bytes(), path)


def test_the_next_checkpoint_passes_what_the_last_one_took_before_its_sync(tmp_path: Path) -> None:
    """Or the journal of an idle bookie would be kept, and replayed at its start, until the next add."""

    async def main() -> None:
        storage = await open_storage(tmp_path, write_cache_bytes_max=1)
        before = log_mark(tmp_path)
        state = storage.create_ledger(5, KEY)
        add_run(storage, state, run_of(5, range(10)), lambda _: None)  # the full cache is flushed immediately
        await storage.checkpoint()
        assert log_mark(tmp_path).offset > before.offset
        await storage.close()

    asyncio.run(main())


def test_a_closed_storage_refuses(with_storage: Callable[..., None]) -> None:
    async def body(storage: LedgerStorage) -> None:
        state = storage.create_ledger(5, KEY)
        await storage.close()
        with pytest.raises(StorageClosedError):
            await add(storage, state, [0])

    with_storage(body)


def test_files_are_private(tmp_path: Path) -> None:
    async def main() -> None:
        storage = await open_storage(tmp_path / "bookie")
        await storage.close()

    asyncio.run(main())
    for path in (tmp_path / "bookie").rglob("*"):
        if "index" not in path.parts:
            assert path.stat().st_mode & 0o077 == 0, path


def test_an_entry_after_the_last_one_is_absent_whatever_is_in_memory(tmp_path: Path) -> None:
    """A block may have it: a checkpoint that a power cut ended has stored the block and not the ledger's state."""

    async def main() -> None:
        storage = await open_storage(tmp_path)
        state = storage.create_ledger(1, KEY)
        await add(storage, state, range(6))
        await storage.close()
        storage = await open_storage(tmp_path)
        found = storage.ledger(1)
        assert found is not None
        found.last_entry = 3
        assert await storage.read(found, 4) is None
        assert await storage.read(found, 3) is not None, "which brings the block into memory"
        assert storage.read_cached(found, 4) is None
        assert await storage.read(found, 4) is None
        assert len(await storage.read_batch(found, 0, 0, 1 << 20)) == 4
        assert len(await storage.read_batch(found, 2, 10, 1 << 20)) == 2
        await storage.close()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reading_worker_that_breaks_down_ends_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for lack of memory: its thread has ended, so no later read could come back either."""

    def read(self: EntryLogReader, ledger_id: int, intervals: Sequence[Interval]) -> list[Block]:
        raise MemoryError

    async def main() -> None:
        storage = await open_storage(tmp_path / "bookie", read_cache_bytes_max=0)
        failures: list[Exception] = []
        storage.on_failure = failures.append
        state = storage.create_ledger(1, KEY)
        await add(storage, state, range(3))
        await storage.checkpoint()
        with monkeypatch.context() as patched:
            patched.setattr(EntryLogReader, "read", read)
            with pytest.raises(DiskFailedError, match="broke down"):
                await storage.read(state, 1)
        assert failures == [storage.failed]
        assert "broke down" in str(storage.failed)
        await storage.close()

    asyncio.run(main())
