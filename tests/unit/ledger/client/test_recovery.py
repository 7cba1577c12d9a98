"""Open with recovery, write-back and its replacements, against scripted bookies."""

from __future__ import annotations

import asyncio

import pytest

from ledger.client import LedgerClient
from ledger.errors import (
    EntryNotFoundError,
    LedgerClosedError,
    LedgerNotFoundError,
    LedgerRecoveryError,
    ReadError,
)
from ledger.model import DigestType, LedgerId, LedgerMetadata, LedgerState, QuorumSizes, Versioned
from ledger.repair.config import RepairConfig
from ledger.repair.locked_repair import LockedRepair
from ledger.wire.digest import make_digester
from ledger.wire.status import Status
from ledger.writing.write_handle import WriteHandle
from tests.helpers.ledger.scripted_bookies import (
    GUARD_S,
    NEVER_S,
    Cluster,
    ScriptedBookie,
    scripted_cluster,
    until,
)


async def unconfirmed_tail(cluster: Cluster, handle: WriteHandle, count: int) -> None:
    """`count` entries that are on every bookie of the ensemble, and of whose success the writer never heard."""
    ensemble = cluster.ensemble(handle)
    for bookie in ensemble:
        bookie.mute = lambda what: what == "write_lac"
    for number in range(count):
        handle.submit(b"%d" % number)
    await until(lambda: all(len(bookie.entries) == count for bookie in ensemble))


async def confirmed_entries(handle: WriteHandle, count: int) -> None:
    for number in range(count):
        await handle.add(b"%d" % number)


async def recover(cluster: Cluster, handle: WriteHandle) -> tuple[int, int]:
    client: LedgerClient = cluster.client
    recovered = await client.open_with_recovery(handle.ledger_id)
    return recovered.last_readable, len(recovered.metadata.fragments)


async def test_every_read_of_a_recovery_fences() -> None:
    """A bookie that missed the first one must not take an add of the old writer after it has denied the entry."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 3)
        late = cluster.ensemble(handle)[0]
        late.mute = lambda what: what == "fence -1"
        for bookie in cluster.bookies:
            bookie.log.clear()
        assert await recover(cluster, handle) == (2, 1)
        asked = {what for bookie in cluster.bookies for what in bookie.log}
        assert asked >= {f"fence {entry_id}" for entry_id in range(-1, 4)}
        assert not [what for what in asked if what.startswith(("read ", "batch "))]


async def test_what_is_written_back_has_the_lac_that_recovery_began_with() -> None:
    """A reader must not trust an entry that another recovery may still cut off, whatever is on its quorum by now."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 40)
        lacking = cluster.ensemble(handle)[0]
        lacking.entries.clear()
        assert await recover(cluster, handle) == (39, 1)
        await until(lambda: len(lacking.entries) == 40)
        lacs = {int.from_bytes(entry[16:24], "big", signed=True) for entry in lacking.entries.values()}
        assert lacs == {-1}


async def test_a_bookie_that_hangs_after_the_fence_does_not_slow_every_entry_down() -> None:
    """100 entries to read back, one replica silent from the first of them on: one speculation, not one per entry."""
    async with scripted_cluster(read_timeout_s=NEVER_S, speculative_read_s=0.5) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 100)
        cluster.ensemble(handle)[0].mute = lambda what: what.startswith(("fence 1", "fence 2", "fence 3"))
        one_for_each_entry_s = 100 * cluster.client.config.speculative_read_s
        async with asyncio.timeout(one_for_each_entry_s / 4):
            assert await recover(cluster, handle) == (99, 1)


async def test_a_member_that_refuses_write_backs_is_replaced_in_the_closing_change() -> None:
    async with scripted_cluster(4) as cluster:
        handle = await cluster.client.create(QuorumSizes(ensemble=3, write=3, ack=3))
        await unconfirmed_tail(cluster, handle, 5)
        bad = cluster.ensemble(handle)[1]
        bad.refuse_adds = Status.EIO
        last, _ = await recover(cluster, handle)
        metadata = (await cluster.store.read_ledger(handle.ledger_id)).value
        assert (last, metadata.state) == (4, LedgerState.CLOSED)
        assert bad.bookie_id not in metadata.last_fragment.ensemble
        for entry_id in range(5):
            assert await cluster.recorded_copies(handle.ledger_id, entry_id) == 3


