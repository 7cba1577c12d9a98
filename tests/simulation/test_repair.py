"""Repair of a simulated cluster: lost bookies, workers that die anywhere, two at once, a bookie that comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bookie_server.server import BookieServer
from bookie_server.storage.ledger_storage import LedgerStorage
from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from dlog.testing.checks.copies import audit
from dlog.testing.disk.timing import DiskTiming
from ledger.client import LedgerClient
from ledger.config import Visibility
from ledger.errors import (
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    NotEnoughBookiesError,
)
from ledger.inspection.copy_audit import SILENCE_S
from ledger.metadata.format.repair import shown_mark
from ledger.metadata.repair_store import UnderReplicated
from ledger.model import BookieId, EntryId, LedgerId, QuorumSizes, Versioned
from ledger.repair.autorecovery import run_autorecovery
from ledger.repair.copying.checker import Depth, FragmentChecker, Held
from ledger.repair.copying.copier import Copied, Copier
from ledger.repair.draining import Draining
from ledger.repair.errors import BookieRunningError
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.repair.locked_repair import LockedRepair
from ledger.repair.progress import LedgerProgress
from ledger.writing.write_handle import WriteHandle
from tests.helpers.simulation.lost_bookies import (
    FOUR,
    QUICK,
    THREE_OF_THREE,
    lose_one,
    member,
    names,
    unmarked,
    unregistered,
    until,
    written,
)


def ensemble_of(handle: WriteHandle, fragment: int) -> tuple[BookieId, ...]:
    return handle.metadata.fragments[fragment].ensemble


async def copies(ledgers: LedgerClient, ledger_id: LedgerId) -> list[str]:
    """Violations of C14 with the write quorum; no bookie is excused."""
    return await audit(ledgers, [ledger_id], repaired=True)


@pytest.mark.parametrize("quorum", [THREE_OF_THREE, QuorumSizes(ensemble=3, write=2, ack=2)])
def test_a_lost_bookie_is_replaced_and_every_entry_has_its_copies_again(quorum: QuorumSizes) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers, quorum=quorum)
            lost = await lose_one(cluster, ledgers, ledger_id)
            assert await copies(ledgers, ledger_id) != []
            repair = LedgerRepair(ledgers)
            outcome = await repair.repair(ledger_id)
            assert outcome.complete, outcome.left
            assert {each.old for each in outcome.repaired} == {lost}
            assert not await names(ledgers, ledger_id, lost)
            assert await copies(ledgers, ledger_id) == []
            again = await repair.repair(ledger_id)
            assert again.complete and not again.repaired
            await repair.close()

    simulate(main, config=FOUR)


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_counts_once_it_is_on_the_disk_of_its_bookie(seed: int) -> None:
    """A bookie returns what its journal has not synced yet; the mark that names it is removed after such a check."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, slow = client.ledgers, cluster.bookies[2]
            handle = await ledgers.create(THREE_OF_THREE)
            await handle.add(b"first")
            await asyncio.sleep(1.0)
            slow.disk.faults.arm("slow_sync", ".journal")
            await handle.add(b"behind which the others wait")
            await asyncio.gather(*(handle.add(b"%d" % number) for number in range(20)))
            await handle.close()
            repair = LedgerRepair(ledgers)
            outcome = await repair.repair(handle.ledger_id, Scope(suspects=frozenset({slow.bookie_id})))
            assert outcome.complete, outcome.left
            slow.power_cut()
            slow.start()
            await slow.wait_until_serving()
            assert await copies(ledgers, handle.ledger_id) == []
            await repair.close()

    simulate(main, seed=seed, config=replace(ClusterConfig(), disk=DiskTiming(slow_sync_s=(3.0, 3.0))))


def test_without_a_spare_bookie_nothing_changes_and_the_outcome_says_so() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            lost = await lose_one(cluster, ledgers, ledger_id)
            repair = LedgerRepair(ledgers)
            outcome = await repair.repair(ledger_id)
            assert not outcome.complete
            assert outcome.left == [f"fragment at entry 0, 40 entries: no bookie is left to replace {lost}"]
            assert await names(ledgers, ledger_id, lost)
            await repair.close()

    simulate(main)


