"""The scrubber of simulated bookies: damage is found, marked, and repaired in place; a pass survives its process."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bookie_server.storage.scrub import scrubber
from bookie_server.storage.scrub.record import ScrubPass, ScrubRecord
from dlog.testing import ClusterConfig, SimulatedCluster, simulate
from dlog.testing.bookies import SimulatedBookie, small_storage
from dlog.testing.checks.copies import audit
from dlog.testing.disk.rocksdb_state import Batch
from dlog.testing.disk.settled import settled_extent
from ledger.client import LedgerClient
from ledger.inspection.copies import CopyState
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import LedgerId, QuorumSizes
from ledger.repair.autorecovery import run_autorecovery
from ledger.repair.config import RepairConfig
from ledger.wire.digest import master_key
from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer

THREE_OF_THREE = QuorumSizes(ensemble=3, write=3, ack=2)
CONFIG = ClusterConfig(scrub_interval_s=10.0)
LIMBO = ClusterConfig(
    bookies=4,
    scrub_interval_s=10.0,
    storage=small_storage(limbo_on_damage=True, checkpoint_interval_s=3600.0),
)
QUICK = RepairConfig(poll_s=2.0, retry_first_s=2.0, copy_check_interval_s=0)


async def written(ledgers: LedgerClient, count: int = 200) -> LedgerId:
    handle = await ledgers.create(THREE_OF_THREE)
    await asyncio.gather(*(handle.add(b"%d" % number * 50) for number in range(count)))
    await handle.close()
    return handle.ledger_id


def record_of(bookie: SimulatedBookie) -> ScrubRecord:
    if bookie.server is None or bookie.server.scrubber is None:
        return ScrubRecord()
    return bookie.server.scrubber.record


async def marked(ledgers: LedgerClient) -> dict[LedgerId, tuple[str, ...]]:
    return {mark.ledger_id: mark.missing async for mark in ledgers.store.repair.marks()}


async def repair(cluster: SimulatedCluster, ledgers: LedgerClient) -> None:
    """Run auditor and worker until no ledger is marked."""

    async def program() -> None:
        await run_autorecovery(cluster.store(), cluster.environment(), QUICK)

    cluster.run("autorecovery", program)
    while await marked(ledgers):  # noqa: ASYNC110 -- what is waited for is in other processes
        await asyncio.sleep(0.5)
    cluster.kill("autorecovery")


async def states(ledgers: LedgerClient, ledger_id: LedgerId, bookie: SimulatedBookie) -> set[CopyState]:
    """Of all copies on one bookie."""
    metadata = (await ledgers.store.read_ledger(ledger_id)).value
    copies = CopyAudit(ledgers)
    try:
        found = await copies.copies(ledger_id, metadata, 0, metadata.last_entry)
        return {each[bookie.bookie_id].state for each in found.values()}
    finally:
        await copies.close()


def test_damage_is_marked_and_repaired_in_place() -> None:
    """Three bookies for ensembles of three: there is no other place for the copies."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, asyncio.timeout(600):
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            before = await ledgers.store.read_ledger(ledger_id)
            await asyncio.sleep(20)
            assert not await marked(ledgers)
            rotten = cluster.bookies[1]
            rotten.damaged = True
            rotten.disk.rot_settled("entry-logs")
            await cluster.restart_bookie(1)  # nothing of it is in memory
            while not await marked(ledgers):  # noqa: ASYNC110 -- what is waited for is in other processes
                await asyncio.sleep(0.5)
            assert await marked(ledgers) == {ledger_id: (rotten.bookie_id,)}
            assert await states(ledgers, ledger_id, rotten) == {CopyState.INTACT, CopyState.DAMAGED}
            await repair(cluster, ledgers)
            assert await ledgers.store.read_ledger(ledger_id) == before
            assert await audit(ledgers, [ledger_id], repaired=True) == []
            # They stay without the write cache, and the next pass finds nothing.
            await cluster.restart_bookie(1)
            assert await audit(ledgers, [ledger_id], repaired=True) == []
            began_ms = cluster.environment().wall_us() // 1000
            while (last := record_of(rotten).last) is None or last.began_ms < began_ms:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            assert last.blocks > 0 and not last.damaged_blocks
            assert not await marked(ledgers)

    simulate(main, config=CONFIG)