async def test_metadata_names_no_new_member_before_the_ledger_is_closed() -> None:
    """Another recovery would take its denials for those of a bookie that may have acknowledged entries."""
    async with scripted_cluster(4, add_timeout_s=NEVER_S) as cluster:
        handle = await cluster.client.create(QuorumSizes(ensemble=3, write=3, ack=3))
        await unconfirmed_tail(cluster, handle, 5)
        before = (await cluster.store.read_ledger(handle.ledger_id)).value
        cluster.ensemble(handle)[1].refuse_adds = Status.EIO
        [spare] = cluster.spares(handle)
        spare.mute = lambda what: what.startswith("add ")
        recovering = asyncio.create_task(recover(cluster, handle))
        await until(lambda: len(spare._unheard) == 5)
        found = (await cluster.store.read_ledger(handle.ledger_id)).value
        assert (found.state, found.fragments) == (LedgerState.IN_RECOVERY, before.fragments)
        spare.speak()
        async with asyncio.timeout(GUARD_S):
            assert (await recovering)[0] == 4
        found = (await cluster.store.read_ledger(handle.ledger_id)).value
        assert found.closed and spare.bookie_id in found.last_fragment.ensemble


async def test_a_lost_member_is_replaced_immediately() -> None:
    """It broke while entries were still being read: nobody waits for a timeout to notice."""
    async with scripted_cluster(4, add_timeout_s=NEVER_S) as cluster:
        handle = await cluster.client.create(QuorumSizes(ensemble=3, write=3, ack=3))
        await unconfirmed_tail(cluster, handle, 20)
        cluster.ensemble(handle)[2].refuse_adds = Status.EIO
        async with asyncio.timeout(GUARD_S):
            assert (await recover(cluster, handle))[0] == 19


async def test_spares_that_cannot_be_used_are_not_recorded() -> None:
    """Two spares, one silent, one gone: the member that failed stays in metadata, it may hold a copy."""
    async with scripted_cluster(5, probe_timeout_s=0.1) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 5)
        silent, gone = cluster.spares(handle)
        silent.be_silent()
        gone.go_away()
        cluster.ensemble(handle)[0].refuse_adds = Status.EIO
        assert await recover(cluster, handle) == (4, 1)


async def test_no_more_is_written_back_ahead_of_the_ack_quorum_than_slow_bookies_can_queue() -> None:
    """4 MB to write back, a send queue of 1 MiB, and only one of three bookies that answers: the rest is sent later."""
    size, count, queue_bytes = 64 * 1024, 60, 1024 * 1024
    async with scripted_cluster(send_queue_bytes_max=queue_bytes, add_timeout_s=NEVER_S) as cluster:
        handle = await cluster.client.create_deferred(QuorumSizes())
        for number in range(count):
            await handle.add(bytes([number]) * size)
        fast, *slow = cluster.bookies
        for bookie in cluster.bookies:
            bookie.log.clear()
        for bookie in slow:
            bookie.mute = lambda what: what.startswith("add")
        recovery = asyncio.create_task(cluster.client.open_with_recovery(handle.ledger_id))
        await until(lambda: added(fast) > 0)
        before = 0
        while before < (before := added(fast)):  # noqa: ASYNC110 - that nothing more is sent has no event
            await asyncio.sleep(0.1)
        assert before * size <= queue_bytes / 2
        for bookie in slow:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            assert (await recovery).last_readable == count - 1
        assert added(fast) == count


def added(bookie: ScriptedBookie) -> int:
    return sum(what.startswith("add ") for what in bookie.log)