@pytest.mark.parametrize("seed", range(12))
def test_a_worker_killed_at_any_moment_leaves_no_fragment_with_fewer_copies(seed: int) -> None:
    """The next one completes the repair. What the dead one has copied is superfluous at worst."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers, 200)
            # Its writer may have closed it before it was connected to the third bookie.
            every = Scope(suspects=frozenset((await ledgers.store.read_ledger(ledger_id)).value.members()))
            assert (await LedgerRepair(ledgers).repair(ledger_id, every)).complete
            await lose_one(cluster, ledgers, ledger_id)

            async def work() -> None:
                async with await cluster.client() as other:
                    await LedgerRepair(other.ledgers).repair(ledger_id)

            cluster.run("worker", work)
            await asyncio.sleep(cluster.loop.seeds.stream("moment").uniform(0.0, 0.05))
            cluster.kill("worker")
            # Whatever it has done: each member that metadata names and that lives has every entry.
            before = await ledgers.store.read_ledger(ledger_id)
            living = [each for each in before.value.last_fragment.ensemble if ledgers.bookies().find(each)]
            assert len(living) >= 2
            repair = LedgerRepair(ledgers)
            scope = Scope(suspects=frozenset(living))
            looked = await repair.look(ledger_id, scope)
            assert not looked.lacking
            assert (await repair.repair(ledger_id, scope)).complete
            assert await copies(ledgers, ledger_id) == []
            await repair.close()

    simulate(main, seed=seed, config=FOUR)


def test_a_worker_that_dies_between_copy_and_change_leaves_the_metadata_as_it_was() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            lost = await lose_one(cluster, ledgers, ledger_id)
            before = await ledgers.store.read_ledger(ledger_id)
            copied: list[int] = []

            async def never(*_: object) -> int:
                copied.append(1)
                await asyncio.sleep(3600)
                return 0

            async def work() -> None:
                async with await cluster.client() as other:
                    other.ledgers.store.write_ledger = never  # type: ignore[method-assign,assignment]
                    await LedgerRepair(other.ledgers).repair(ledger_id)

            async def at_the_change() -> bool:
                return bool(copied)

            cluster.run("worker", work)
            await until(at_the_change)
            cluster.kill("worker")
            assert await ledgers.store.read_ledger(ledger_id) == before
            spare = next(
                each.bookie_id
                for each in ledgers.bookies().writable
                if each.bookie_id not in before.value.last_fragment.ensemble
            )
            repair = LedgerRepair(ledgers)
            outcome = await repair.repair(ledger_id)
            assert [(each.old, each.new) for each in outcome.repaired] == [(lost, spare)]
            assert await copies(ledgers, ledger_id) == []
            await repair.close()

    simulate(main, config=FOUR)


@pytest.mark.parametrize("seed", range(8))
def test_two_workers_without_a_lock_repair_as_well_as_one(seed: int) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            lost = await lose_one(cluster, ledgers, ledger_id)
            repairs = [LedgerRepair(each.ledgers) for each in (client, other)]
            outcomes = await asyncio.gather(*(each.repair(ledger_id) for each in repairs))
            assert all(outcome.complete for outcome in outcomes), outcomes
            assert not await names(ledgers, ledger_id, lost)
            assert await copies(ledgers, ledger_id) == []
            for each in repairs:
                await each.close()

    simulate(main, seed=seed, config=ClusterConfig(bookies=5))


async def while_repaired(
    cluster: SimulatedCluster, condition: Callable[[], Awaitable[bool]], *, processes: int = 2
) -> None:
    """Run auditor and worker, in processes of their own, until the condition holds."""

    async def program() -> None:
        await run_autorecovery(cluster.store(), cluster.environment(), QUICK)

    for number in range(processes):
        cluster.run(f"autorecovery-{number}", program)
    await until(condition)
    for number in range(processes):
        cluster.kill(f"autorecovery-{number}")


def test_auditors_and_workers_repair_what_a_lost_bookie_had() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ids = [await written(ledgers) for _ in range(5)]
            lost = await lose_one(cluster, ledgers, ids[0])

            async def repaired() -> bool:
                return not any([await names(ledgers, each, lost) for each in ids]) and await unmarked(ledgers)

            await while_repaired(cluster, repaired)
            for each in ids:
                assert await copies(ledgers, each) == []

    simulate(main, config=FOUR)


def test_another_auditor_takes_over_when_the_first_one_dies() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)

            async def program() -> None:
                await run_autorecovery(cluster.store(), cluster.environment(), QUICK)

            cluster.run("first", program)

            async def elected() -> bool:
                return await ledgers.store.repair.auditor() is not None

            await until(elected)
            cluster.run("second", program)
            await asyncio.sleep(5)
            cluster.kill("first")
            lost = await lose_one(cluster, ledgers, ledger_id)

            async def replaced() -> bool:
                return not await names(ledgers, ledger_id, lost)

            await until(replaced)
            assert await copies(ledgers, ledger_id) == []
            cluster.kill("second")

    simulate(main, config=FOUR)


def test_a_bookie_that_is_back_within_the_delay_keeps_its_ledgers() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            before = await ledgers.store.read_ledger(ledger_id)
            number = await member(cluster, ledgers, ledger_id)

            async def come_back() -> bool:
                await asyncio.sleep(10)
                cluster.kill_bookie(number)
                await unregistered(ledgers, cluster.bookies[number].bookie_id)
                await asyncio.sleep(2)
                await cluster.restart_bookie(number)
                await asyncio.sleep(30)
                return True

            await while_repaired(cluster, come_back, processes=1)
            assert await ledgers.store.read_ledger(ledger_id) == before
            assert await unmarked(ledgers)

    simulate(main, config=FOUR)


def test_marks_are_cleared_when_the_bookie_is_back_and_has_everything() -> None:
    """No spare bookie: the ledger stays marked until the lost one returns."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            number = await member(cluster, ledgers, ledger_id)
            cluster.kill_bookie(number)
            await unregistered(ledgers, cluster.bookies[number].bookie_id)

            async def back_and_unmarked() -> bool:
                if not cluster.bookies[number].running and not await unmarked(ledgers):
                    cluster.start_bookie(number)
                return cluster.bookies[number].running and await unmarked(ledgers)

            await while_repaired(cluster, back_and_unmarked)
            assert await copies(ledgers, ledger_id) == []

    simulate(main)