def test_a_ledger_directory_that_fails_is_followed_by_a_whole_pass() -> None:
    """The next one would be due in an hour. One that is under way may have read the directory while it was sound."""
    storage = small_storage(more_directories=1, entry_log_bytes_max=4096, checkpoint_interval_s=1.0)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, asyncio.timeout(600):
            bookie = cluster.bookies[1]
            ended: list[ScrubPass] = []

            async def passes(count: int) -> None:
                while len(ended) < count:
                    last = record_of(bookie).last
                    if last is not None and last not in ended:
                        ended.append(last)
                    await asyncio.sleep(0.001)

            await passes(1)
            bookie.disk.faults.arm("sync_error", "more-1/entry-logs")
            for _ in range(6):
                await written(client.ledgers, 40)
                await asyncio.sleep(2)
            async with asyncio.timeout(30):
                await passes(2)
            assert bookie.server is not None and bookie.server.scrubber is not None
            bookie.server.scrubber.scrub_soon()
            while record_of(bookie).current is None:  # noqa: ASYNC110 -- what is waited for is in another process
                await asyncio.sleep(0.0001)
            bookie.server.scrubber.scrub_soon()
            async with asyncio.timeout(30):
                await passes(4)

    simulate(main, config=ClusterConfig(scrub_interval_s=3600.0, storage=storage))


def test_damage_is_repaired_although_its_blocks_are_in_the_read_cache() -> None:
    """The worker that reads the copies must not get what was read before the disk had lost it."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, asyncio.timeout(600):
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            rotten = cluster.bookies[1]
            await cluster.restart_bookie(1)  # nothing of it is in the write cache
            # Once this has read all copies, they are in the read cache.
            while await states(ledgers, ledger_id, rotten) != {CopyState.INTACT}:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            rotten.damaged = True
            rotten.disk.rot_settled("entry-logs")
            while not await marked(ledgers):  # noqa: ASYNC110 -- what is waited for is in other processes
                await asyncio.sleep(0.5)
            await repair(cluster, ledgers)
            await cluster.restart_bookie(1)
            assert await audit(ledgers, [ledger_id], repaired=True) == []

    simulate(main, config=CONFIG)


@pytest.mark.parametrize("single_write_bytes_min", [0, 1])
def test_entries_that_the_index_has_lost_are_found_again(single_write_bytes_min: int) -> None:
    """No mark, no repair by others: the bookie has them, and did not know."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, asyncio.timeout(600):
            ledgers = client.ledgers
            ledger_id = await written(ledgers)
            forgetful = cluster.bookies[1]
            await forgetful.stop()
            assert lose_intervals(forgetful, ledger_id) > 1
            forgetful.start()
            await forgetful.wait_until_serving()
            while CopyState.MISSING not in await states(ledgers, ledger_id, forgetful):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            while (last := record_of(forgetful).last) is None or not last.restored_blocks:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            assert last.restored_blocks == last.unindexed_blocks > 1
            assert await states(ledgers, ledger_id, forgetful) == {CopyState.INTACT}
            await cluster.restart_bookie(1)
            assert await audit(ledgers, [ledger_id], repaired=True) == []
            assert not await marked(ledgers)

    storage = small_storage(single_write_bytes_min=single_write_bytes_min)
    simulate(main, config=replace(CONFIG, scrub_interval_s=30.0, storage=storage))


def lose_intervals(bookie: SimulatedBookie, ledger_id: LedgerId) -> int:
    """Of a bookie that has stopped: all that its index has of the ledger's entries."""
    [(_, store)] = bookie.disk._stores()
    first, end = (b"I" + number.to_bytes(8, "big") for number in (ledger_id, ledger_id + 1))
    lost = store.records.between(first, end)
    store.write(Batch((), tuple(lost)))
    store.sync()
    return len(lost)