async def test_without_an_ack_quorum_recovery_fails_and_can_be_repeated() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 5)
        bad = cluster.ensemble(handle)[:2]
        for bookie in bad:
            bookie.refuse_adds = Status.EIO
        with pytest.raises(LedgerRecoveryError, match="no ack quorum of 2 bookies"):
            await recover(cluster, handle)
        assert (await cluster.store.read_ledger(handle.ledger_id)).value.state is LedgerState.IN_RECOVERY
        for bookie in bad:
            bookie.refuse_adds = None
        assert await recover(cluster, handle) == (4, 1)


async def test_an_entry_without_a_payload_needs_its_ack_quorum_too() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        for bookie in cluster.bookies:
            bookie.mute = lambda what: what == "write_lac"
        handle.submit(b"")
        await until(lambda: all(bookie.entries for bookie in cluster.bookies))
        for bookie in cluster.ensemble(handle)[:2]:
            bookie.refuse_adds = Status.EIO
        with pytest.raises(LedgerRecoveryError, match="no ack quorum of 2 bookies"):
            await recover(cluster, handle)
        assert (await cluster.store.read_ledger(handle.ledger_id)).value.state is LedgerState.IN_RECOVERY


async def test_an_entry_on_one_bookie_is_kept_while_another_that_might_hold_it_is_silent() -> None:
    """b0 has entry 0, b1 denies it, b2 says nothing: it may be acknowledged, so it is kept."""
    async with scripted_cluster(read_timeout_s=0.3, add_timeout_s=0.3) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        holder, denier, silent = cluster.ensemble(handle)
        silent.be_silent()
        denier.refuse_adds = Status.EIO
        handle.submit(b"zero")
        await until(lambda: len(holder.entries) == 1)
        denier.refuse_adds = None
        assert (await recover(cluster, handle))[0] == 0
        assert await cluster.recorded_copies(handle.ledger_id, 0) >= 2


async def test_neither_a_bookie_that_hangs_nor_one_that_cannot_be_reached_denies_an_entry() -> None:
    """Two of three have entry 0, of which one hangs after the fence and one is away; the third one denies it."""
    async with scripted_cluster(read_timeout_s=0.3) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 1)
        denier, hanging, away = cluster.ensemble(handle)
        del denier.entries[handle.ledger_id, 0]
        hanging.mute = lambda what: what == "fence 0"
        away.go_away()
        with pytest.raises(LedgerRecoveryError, match="entry 0 is neither found nor proved absent"):
            await recover(cluster, handle)
        assert (await cluster.store.read_ledger(handle.ledger_id)).value.state is LedgerState.IN_RECOVERY
        hanging.speak()
        assert (await recover(cluster, handle))[0] == 0


async def test_a_damaged_copy_is_no_denial() -> None:
    """The only other holder of the entry is damaged, and one denies: undecided, so the ledger stays open."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 1)
        first, second, third = cluster.ensemble(handle)
        del first.entries[handle.ledger_id, 0]
        for bookie in (second, third):
            damaged = bytearray(bookie.entries[handle.ledger_id, 0])
            damaged[-1] ^= 1
            bookie.entries[handle.ledger_id, 0] = bytes(damaged)
        with pytest.raises(LedgerRecoveryError, match="too few bookies could be fenced"):
            await recover(cluster, handle)


@pytest.mark.parametrize("lac", [1, 2**62, 2**63 - 1])
async def test_a_lac_that_no_writer_sends_does_not_set_the_end(lac: int) -> None:
    """A bookie makes it up, in the header of an entry with a valid checksum."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await confirmed_entries(handle, 2)
        ledger_id = handle.ledger_id
        made_up = (
            make_digester(DigestType.CRC32C, b"").header_and_digest(ledger_id, 1, lac, 2, (b"1",)) + b"1"
        )
        cluster.ensemble(handle)[0].entries[ledger_id, 1] = made_up
        reader = await cluster.client.open(ledger_id)
        assert reader.last_readable == 1
        assert (await recover(cluster, handle))[0] == 1