def test_the_writer_of_an_open_ledger_is_fenced_only_if_that_brings_a_copy_back() -> None:
    """Without a spare bookie it goes on with its ack quorum, however long the bookie is lost."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            handle = await ledgers.create(THREE_OF_THREE)
            await handle.add(b"first")
            await lose_one(cluster, ledgers, handle.ledger_id)

            async def write_on() -> bool:
                for number in range(120):
                    await handle.add(b"%d" % number)
                    await asyncio.sleep(1)
                return True

            await while_repaired(cluster, write_on)
            await handle.close()

    simulate(main)


def test_an_open_ledger_without_a_writer_is_closed_and_repaired_after_its_grace() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            found: list[LedgerId] = []

            async def write() -> None:
                async with await cluster.client() as other:
                    found.append(await written(other.ledgers, close=False))
                    await asyncio.sleep(3600)

            cluster.run("writer", write)

            async def was_written() -> bool:
                return bool(found)

            await until(was_written)
            cluster.kill("writer")
            lost = await lose_one(cluster, ledgers, found[0])

            async def closed() -> bool:
                metadata = (await ledgers.store.read_ledger(found[0])).value
                return metadata.closed and lost not in metadata.members() and await unmarked(ledgers)

            await while_repaired(cluster, closed)
            assert (await ledgers.store.read_ledger(found[0])).value.last_entry == 39
            assert await copies(ledgers, found[0]) == []

    simulate(main, config=FOUR)


def test_earlier_fragments_are_repaired_while_their_ledger_is_written() -> None:
    """Both change its metadata, and neither overwrites the other."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers = client.ledgers
            handle = await ledgers.create(THREE_OF_THREE)
            for number in range(10):
                await handle.add(b"%d" % number)
            lost = await lose_one(cluster, ledgers, handle.ledger_id)
            for number in range(10, 20):
                await handle.add(b"%d" % number)

            async def changed() -> bool:
                return len((await ledgers.store.read_ledger(handle.ledger_id)).value.fragments) == 2

            await until(changed)
            repair = LedgerRepair(other.ledgers)
            outcome = await repair.repair(handle.ledger_id)
            assert outcome.complete, outcome
            assert not await names(ledgers, handle.ledger_id, lost)
            for number in range(20, 30):
                await handle.add(b"%d" % number)
            await handle.close()
            metadata = (await ledgers.store.read_ledger(handle.ledger_id)).value
            assert metadata.last_entry == EntryId(29) and lost not in metadata.members()
            assert await copies(ledgers, handle.ledger_id) == []
            await repair.close()

    simulate(main, config=ClusterConfig(bookies=5))