def test_a_bookie_in_limbo_has_what_it_lost_repaired_and_serves_again() -> None:
    """Part of its journal is damaged. It marks the ledgers that lack entries here, and no others."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, asyncio.timeout(600):
            ledgers = client.ledgers
            intact = await written(ledgers, 5)
            number = await number_of_member(cluster, ledgers, intact)
            bookie = cluster.bookies[number]
            await cluster.restart_bookie(number)
            damaged = {
                each
                for _ in range(6)
                if bookie.bookie_id in await members_of(ledgers, each := await written(ledgers, 5))
            }
            assert damaged
            await lose_journal(cluster, number)
            while not (found := await marked(ledgers)):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            assert set(found) <= damaged
            assert {missing for each in found.values() for missing in each} == {bookie.bookie_id}
            assert bookie.bookie_id not in {
                each.bookie_id for each in (await ledgers.store.bookies()).writable
            }
            await repair(cluster, ledgers)
            for each in (intact, *damaged):
                assert await audit(ledgers, [each], repaired=True) == []
            assert bookie.bookie_id in await members_of(ledgers, intact)
            while in_limbo(bookie):  # noqa: ASYNC110 -- another process ends it
                await asyncio.sleep(0.5)
            while bookie.bookie_id not in {  # noqa: ASYNC110 -- published by another process
                each.bookie_id for each in (await ledgers.store.bookies()).writable
            }:
                await asyncio.sleep(0.5)
            await cluster.restart_bookie(number)
            assert not in_limbo(bookie)
            for each in (intact, *damaged):
                assert await audit(ledgers, [each], repaired=True) == []

    simulate(main, config=LIMBO)


def test_a_ledger_that_is_still_open_keeps_a_bookie_in_limbo() -> None:
    """Its fence may be among what was lost. Once the ledger is closed, nothing more can be missing."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, asyncio.timeout(3600):
            ledgers = client.ledgers
            ledger_id = await left_open(cluster)
            number = await number_of_member(cluster, ledgers, ledger_id)
            bookie = cluster.bookies[number]
            await lose_journal(cluster, number)
            await asyncio.sleep(5 * LIMBO.storage.limbo_check_interval_s)
            assert in_limbo(bookie)
            await ledgers.open_with_recovery(ledger_id)
            assert (await ledgers.store.read_ledger(ledger_id)).value.last_entry == 99
            while not await marked(ledgers):  # noqa: ASYNC110 -- what is waited for is in other processes
                await asyncio.sleep(0.5)
            await repair(cluster, ledgers)
            while in_limbo(bookie):  # noqa: ASYNC110 -- another process ends it
                await asyncio.sleep(0.5)
            assert await audit(ledgers, [ledger_id], repaired=True) == []

    simulate(main, config=LIMBO)


@pytest.mark.parametrize("has_key", [True, False])
def test_a_fence_that_was_lost_is_set_again_before_limbo_ends(has_key: bool) -> None:
    """The ledger is closed, and its first writer may still be there and reach this bookie.

    Without the key the bookie has lost all that it had of the ledger, and repair replaces it.
    """

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, asyncio.timeout(3600):
            ledgers = client.ledgers
            ledger_id = await left_open(cluster)
            number = await number_of_member(cluster, ledgers, ledger_id)
            bookie = cluster.bookies[number]
            if has_key:
                await bookie.checkpoint()  # from here on the journal has nothing of this ledger but the fence
            await ledgers.open_with_recovery(ledger_id)
            # What is damaged at the end of a journal would look like a torn write.
            while bookie.bookie_id not in await members_of(ledgers, await written(ledgers, 1)):
                pass
            await lose_journal(cluster, number, whole=True)
            autorecovery = run_autorecovery(cluster.store(), cluster.environment(), QUICK)
            cluster.run("autorecovery", lambda: autorecovery)
            while in_limbo(bookie):  # noqa: ASYNC110 -- another process ends it
                await asyncio.sleep(0.5)
            assert (bookie.bookie_id in await members_of(ledgers, ledger_id)) == has_key
            for _ in range(2):
                assert await late_add(ledgers, ledger_id, bookie) is Status.EFENCED
                await cluster.restart_bookie(number)

    simulate(main, config=LIMBO)