async def test_a_striped_tail_is_recovered_in_order() -> None:
    """E5 Qw3 Qa2 with one bookie gone: every entry is found on the others, and written back."""
    async with scripted_cluster(5) as cluster:
        handle = await cluster.client.create(QuorumSizes(ensemble=5, write=3, ack=2))
        for bookie in cluster.bookies:
            bookie.mute = lambda what: what == "write_lac"
        for number in range(50):
            handle.submit(b"%d" % number)
        await until(lambda: sum(len(bookie.entries) for bookie in cluster.bookies) == 150)
        gone = cluster.bookies[3]
        gone.go_away()
        assert (await recover(cluster, handle))[0] == 49
        reader = await cluster.client.open(handle.ledger_id)
        entries = await reader.read(0, 49)
        assert [bytes(entry.payload) for entry in entries] == [b"%d" % number for number in range(50)]


async def moved_away(cluster: Cluster, handle: WriteHandle) -> list[ScriptedBookie]:
    """Entries 0..4 are confirmed; then all members are replaced, and nothing is added. Returns the old ones."""
    for number in range(5):
        await handle.add(b"%d" % number)
    old = cluster.ensemble(handle)
    for bookie in old:
        bookie.go_away()
    await until(lambda: not set(old) & set(cluster.ensemble(handle)))
    handle.abandon(LedgerClosedError("the writer died"))
    return old