async def repair_by_mark(ledgers: LedgerClient, ledger_id: LedgerId, attempts: int) -> None:
    """The first one repairs everything; before another it was marked again, as a writer marks what it had replaced."""
    worker = LockedRepair(ledgers, QUICK, "worker")
    for later in reversed(range(attempts)):
        outcome = await worker.of_mark(ledger_id)
        assert outcome is not None
        assert bool(outcome.repaired) == (later == attempts - 1), outcome
        assert outcome.left == ["it was marked again in the meantime"] * bool(later)
        assert outcome.complete == (not later), outcome
    await worker.close()


@pytest.mark.parametrize("then", ["replaced", "closed"])
@pytest.mark.parametrize("how", ["mark", "recover"])
def test_a_fragment_that_is_closed_while_an_earlier_one_is_copied_is_repaired_too(
    then: str, how: str
) -> None:
    """The worker's own change returns the metadata in which the writer has closed it."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers, store = client.ledgers, other.ledgers.store
            handle = await ledgers.create(THREE_OF_THREE)
            ledger_id = handle.ledger_id
            await handle.add(b"first")
            earlier = await lose_one(cluster, ledgers, ledger_id)
            await handle.add(b"second")

            async def in_last(bookie_id: BookieId) -> bool:
                return bookie_id in (await store.read_ledger(ledger_id)).value.last_fragment.ensemble

            async def is_replaced() -> bool:
                return not await in_last(earlier)

            await until(is_replaced)
            await handle.add(b"third")
            # The writer's change waits for the worker's copy, and the worker's change for the writer's.
            copied = asyncio.Event()
            write, work_write = ledgers.store.write_ledger, store.write_ledger

            async def late(*args: Any) -> int:
                await copied.wait()
                return await write(*args)

            ledgers.store.write_ledger = late  # type: ignore[method-assign]
            lost = await lose_one(cluster, ledgers, ledger_id)

            async def changed() -> bool:
                return not await in_last(lost)

            async def after_the_writer(*args: Any) -> int:
                store.write_ledger = work_write  # type: ignore[method-assign]
                copied.set()
                await (until(changed) if then == "replaced" else handle.close())
                return await work_write(*args)

            store.write_ledger = after_the_writer  # type: ignore[method-assign]
            if how == "mark":
                await store.repair.mark(ledger_id, {earlier, lost}, 1)
                await repair_by_mark(other.ledgers, ledger_id, attempts=2 if then == "closed" else 1)
                assert await unmarked(ledgers)
            else:
                draining = Draining(other.ledgers, lost, QUICK)
                drained = await draining.recover()
                await draining.close()
                assert not drained.left
            assert copied.is_set() and not await names(ledgers, ledger_id, lost)

    simulate(main, config=ClusterConfig(bookies=7))


@pytest.mark.parametrize("away_s", [1, 30])
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_what_a_member_missed_is_copied_to_it_once_it_is_back(end: str, away_s: int) -> None:
    """No spare bookie takes its place. What it lacks is in the middle of the fragment, where no check of the ends
    looks; a mark of the auditor, which comes after 5 s, is not cleared while the ledger is open.
    """

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            found: list[LedgerId] = []
            is_missed, is_written = asyncio.Event(), asyncio.Event()

            async def write() -> None:
                async with await cluster.client() as writer:
                    handle = await writer.ledgers.create(THREE_OF_THREE, visibility=Visibility.FAST)
                    found.append(handle.ledger_id)
                    await handle.add(b"first")
                    cluster.kill_bookie(0)
                    for number in range(20):
                        await handle.add(b"missed %d" % number)
                    is_missed.set()
                    if end == "killed":
                        await asyncio.sleep(3600)
                    while handle.failed_members:  # noqa: ASYNC110 -- it is taken back when it is registered
                        await asyncio.sleep(0.1)
                    await handle.add(b"last")
                    await asyncio.sleep(20)
                    await handle.close()
                    is_written.set()

            async def story() -> bool:
                cluster.run("writer", write)
                await is_missed.wait()
                if end == "killed":
                    cluster.kill("writer")
                await asyncio.sleep(away_s)
                await cluster.restart_bookie(0)
                if end == "killed":
                    await ledgers.open_with_recovery(found[0])
                else:
                    await is_written.wait()
                await asyncio.sleep(60)
                return True

            await while_repaired(cluster, story, processes=1)
            assert len((await ledgers.store.read_ledger(found[0])).value.fragments) == 1
            assert await copies(ledgers, found[0]) == []
            assert await unmarked(ledgers)

    simulate(main)


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_a_damaged_mark_is_cleared_only_once_all_copies_are_there(is_open: bool) -> None:
    """It does not name the bookie that missed what is in the middle of the fragment."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, store = client.ledgers, client.ledgers.store.repair
            handle = await ledgers.create(THREE_OF_THREE, visibility=Visibility.FAST)
            await handle.add(b"first")
            cluster.kill_bookie(0)
            for number in range(20):
                await handle.add(b"missed %d" % number)
            await cluster.restart_bookie(0)
            while handle.failed_members:  # noqa: ASYNC110 -- it is taken back when it is registered
                await asyncio.sleep(0.1)
            await handle.add(b"last")
            await asyncio.sleep(20)
            ledger_id = handle.ledger_id
            if not is_open:
                await handle.close()
                assert await copies(ledgers, ledger_id) != []
            read_mark = store.read_mark

            async def damaged(ledger_id: LedgerId) -> Versioned[UnderReplicated]:
                found = await read_mark(ledger_id)
                return Versioned(shown_mark(ledger_id, b"\xff"), found.version)

            store.read_mark = damaged  # type: ignore[method-assign]
            locked = LockedRepair(ledgers, QUICK, "worker")
            if is_open:
                early = await locked.of_mark(ledger_id)
                assert early is not None and not early.complete and not await unmarked(ledgers)
                await handle.close()
            outcome = await locked.of_mark(ledger_id)
            await locked.close()
            assert outcome is not None and outcome.complete, outcome
            assert await unmarked(ledgers)
            assert await copies(ledgers, ledger_id) == []

    simulate(main)