async def left_open(cluster: SimulatedCluster) -> LedgerId:
    """A ledger of 100 entries whose writer was killed, on bookies that were restarted just before."""
    for number in range(len(cluster.bookies)):
        await cluster.restart_bookie(number)
    made: asyncio.Future[LedgerId] = asyncio.get_running_loop().create_future()

    async def write() -> None:
        async with await cluster.client() as writer:
            handle = await writer.ledgers.create(THREE_OF_THREE)
            for number in range(100):
                await handle.add(b"%d" % number * 50)
            made.set_result(handle.ledger_id)
            await asyncio.Event().wait()

    cluster.run("writer", write)
    ledger_id = await made
    cluster.kill("writer")
    return ledger_id


async def late_add(ledgers: LedgerClient, ledger_id: LedgerId, bookie: SimulatedBookie) -> Status:
    """The answer to an add that the ledger's first writer sends after the recovery."""
    metadata = (await ledgers.store.read_ledger(ledger_id)).value
    host, port = bookie.bookie_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(add(ledger_id, metadata.last_entry + 1, key=master_key(metadata.password)))
    status = add_answer(await reader.readexactly(28)).status
    writer.close()
    return status


async def lose_journal(cluster: SimulatedCluster, number: int, *, whole: bool = False) -> None:
    """Kill the bookie, damage its journal, all before the last group if `whole`, and start it in limbo."""
    bookie = cluster.bookies[number]
    bookie.kill()
    bookie.damaged = True
    if whole:
        for path, inode in bookie.disk._files():
            if path.suffix == ".journal" and (extent := settled_extent(path, inode)):
                inode.spoil(extent.start, b"\xff" * len(extent))
    else:
        bookie.disk.rot_settled(".journal")
    await cluster.restart_bookie(number)
    assert in_limbo(bookie)


def in_limbo(bookie: SimulatedBookie) -> bool:
    assert bookie.server is not None and bookie.server.storage is not None
    return bookie.server.storage.limbo


async def number_of_member(cluster: SimulatedCluster, ledgers: LedgerClient, ledger_id: LedgerId) -> int:
    """Of the first bookie in the ledger's last ensemble."""
    first, *_ = await members_of(ledgers, ledger_id)
    return next(at for at, each in enumerate(cluster.bookies) if each.bookie_id == first)


async def members_of(ledgers: LedgerClient, ledger_id: LedgerId) -> tuple[str, ...]:
    return (await ledgers.store.read_ledger(ledger_id)).value.last_fragment.ensemble


def test_a_pass_goes_on_where_the_process_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubber, "STEP_BYTES", 1)
    monkeypatch.setattr(scrubber, "_SAVE_S", 0.0)

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, asyncio.timeout(600):
            await written(client.ledgers)
            bookie = cluster.bookies[0]
            await cluster.restart_bookie(0)  # a checkpoint
            while (current := record_of(bookie).current) is None or current.blocks < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            cluster.kill_bookie(0)
            await cluster.restart_bookie(0)
            while (last := record_of(bookie).last) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            assert last.began_ms == current.began_ms
            began_ms = last.began_ms
            while last.began_ms == began_ms:
                await asyncio.sleep(0.5)
                whole = record_of(bookie).last
                if whole is not None and whole.began_ms != began_ms:
                    break
            assert whole is not None
            # What was checked after the last note of the position is checked once more.
            assert whole.blocks <= last.blocks <= whole.blocks + 1

    simulate(main, config=CONFIG)
