"""The reader's shell against scripted bookies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from ledger.errors import (
    ConfigurationError,
    DigestMismatchError,
    EntryNotFoundError,
    LedgerNotFoundError,
    MetadataUnavailableError,
    ReadError,
)
from ledger.model import EntryId, Fragment, LedgerId, LedgerMetadata, QuorumSizes, Versioned
from ledger.reading.read_handle import ReadHandle
from ledger.writing.write_handle import WriteHandle
from tests.helpers.ledger.scripted_bookies import (
    GUARD_S,
    NEVER_S,
    Cluster,
    ScriptedBookie,
    never,
    scripted_cluster,
    until,
)


async def name_in_metadata(cluster: Cluster, ledger_id: LedgerId, members: Sequence[ScriptedBookie]) -> None:
    """As members of the ledger's only fragment, as repair does once it has copied the entries."""
    found = await cluster.store.read_ledger(ledger_id)
    moved = Fragment(EntryId(0), tuple(bookie.bookie_id for bookie in members))
    await cluster.store.write_ledger(ledger_id, replace(found.value, fragments=(moved,)), found.version)


async def test_a_close_between_a_look_and_a_wait_is_noticed() -> None:
    """The watch fires while nobody waits; the next wait must not sleep over it until its time is up."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        await reader.wait_for_lac(0, timeout_s=0.01)
        await handle.close()
        await asyncio.sleep(0.01)
        async with asyncio.timeout(GUARD_S):
            await reader.wait_for_lac(0, timeout_s=NEVER_S)
        assert reader.closed


async def test_a_close_that_a_watch_reports_needs_no_current_read() -> None:
    """Whatever shows a ledger closed is true."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        await reader.wait_for_lac(0, timeout_s=0.01)
        await handle.close()
        await asyncio.sleep(0.01)
        cluster.store.before_read = never
        async with asyncio.timeout(GUARD_S):
            assert await reader.refresh() == 0
        assert reader.closed


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_close_is_not_forgotten_with_the_read_that_would_have_shown_it(is_cancelled: bool) -> None:
    """The watch has fired, and the look at the metadata after it fails or is cancelled."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        await reader.wait_for_lac(0, timeout_s=0.01)
        looking = asyncio.Event()

        async def fail(ledger_ids: object) -> None:
            looking.set()
            if is_cancelled:
                await never()
            raise MetadataUnavailableError("the store is down")

        glance = cluster.store.glance_at_ledgers
        cluster.store.glance_at_ledgers = fail
        waiting = asyncio.create_task(reader.wait_for_lac(0, timeout_s=NEVER_S))
        await asyncio.sleep(0.01)
        await handle.close()
        await looking.wait()
        if is_cancelled:
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError if is_cancelled else MetadataUnavailableError):
            await waiting
        cluster.store.glance_at_ledgers = glance
        async with asyncio.timeout(GUARD_S):
            await reader.wait_for_lac(0, timeout_s=NEVER_S)
        assert reader.closed


async def test_a_ledger_deleted_before_the_first_wait_is_an_error() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        await cluster.client.delete(handle.ledger_id)
        with pytest.raises(LedgerNotFoundError):
            await reader.wait_for_lac(0, timeout_s=NEVER_S)


@pytest.mark.parametrize("before_read", [None, never], ids=["", "without a linearizable read"])
async def test_a_close_before_the_first_wait_is_noticed(
    before_read: Callable[[], Awaitable[None]] | None,
) -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        await handle.close()
        cluster.store.before_read = before_read
        async with asyncio.timeout(GUARD_S):
            await reader.wait_for_lac(0, timeout_s=NEVER_S)
        assert reader.closed


async def test_a_ledger_deleted_under_a_waiting_reader_is_an_error() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        waiting = asyncio.create_task(reader.wait_for_lac(0, timeout_s=NEVER_S))
        await asyncio.sleep(0.02)
        await cluster.client.delete(handle.ledger_id)
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(LedgerNotFoundError):
                await waiting


async def test_a_cancelled_wait_leaves_no_task() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        before = asyncio.all_tasks()
        waiting = asyncio.create_task(reader.wait_for_lac(0, timeout_s=NEVER_S))
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before


@pytest.mark.parametrize("old_copies", ["away", "gone"])
async def test_entries_that_moved_to_other_bookies_are_found_there(old_copies: str) -> None:
    """A repair tool has copied a closed ledger, and rewritten its metadata, while a reader had it open."""
    async with scripted_cluster(6, quorum_timeout_s=1.0) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        await handle.close()
        reader = await cluster.client.open(handle.ledger_id)
        old, new = cluster.ensemble(handle), cluster.spares(handle)
        for source, target in zip(old, new, strict=True):
            target.entries.update(source.entries)
            source.entries.clear()
            if old_copies == "away":
                source.go_away()
        await name_in_metadata(cluster, handle.ledger_id, new)
        [entry] = await reader.read(0, 0)
        assert bytes(entry.payload) == b"zero"


@pytest.mark.parametrize("old_copies", ["removed", "away"])
async def test_entries_that_move_again_while_they_are_looked_for_are_found(
    old_copies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only copy moves on after its new place was read. It is neither lost nor out of reach."""
    async with scripted_cluster(4, quorum_timeout_s=1.0) as cluster:
        handle = await cluster.client.create(QuorumSizes(ensemble=1, write=1, ack=1))
        await handle.add(b"zero")
        await handle.close()
        reader = await cluster.client.open(handle.ledger_id)
        [holder], spares = cluster.ensemble(handle), cluster.spares(handle)
        read_ledger = cluster.store.read_ledger

        async def move() -> None:
            nonlocal holder
            source, holder = holder, spares.pop()
            holder.entries.update(source.entries)
            source.entries.clear()
            if old_copies == "away":
                source.go_away()
            await name_in_metadata(cluster, handle.ledger_id, [holder])

        async def read_and_move(ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
            monkeypatch.undo()
            found = await read_ledger(ledger_id)
            await move()
            return found

        await move()
        monkeypatch.setattr(cluster.store, "read_ledger", read_and_move)
        [entry] = await reader.read(0, 0)
        assert bytes(entry.payload) == b"zero"


async def test_of_two_reads_at_a_time_both_find_what_has_moved() -> None:
    """The one that fails first adopts the new metadata, and the other one has asked the bookies before."""
    async with scripted_cluster(6) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        await handle.add(b"one")
        await handle.close()
        reader = await cluster.client.open(handle.ledger_id)
        old, new = cluster.ensemble(handle), cluster.spares(handle)
        for source, target in zip(old, new, strict=True):
            target.entries.update(source.entries)
            source.entries.clear()
            source.mute = lambda what: what.endswith(" 1")
        await name_in_metadata(cluster, handle.ledger_id, new)
        second = asyncio.create_task(reader.read(1, 1))
        await until(lambda: any(bookie._unheard for bookie in old))
        assert [bytes(entry.payload) for entry in await reader.read(0, 0)] == [b"zero"]
        for bookie in old:
            bookie.speak()
        assert [bytes(entry.payload) for entry in await second] == [b"one"]


async def test_a_damaged_copy_does_not_hide_intact_ones_that_have_moved() -> None:
    """Two of three bookies were replaced while a reader had the ledger open; the copy that stayed is damaged."""

    async def unavailable(_: object) -> None:
        raise MetadataUnavailableError("try again")

    async with scripted_cluster(5, quorum_timeout_s=1.0) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        await handle.close()
        reader = await cluster.client.open(handle.ledger_id)
        *old, kept = cluster.ensemble(handle)
        new = cluster.spares(handle)
        for source, target in zip(old, new, strict=True):
            target.entries.update(source.entries)
            source.go_away()
        damaged = bytearray(kept.entries[handle.ledger_id, 0])
        damaged[-1] ^= 0x40
        kept.entries[handle.ledger_id, 0] = bytes(damaged)
        found = await cluster.store.read_ledger(handle.ledger_id)
        moved = Fragment(EntryId(0), tuple(bookie.bookie_id for bookie in (*new, kept)))
        await cluster.store.write_ledger(
            handle.ledger_id, replace(found.value, fragments=(moved,)), found.version
        )
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(cluster.store, "read_ledger", unavailable)
            with pytest.raises(DigestMismatchError):
                await reader.read(0, 0)
        [entry] = await reader.read(0, 0)
        assert bytes(entry.payload) == b"zero"


async def test_nothing_is_lost_while_its_place_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bookies that a reader knows deny the entry, and the store cannot say whether it lies elsewhere by now."""

    async def unavailable(_: object) -> None:
        raise MetadataUnavailableError("try again")

    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        await handle.close()
        reader = await cluster.client.open(handle.ledger_id)
        for bookie in cluster.bookies:
            bookie.entries.clear()
        with monkeypatch.context() as patched:
            patched.setattr(cluster.store, "read_ledger", unavailable)
            with pytest.raises(MetadataUnavailableError):
                await reader.read(0, 0)
        with pytest.raises(EntryNotFoundError):
            await reader.read(0, 0)


@pytest.mark.parametrize("sizes", [(3, 3, 2), (4, 3, 2)], ids=["whole", "striped"])
async def test_a_confirmed_entry_is_read_from_the_one_replica_that_has_it(
    sizes: tuple[int, int, int],
) -> None:
    """Two replicas lost it (that is beyond the contract): as many denials as prove absence do not hide the third."""
    async with scripted_cluster(4) as cluster:
        handle = await cluster.client.create(QuorumSizes(ensemble=sizes[0], write=sizes[1], ack=sizes[2]))
        for number in range(8):
            await handle.add(b"%d" % number)
        holders = [bookie for bookie in cluster.bookies if (handle.ledger_id, 3) in bookie.entries]
        for bookie in holders[:-1]:
            del bookie.entries[handle.ledger_id, 3]
        reader = await cluster.client.open(handle.ledger_id)
        entries = await reader.read(0, 7)
        assert [bytes(entry.payload) for entry in entries] == [b"%d" % number for number in range(8)]
        del holders[-1].entries[handle.ledger_id, 3]
        with pytest.raises(EntryNotFoundError, match="confirmed but lost"):
            await reader.read(0, 7)
        assert len(await reader.read_batch(0, max_entries=8, max_bytes=1000)) == 3


async def test_a_silent_replica_costs_one_speculation() -> None:
    """The replica that answered instead is asked from then on."""
    async with scripted_cluster(read_timeout_s=NEVER_S, speculative_read_s=0.3) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        silent = cluster.ensemble(handle)[reader._preferred]
        silent.be_silent()
        silent.frames.clear()
        async with asyncio.timeout(GUARD_S):
            for _ in range(20):
                await reader.read(0, 0)
        # A second one is a busy machine's: a reply took longer than the pause before speculation.
        assert 1 <= len(silent.frames) <= 2


async def test_damage_everywhere_is_reported_as_damage() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        await handle.close()
        reader = await cluster.client.open(handle.ledger_id)
        for bookie in cluster.bookies[:2]:
            damaged = bytearray(bookie.entries[handle.ledger_id, 0])
            damaged[40 % len(damaged)] ^= 0x40
            bookie.entries[handle.ledger_id, 0] = bytes(damaged)
        assert bytes((await reader.read(0, 0))[0].payload) == b"zero"
        last = dict(cluster.bookies[2].entries)
        cluster.bookies[2].entries.update(cluster.bookies[0].entries)
        with pytest.raises(
            DigestMismatchError, match=r"no intact copy of entry 0 .*; restore one on a bookie"
        ) as raised:
            await reader.read(0, 0)
        assert "another replica" not in str(raised.value) and "start" not in str(raised.value)
        assert (raised.value.ledger_id, raised.value.entry_id) == (handle.ledger_id, 0)
        cluster.bookies[2].entries.update(last)
        cluster.bookies[2].go_away()
        with pytest.raises(DigestMismatchError, match="start the bookies that did not return it, or restore"):
            await reader.read(0, 0)
        for bookie in cluster.bookies[:2]:
            bookie.go_away()
        with pytest.raises(ReadError, match="start its bookies"):
            await reader.read(0, 0)


async def test_busy_replicas_are_not_asked_three_times() -> None:
    """Every answer takes twice the speculative delay: after a few reads that is taken for usual."""
    async with scripted_cluster(read_timeout_s=5.0, speculative_read_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        reader = await cluster.client.open(handle.ledger_id)
        for bookie in cluster.bookies:
            bookie.delay_s = 0.04
            bookie.log.clear()
        for _ in range(20):
            await reader.read(0, 0)
        assert sum(bookie.log.count("read 0") for bookie in cluster.bookies) < 35


async def _followed(cluster: Cluster) -> tuple[WriteHandle, ReadHandle]:
    """A ledger with one entry, a reader that has read it and waits from now on, and then a second entry.

    Every bookie has it, and the LAC that says so, of which the writer tells only two.
    """
    handle = await cluster.client.create(QuorumSizes())
    await handle.add(b"zero")
    reader = await cluster.client.open(handle.ledger_id)
    assert await reader.wait_for_lac(0, timeout_s=0.01) == 0
    for bookie in cluster.bookies:
        bookie.log.clear()
    await handle.add(b"one")
    told = next(bookie for bookie in cluster.bookies if "write_lac" in bookie.log)
    for bookie in cluster.bookies:
        while (handle.ledger_id, 1) not in bookie.entries:  # noqa: ASYNC110 - the bookie tells nobody
            await asyncio.sleep(0.001)
        bookie.packets[handle.ledger_id] = told.packets[handle.ledger_id]
        bookie.log.clear()
    return handle, reader


def _requests(cluster: Cluster) -> Counter[str]:
    return Counter(what for bookie in cluster.bookies for what in bookie.log if what != "read_entry")


async def test_an_entry_that_follows_costs_one_look_at_one_lac() -> None:
    """It comes with the long poll; the bookie that tells of it proves it, and nobody else is asked."""
    async with scripted_cluster() as cluster:
        handle, reader = await _followed(cluster)
        teller = cluster.of(reader._poll_members()[1])
        teller.claims = 1
        assert await reader.wait_for_lac(0, timeout_s=5) == 1
        assert [bytes(entry.payload) for entry in await reader.read_batch(1, max_entries=9, max_bytes=9)] == [
            b"one"
        ]
        assert _requests(cluster) == {"read_lac": 1} and "read_lac" in teller.log
        assert [bytes(entry.payload) for entry in await reader.read(0, 1)] == [b"zero", b"one"]
        await handle.close()


async def test_a_lac_that_is_only_claimed_is_not_believed() -> None:
    """Not even if the bookie has the entry: it may be one that recovery will cut off."""
    async with scripted_cluster() as cluster:
        handle, reader = await _followed(cluster)
        liar = cluster.of(reader._poll_members()[0])
        liar.entries[handle.ledger_id, 2] = b"whatever"
        liar.claims = 2
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while True:
                    assert await reader.wait_for_lac(1, timeout_s=5) == 1
        assert _requests(cluster)["read_lac"] < 4 * 10, "and it does not keep the reader busy"
        with pytest.raises(ConfigurationError, match="not readable"):
            await reader.read(2, 2)


async def test_a_bookie_that_claims_and_then_hangs_delays_a_reader_only_briefly() -> None:
    async with scripted_cluster(read_timeout_s=NEVER_S, speculative_read_s=0.05) as cluster:
        _, reader = await _followed(cluster)
        hanging = cluster.of(reader._poll_members()[0])
        hanging.claims = 1
        hanging.mute = lambda what: what == "read_lac"
        async with asyncio.timeout(GUARD_S):
            assert await reader.wait_for_lac(0, timeout_s=NEVER_S) == 1


async def test_a_damaged_entry_that_came_with_a_long_poll_is_read_from_another_replica() -> None:
    async with scripted_cluster() as cluster:
        handle, reader = await _followed(cluster)
        teller = cluster.of(reader._poll_members()[0])
        teller.claims = 1
        damaged = bytearray(teller.entries[handle.ledger_id, 1])
        damaged[-1] ^= 1
        teller.entries[handle.ledger_id, 1] = bytes(damaged)
        assert await reader.wait_for_lac(0, timeout_s=5) == 1
        [entry] = await reader.read_batch(1, max_entries=9, max_bytes=9)
        assert bytes(entry.payload) == b"one"


async def test_what_has_changed_in_metadata_is_looked_at_even_if_entries_keep_coming() -> None:
    async with scripted_cluster() as cluster:
        handle, reader = await _followed(cluster)
        for bookie in cluster.bookies:
            bookie.claims = 1
        await handle.close()
        await asyncio.sleep(0.01)
        assert await reader.wait_for_lac(0, timeout_s=5) == 1
        assert reader.closed


async def test_a_batch_of_more_entries_than_a_request_can_name_is_read_in_parts() -> None:
    """As `read` asks for them, of a ledger that long, or of which another client has stored such a LAC."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        for number in range(3):
            await handle.add(b"%d" % number)
        reader = await cluster.client.open(handle.ledger_id)
        reader.confirm(2**40)
        assert len(await reader.read_batch(0, max_entries=2**40, max_bytes=1000)) == 3


@pytest.mark.parametrize("max_entries", [0, -1])
async def test_a_batch_of_no_entries_is_refused(max_entries: int) -> None:
    """A bookie takes 0 for no limit, and an answer without entries seemed to show that the entry is lost."""
    async with scripted_cluster() as cluster:
        _, reader = await _followed(cluster)
        with pytest.raises(ConfigurationError, match="max_entries must be at least 1"):
            await reader.read_batch(0, max_entries=max_entries, max_bytes=1000)