def test_a_member_that_took_copies_and_does_not_answer_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It acknowledged them, so nothing shows that it lacks any; a spare bookie is there."""
    held, copy = FragmentChecker.held, Copier.copy
    lacking: dict[BookieId, tuple[int, ...]] = {}

    async def lacks(*args: Any, progress: LedgerProgress) -> Held:
        fragment, position = args[-3:-1]
        found = lacking.pop(fragment.ensemble[position], None)
        return await held(*args, progress=progress) if found is None else Held(found)

    monkeypatch.setattr(FragmentChecker, "held", lacks)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            number = await member(cluster, ledgers, ledger_id)
            bookie = cluster.bookies[number]
            lacking[bookie.bookie_id] = (3, 4)

            async def copy_and_hang(*args: Any, **named: Any) -> Copied:
                copied = await copy(*args, **named)
                bookie.pause()
                return copied

            before = await ledgers.store.read_ledger(ledger_id)
            repair = LedgerRepair(ledgers)
            with monkeypatch.context() as patched:
                patched.setattr(Copier, "copy", copy_and_hang)
                outcome = await repair.repair(ledger_id)
            assert len(outcome.left) == 1 and f"{bookie.bookie_id} does not answer" in outcome.left[0]
            assert not outcome.repaired
            assert await ledgers.store.read_ledger(ledger_id) == before
            bookie.resume()
            await asyncio.sleep(SILENCE_S)
            assert (await repair.repair(ledger_id)).complete
            await repair.close()

    simulate(main, config=FOUR)


def test_a_suspect_that_cannot_be_connected_to_costs_one_timeout() -> None:
    """As it has marked ledgers: for a while it is not asked again."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ids = [await written(ledgers, settle_s=1.0) for _ in range(4)]
            suspect = cluster.bookies[await member(cluster, ledgers, ids[0])]
            cluster.network.cut(cluster.loop.node.name, suspect.name)
            repair, began = LedgerRepair(ledgers), cluster.loop.time()
            for each in ids:
                outcome = await repair.repair(each, Scope(suspects=frozenset({suspect.bookie_id})))
                assert not outcome.complete or not await names(ledgers, each, suspect.bookie_id)
            assert cluster.loop.time() - began < 1.5 * ledgers.config.connect_timeout_s
            await repair.close()

    simulate(main)