async def test_an_empty_last_fragment_is_recovered_without_its_older_bookies() -> None:
    """Its members prove that nothing was acknowledged after the LAC; the entry at the LAC is needed for nothing."""
    async with scripted_cluster(6, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await moved_away(cluster, handle)
        assert await recover(cluster, handle) == (4, 2)
        metadata = (await cluster.store.read_ledger(handle.ledger_id)).value
        assert (metadata.state, metadata.length) == (LedgerState.CLOSED, 0)


async def test_the_length_of_an_empty_last_fragment_is_that_of_the_entry_before_it() -> None:
    async with scripted_cluster(6, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        [*_, last] = await moved_away(cluster, handle)
        await last.listen()
        assert await recover(cluster, handle) == (4, 2)
        assert (await cluster.store.read_ledger(handle.ledger_id)).value.length == 5


async def test_a_last_entry_that_is_lost_does_not_bar_recovery() -> None:
    """All older bookies deny it: that is reported to who reads it, and bars nobody from going on."""
    async with scripted_cluster(6, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        for bookie in await moved_away(cluster, handle):
            bookie.entries.clear()
            await bookie.listen()
        assert await recover(cluster, handle) == (4, 2)
        reader = await cluster.client.open(handle.ledger_id)
        with pytest.raises(EntryNotFoundError, match="is confirmed but lost"):
            await reader.read(4, 4)


async def test_entries_that_recovery_has_found_are_not_read_again() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 5)
        recovered = await cluster.client.open_with_recovery(handle.ledger_id)
        for bookie in cluster.bookies:
            bookie.go_away()
        ends = [(await recovered.read(entry_id, entry_id))[0].payload for entry_id in (0, 4)]
        assert [bytes(payload) for payload in ends] == [b"0", b"4"]
        with pytest.raises(ReadError):
            await recovered.read(2, 2)


@pytest.mark.parametrize("silent", [False, True])
async def test_recovery_reads_the_first_entry_as_well_for_a_caller_that_needs_it(silent: bool) -> None:
    """From a bookie that has answered the fence: one that hangs delays nothing."""
    async with scripted_cluster(read_timeout_s=NEVER_S, speculative_read_s=NEVER_S) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await confirmed_entries(handle, 5)
        hung = cluster.ensemble(handle)[0]
        if silent:
            hung.be_silent()
        async with asyncio.timeout(GUARD_S):
            recovered = await cluster.client.open_with_recovery(handle.ledger_id, read_first=True)
        for bookie in cluster.bookies:
            bookie.go_away()
        ends = [(await recovered.read(entry_id, entry_id))[0].payload for entry_id in (0, 4)]
        assert [bytes(payload) for payload in ends] == [b"0", b"4"]


async def test_a_first_entry_that_is_lost_does_not_bar_recovery() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await confirmed_entries(handle, 5)
        for bookie in cluster.bookies:
            bookie.entries.pop((handle.ledger_id, 0), None)
        recovered = await cluster.client.open_with_recovery(handle.ledger_id, read_first=True)
        assert recovered.last_readable == 4
        with pytest.raises(EntryNotFoundError, match="is confirmed but lost"):
            await recovered.read(0, 0)


@pytest.mark.parametrize("missing", [False, True])
async def test_metadata_that_is_out_of_date_suffices_to_begin_a_recovery(
    monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    """From before another client's recovery, or from before the ledger was created."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 5)
        old = {} if missing else await cluster.store.glance_at_ledgers((handle.ledger_id,))
        assert await recover(cluster, handle) == (4, 1)

        async def glance(ledger_ids: tuple[LedgerId, ...]) -> dict[LedgerId, Versioned[LedgerMetadata]]:
            return old

        monkeypatch.setattr(cluster.store, "glance_at_ledgers", glance)
        assert await recover(cluster, handle) == (4, 1)
        await cluster.client.delete(handle.ledger_id)
        with pytest.raises(LedgerNotFoundError):
            await recover(cluster, handle)


async def test_recovery_with_an_ack_quorum_does_not_wait_for_spares_that_hang() -> None:
    """A rack is lost with a member and all spare bookies, and their registrations have not ended yet."""
    async with scripted_cluster(5, probe_timeout_s=NEVER_S, read_timeout_s=NEVER_S) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        for spare in cluster.spares(handle):
            spare.be_silent()
        *left, lost = cluster.ensemble(handle)
        lost.go_away()
        for bookie in left:
            bookie.mute = lambda what: what.startswith("add")
        recovering = asyncio.create_task(cluster.client.open_with_recovery(handle.ledger_id))
        await until(lambda: all(bookie._unheard for bookie in left))
        await asyncio.sleep(0.05)  # the search has begun
        for bookie in left:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            assert (await recovering).last_readable == 0
        await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() if "WriteBack" in repr(task.get_coro())]


async def test_the_mark_of_a_spare_that_lacks_entries_outlives_the_closing_change() -> None:
    """A replication worker is faster than the change that makes the spare a member, and finds nothing to do."""
    async with scripted_cluster(4, probe_timeout_s=NEVER_S) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await unconfirmed_tail(cluster, handle, 5)
        lost, *left = cluster.ensemble(handle)
        [spare] = cluster.spares(handle)
        spare.refuse_adds = Status.EIO
        lost.go_away()
        for bookie in left:
            bookie.mute = lambda what: what.startswith("add")
        repair = LockedRepair(cluster.client, RepairConfig(), "worker")

        async def worker_first() -> None:
            if spare.log:
                await until(lambda: not cluster.client.missed_copies.unmarked)
                await repair.of_mark(handle.ledger_id)

        cluster.store.before_write = worker_first
        recovering = asyncio.create_task(recover(cluster, handle))
        await until(lambda: added(spare) > 0)
        for bookie in left:
            bookie.speak()
        assert await recovering == (4, 1)
        metadata = (await cluster.store.read_ledger(handle.ledger_id)).value
        assert spare.bookie_id in metadata.last_fragment.ensemble and not spare.entries
        await until(lambda: not cluster.client.missed_copies.unmarked)
        mark = await cluster.store.repair.read_mark(handle.ledger_id)
        assert spare.bookie_id in mark.value.missing
        await repair.close()


async def test_a_closed_client_begins_no_recovery() -> None:
    """It could not end it, and its mark would stop the writer."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        await cluster.client.close()
        with pytest.raises(LedgerRecoveryError, match="client was closed"):
            await cluster.client.open_with_recovery(handle.ledger_id)
        assert (await cluster.store.read_ledger(handle.ledger_id)).value.state is LedgerState.OPEN