def test_a_mark_stays_while_an_open_fragment_has_the_bookie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies in closed fragments are read in full once, however often the ledger is tried again."""
    depths: list[Depth] = []
    held = FragmentChecker.held

    async def noted(*args: Any, progress: LedgerProgress) -> Held:
        depths.append(args[-1])
        return await held(*args, progress=progress)

    monkeypatch.setattr(FragmentChecker, "held", noted)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers, repair = client.ledgers, other.ledgers.store.repair
            handle = await ledgers.create(THREE_OF_THREE)
            await handle.add(b"first")
            lost = await lose_one(cluster, ledgers, handle.ledger_id)
            await handle.add(b"second")

            async def is_replaced() -> bool:
                return (
                    lost
                    not in (await ledgers.store.read_ledger(handle.ledger_id)).value.last_fragment.ensemble
                )

            await until(is_replaced)
            suspect = next(
                each for each in handle.metadata.last_fragment.ensemble if each in ensemble_of(handle, 0)
            )
            await repair.mark(handle.ledger_id, {suspect}, 1)
            worker = LockedRepair(other.ledgers, QUICK, "worker")

            async def attempt() -> tuple[bool, int]:
                """Whether it is done, and the number of copies of fragments that were read in full."""
                depths.clear()
                outcome = await worker.of_mark(handle.ledger_id)
                assert outcome is not None
                return outcome.complete, depths.count(Depth.ALL)

            assert await attempt() == (False, 1)
            assert await attempt() == (False, 0)
            await repair.mark(handle.ledger_id, {suspect}, 1)
            assert await attempt() == (False, 1)
            assert not await unmarked(ledgers)
            await handle.add(b"third")
            await handle.close()
            # The writer has marked the ledger again, for what it had replaced: the earlier fragment is read once more.
            assert await attempt() == (True, 2)
            assert await unmarked(ledgers)
            await worker.close()

    simulate(main, config=FOUR)


def test_nothing_is_repaired_while_repair_is_switched_off() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            await ledgers.store.repair.set_enabled(False)
            lost = await lose_one(cluster, ledgers, ledger_id)
            began = cluster.loop.time()

            async def repaired() -> bool:
                if cluster.loop.time() > began + 60:
                    await ledgers.store.repair.set_enabled(True)
                elif not await names(ledgers, ledger_id, lost):
                    pytest.fail("it was repaired")
                return not await names(ledgers, ledger_id, lost)

            await while_repaired(cluster, repaired)

    simulate(main, config=FOUR)


def test_a_bookie_is_decommissioned_and_nothing_names_it_any_more() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ids = [await written(ledgers, settle_s=1.0) for _ in range(3)]
            number = await member(cluster, ledgers, ids[0])
            bookie_id = cluster.bookies[number].bookie_id
            running = Draining(ledgers, bookie_id, QUICK)
            with pytest.raises(BookieRunningError, match="is registered"):
                await running.decommission()
            await running.close()
            cluster.kill_bookie(number)
            await unregistered(ledgers, bookie_id)
            draining = Draining(ledgers, bookie_id, QUICK)
            drained = await draining.decommission()
            await draining.close()
            assert not drained.left and drained.ledgers >= 1 and drained.entries >= 40
            for each in ids:
                assert not await names(ledgers, each, bookie_id)
                assert await copies(ledgers, each) == []
            assert bookie_id not in await ledgers.store.list_cookies()

    simulate(main, config=FOUR)


@pytest.mark.parametrize("then", ["stays", "ends"])
def test_a_bookie_that_comes_back_while_it_is_recovered_gets_no_new_ledgers_unnoticed(then: str) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            ledgers = client.ledgers
            ids = [await written(ledgers, 20) for _ in range(8)]
            number = await member(cluster, ledgers, ids[0])
            bookie_id = cluster.bookies[number].bookie_id
            cluster.kill_bookie(number)
            await unregistered(ledgers, bookie_id)
            draining = Draining(other.ledgers, bookie_id, replace(QUICK, bytes_per_s=5))
            recovering = asyncio.create_task(draining.recover())
            await asyncio.sleep(5)
            await cluster.restart_bookie(number)

            async def registered() -> bool:
                return (await ledgers.store.bookies()).find(bookie_id) is not None

            await until(registered)
            ids += [await written(ledgers, 3) for _ in range(8)]
            assert await names(ledgers, ids[-1], bookie_id) or await names(ledgers, ids[-2], bookie_id)
            assert not recovering.done()
            if then == "stays":
                with pytest.raises(BookieRunningError, match="is registered and writable"):
                    await recovering
            else:
                cluster.kill_bookie(number)
                await unregistered(ledgers, bookie_id)
                assert not (await recovering).left
                assert not any([await names(ledgers, each, bookie_id) for each in ids])
            await draining.close()

    simulate(main, config=FOUR)


@pytest.mark.parametrize("at", ["write_ledger", "remove_cookie"])
def test_a_bookie_that_is_started_while_it_is_decommissioned_keeps_its_cookie(at: str) -> None:
    """Without it the bookie could not start again on the ledgers that it takes now."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, store = client.ledgers, client.ledgers.store
            ledger_id = await written(ledgers)
            number = await member(cluster, ledgers, ledger_id)
            bookie_id = cluster.bookies[number].bookie_id
            cookie = (await store.read_cookie(bookie_id)).value
            cluster.kill_bookie(number)
            await unregistered(ledgers, bookie_id)
            request = getattr(store, at)

            async def registered() -> bool:
                return (await store.bookies()).find(bookie_id) is not None

            async def while_it_starts(*args: Any) -> Any:
                await cluster.restart_bookie(number)
                await until(registered)
                return await request(*args)

            setattr(store, at, while_it_starts)
            draining = Draining(ledgers, bookie_id, QUICK)
            with pytest.raises(BookieRunningError, match="is registered"):
                await draining.decommission()
            await draining.close()
            assert (await store.read_cookie(bookie_id)).value == cookie
            cluster.kill_bookie(number)
            await cluster.restart_bookie(number)

    simulate(main, config=FOUR)


@pytest.mark.parametrize("lost", ["answer to the removal", "look after it"])
def test_a_bookie_keeps_its_cookie_if_it_is_not_known_whether_it_was_started(lost: str) -> None:
    """It has read the cookie before that was removed, and nothing else would write it back."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, store = client.ledgers, client.ledgers.store
            number = await member(cluster, ledgers, await written(ledgers))
            bookie_id = cluster.bookies[number].bookie_id
            cookie = (await store.read_cookie(bookie_id)).value
            cluster.kill_bookie(number)
            await unregistered(ledgers, bookie_id)
            remove, bookies = store.remove_cookie, store.bookies

            async def registered() -> bool:
                return (await bookies()).find(bookie_id) is not None

            async def fails_once() -> Any:
                store.bookies = bookies  # type: ignore[method-assign]
                raise MetadataUnavailableError("the store is away")

            async def while_it_starts(*args: Any) -> None:
                await cluster.restart_bookie(number)
                await until(registered)
                await remove(*args)
                if lost == "answer to the removal":
                    raise MetadataOutcomeUnknownError("the answer was lost")
                store.bookies = fails_once  # type: ignore[method-assign]

            store.remove_cookie = while_it_starts  # type: ignore[method-assign,assignment]
            draining = Draining(ledgers, bookie_id, QUICK)
            with pytest.raises(LogStoreError):
                await draining.decommission()
            await draining.close()
            assert (await store.read_cookie(bookie_id)).value == cookie

    simulate(main, config=FOUR)


@pytest.mark.parametrize("when", ["paused", "starting"])
def test_a_bookie_that_registers_after_its_decommission_has_its_cookie_back(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directories are proven already: it looks for the cookie after it has registered, first or again."""
    proven, go_on = asyncio.Event(), asyncio.Event()
    opened = BookieServer._open_storage

    async def slowly(self: BookieServer) -> LedgerStorage:
        proven.set()
        await go_on.wait()
        return await opened(self)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers, store = client.ledgers, client.ledgers.store
            number = await member(cluster, ledgers, await written(ledgers))
            bookie_id = cluster.bookies[number].bookie_id
            cookie = (await store.read_cookie(bookie_id)).value
            if when == "paused":
                cluster.bookies[number].pause()
                await unregistered(ledgers, bookie_id)
            else:
                cluster.kill_bookie(number)
                await unregistered(ledgers, bookie_id)
                monkeypatch.setattr(BookieServer, "_open_storage", slowly)
                cluster.start_bookie(number)
                await proven.wait()
            draining = Draining(ledgers, bookie_id, QUICK)
            assert not (await draining.decommission()).left
            await draining.close()
            assert bookie_id not in await store.list_cookies()
            go_on.set()
            cluster.bookies[number].resume()

            async def kept() -> bool:
                return bookie_id in await store.list_cookies()

            await until(kept)
            assert (await store.bookies()).find(bookie_id) is not None
            assert (await store.read_cookie(bookie_id)).value == cookie
            cluster.kill_bookie(number)
            await cluster.restart_bookie(number)

    simulate(main, config=FOUR)


def test_a_decommission_that_leaves_too_few_bookies_is_refused_and_changes_nothing() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            before = await ledgers.store.read_ledger(ledger_id)
            bookie_id = await lose_one(cluster, ledgers, ledger_id)
            draining = Draining(ledgers, bookie_id, QUICK)
            with pytest.raises(LogStoreError, match="needs 3 bookies and 2 are left without"):
                await draining.decommission()
            await draining.close()
            assert await ledgers.store.read_ledger(ledger_id) == before

    simulate(main)


def test_a_decommission_does_not_take_a_read_only_bookie_for_a_place() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            members = set((await ledgers.store.read_ledger(ledger_id)).value.members())
            [spare] = [each for each in cluster.bookies if each.bookie_id not in members]
            spare.disk.nearly_full = True

            async def read_only() -> bool:
                found = (await ledgers.store.bookies()).find(spare.bookie_id)
                return found is not None and found.read_only

            await until(read_only)
            draining = Draining(ledgers, await lose_one(cluster, ledgers, ledger_id), QUICK)
            with pytest.raises(
                NotEnoughBookiesError, match=r"needs 3 bookies and 2 are left without .*, and 1 read-only:"
            ) as refused:
                await draining.decommission()
            await draining.close()
            assert (refused.value.needed, refused.value.available) == (3, 2)

    simulate(main, config=FOUR)
