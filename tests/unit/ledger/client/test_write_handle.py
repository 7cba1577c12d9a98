"""The writer's shell against bookies and a store that fail at the worst moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledger.config import LedgerClientConfig, Visibility
from ledger.core.metadata_changes import mark_in_recovery
from ledger.errors import (
    AddFailedError,
    ConfigurationError,
    LedgerClosedError,
    LedgerFencedError,
    LedgerNotFoundError,
    MetadataUnavailableError,
)
from ledger.model import BookieId, BookieInfo, QuorumSizes
from ledger.wire.status import Status
from tests.helpers.ledger.scripted_bookies import (
    GUARD_S,
    NEVER_S,
    answer_lost,
    never,
    scripted_cluster,
    store_away,
    until,
)


async def test_an_ambiguous_change_is_decided_before_a_member_is_taken_back() -> None:
    """b0 fails and is replaced, but the answer is lost and the store goes away; b0 comes back. What b0 stores now
    is a copy that metadata does not name, so it must not count: every acknowledged entry has its ack quorum in the
    recorded ensemble.
    """
    async with scripted_cluster(4, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        lost, _, third = cluster.ensemble(handle)
        cluster.store.after_write = answer_lost
        cluster.store.before_read = store_away
        lost.go_away()
        await until(lambda: handle.failed_members == 1)
        await until(lambda: handle._keeper._unsettled)
        await lost.listen()
        third.be_silent()
        adding = asyncio.create_task(handle.add(b"one"))
        await asyncio.sleep(0.3)
        assert not adding.done()
        cluster.store.after_write = cluster.store.before_read = None
        async with asyncio.timeout(GUARD_S):
            await adding
        assert lost.bookie_id not in handle.metadata.last_fragment.ensemble
        assert await cluster.recorded_copies(handle.ledger_id, 1) >= 2


async def test_a_member_that_the_writer_did_not_know_of_is_marked_at_the_close() -> None:
    """The change that names it is stored, its answer never comes, and what is confirmed by then is not sent to it."""
    async with scripted_cluster(4, change_hold_s=0.05, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        [spare] = cluster.spares(handle)
        cluster.store.after_write = never
        cluster.ensemble(handle)[2].go_away()
        await until(lambda: handle._keeper._unsettled)
        await handle.add(b"one")
        cluster.store.after_write = None
        metadata = await handle.close()
        assert spare.bookie_id in metadata.last_fragment.ensemble and not spare.entries
        await until(lambda: not cluster.client.missed_copies.unmarked)
        mark = await cluster.store.repair.read_mark(handle.ledger_id)
        assert spare.bookie_id in mark.value.missing


async def test_hung_bookies_end_the_handle_after_the_timeout() -> None:
    """Two of three accept connections and answer nothing: they must not seem to come back again and again."""
    async with scripted_cluster(
        add_timeout_s=0.2, replace_backoff_s=0.02, probe_timeout_s=0.1, quorum_timeout_s=0.8
    ) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        for bookie in cluster.ensemble(handle)[:2]:
            bookie.be_silent()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AddFailedError, match="fewer than its ack quorum"):
                await handle.add(b"one")


async def test_members_that_are_back_need_not_wait_for_spares_that_hang() -> None:
    """Each spare bookie costs a probe, and all of them together more than the handle has."""
    async with scripted_cluster(
        12, replace_backoff_s=0.02, probe_timeout_s=0.3, quorum_timeout_s=1.2
    ) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        spares = cluster.spares(handle)
        for spare in spares:
            spare.be_silent()
        away = cluster.ensemble(handle)[:2]
        for bookie in away:
            bookie.go_away()
        await until(lambda: handle.failed_members == 2)
        for bookie in away:
            await bookie.listen()
        async with asyncio.timeout(GUARD_S):
            await handle.add(b"one")
        # Nothing is left to replace, so that no other spare is asked.
        asked = sum(len(spare.frames) for spare in spares)
        await asyncio.sleep(0.7)
        assert sum(len(spare.frames) for spare in spares) == asked


async def test_bookies_that_answer_reads_and_no_adds_end_the_handle_too() -> None:
    """They pass every probe and are taken back each time; without a confirmation the clock goes on."""
    async with scripted_cluster(add_timeout_s=0.1, replace_backoff_s=0.02, quorum_timeout_s=1.0) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        for bookie in cluster.ensemble(handle)[:2]:
            bookie.mute = lambda what: what.startswith("add")
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AddFailedError, match="fewer than its ack quorum"):
                await handle.add(b"one")


async def test_a_store_that_hangs_holds_adds_only_for_a_moment() -> None:
    async with scripted_cluster(4, change_hold_s=0.1, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        cluster.store.before_write = never
        cluster.ensemble(handle)[0].go_away()
        await until(lambda: handle.failed_members == 1)
        async with asyncio.timeout(GUARD_S):
            for _ in range(20):
                await handle.add(b"more")


async def test_a_fault_of_ours_in_the_background_fails_the_handle() -> None:
    async def fault() -> None:
        raise ZeroDivisionError

    async with scripted_cluster(4) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        cluster.store.before_write = fault
        cluster.ensemble(handle)[0].go_away()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AddFailedError, match="ZeroDivisionError"):
                while True:
                    await handle.add(b"x")
                    await asyncio.sleep(0.005)


async def test_a_spare_that_refuses_adds_is_not_chosen_again_and_again() -> None:
    """Each choice is a change of metadata; a useless spare rests longer every time."""
    async with scripted_cluster(4, replace_backoff_s=0.05) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        bad = cluster.spares(handle)[0]
        bad.refuse_adds = Status.EIO
        gone = cluster.ensemble(handle)[0]
        gone.go_away()
        await gone.unregister()
        async with asyncio.timeout(20):
            deadline = asyncio.get_running_loop().time() + 1.0
            while asyncio.get_running_loop().time() < deadline:
                await handle.add(b"more")
        assert len(handle.metadata.fragments) <= 2
        assert len([line for line in bad.log if line.startswith("add")]) < 12


async def test_a_ledger_taken_over_is_noticed_without_any_bookie() -> None:
    """All bookies are gone when somebody else recovers: the store tells."""
    async with scripted_cluster(replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        adding = asyncio.create_task(handle.add(b"one"))
        for bookie in cluster.bookies:
            bookie.be_silent()
        found = await cluster.store.read_ledger(handle.ledger_id)
        await cluster.store.write_ledger(handle.ledger_id, mark_in_recovery(found.value), found.version)
        for bookie in cluster.bookies:
            bookie.go_away()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(LedgerFencedError):
                await adding


async def test_a_ledger_deleted_under_its_writer_ends_it() -> None:
    async with scripted_cluster(replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        await cluster.client.delete(handle.ledger_id)
        for bookie in cluster.bookies[:2]:
            bookie.go_away()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(LedgerNotFoundError):
                await handle.add(b"one")


# ---- close


async def test_pending_adds_end_when_the_ledger_was_deleted_before_close() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        for bookie in cluster.bookies:
            bookie.be_silent()
        adding = asyncio.create_task(handle.add(b"one"))
        await asyncio.sleep(0)
        await cluster.client.delete(handle.ledger_id)
        with pytest.raises(LedgerNotFoundError):
            await handle.close()
        with pytest.raises(LedgerNotFoundError):
            await adding


async def test_a_cancelled_close_leaves_no_waiter_when_the_client_ends() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        for bookie in cluster.bookies:
            bookie.be_silent()
        adding = asyncio.create_task(handle.add(b"zero"))
        await asyncio.sleep(0)
        cluster.store.before_write = never
        closing = asyncio.create_task(handle.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        cluster.store.before_write = None
        await cluster.client.close()
        with pytest.raises(AddFailedError, match="closed"):
            async with asyncio.timeout(GUARD_S):
                await adding


async def test_a_cancelled_close_is_completed_by_the_next() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        cluster.store.before_write = never
        closing = asyncio.create_task(handle.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        cluster.store.before_write = None
        assert (await handle.close()).last_entry == 0
        with pytest.raises(LedgerClosedError):
            handle.submit(b"late")


async def test_what_close_settled_stays_settled() -> None:
    """Entry 0 is confirmed and not yet visible when the ledger is closed at it: its add is done, then and later."""
    async with scripted_cluster() as cluster:
        for bookie in cluster.bookies:
            bookie.mute = lambda what: what == "write_lac"
        handle = await cluster.client.create(QuorumSizes())
        adding = asyncio.create_task(handle.add(b"zero"))
        await until(lambda: handle.lac == 0)
        assert handle.done_through == -1
        await handle.close()
        assert await adding == 0
        await handle.wait(0)
        assert handle.done_through == 0


async def test_close_while_the_ensemble_changes() -> None:
    """The keeper is in the middle of its compare-and-set: close ends it and closes at what was confirmed."""
    async with scripted_cluster(4) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        entered = asyncio.Event()

        async def slow() -> None:
            entered.set()
            await asyncio.sleep(0.2)

        cluster.store.before_write = slow
        cluster.ensemble(handle)[0].go_away()
        await entered.wait()
        cluster.store.before_write = None
        metadata = await handle.close()
        assert (metadata.closed, metadata.last_entry) == (True, 0)


async def test_a_new_member_gets_what_was_confirmed_while_it_was_being_recorded() -> None:
    """Its fragment begins at entry 1, so readers and repair expect a copy of 1 and 2 there, too. Both are on an ack
    quorum of the others by the time it is recorded."""
    async with scripted_cluster(4, change_hold_s=NEVER_S) as cluster:
        handle = await cluster.client.create(QuorumSizes(), visibility=Visibility.FAST)
        await handle.add(b"zero")
        lost, *others = cluster.ensemble(handle)
        entered, may_go_on = asyncio.Event(), asyncio.Event()

        async def held() -> None:
            entered.set()
            await may_go_on.wait()

        cluster.store.before_write = held
        lost.go_away()
        await entered.wait()
        handle.submit(b"one")
        handle.submit(b"two")
        await until(lambda: all("add 2" in bookie.log for bookie in others))
        may_go_on.set()
        async with asyncio.timeout(GUARD_S):
            await handle.drain()
        [spare] = [bookie for bookie in cluster.bookies if bookie not in (lost, *others)]
        await until(lambda: "add 2" in spare.log)
        assert [await cluster.recorded_copies(handle.ledger_id, entry_id) for entry_id in (1, 2)] == [3, 3]


# ---- strict visibility


async def test_a_bookie_that_takes_no_explicit_lac_does_not_hold_an_add() -> None:
    async with scripted_cluster(add_timeout_s=NEVER_S) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        cluster.ensemble(handle)[1].mute = lambda what: what == "write_lac"
        async with asyncio.timeout(GUARD_S):
            for _ in range(5):
                await handle.add(b"x")


async def test_two_bookies_that_take_no_explicit_lac_are_replaced() -> None:
    async with scripted_cluster(5, add_timeout_s=0.2, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        for bookie in cluster.ensemble(handle)[:2]:
            bookie.mute = lambda what: what == "write_lac"
        async with asyncio.timeout(GUARD_S):
            await handle.add(b"x")
        assert handle.metadata.last_fragment.first_entry == 1


async def test_readers_follow_a_fast_writer_that_cannot_close_its_ledger() -> None:
    """The store is away when the last add has just been acknowledged: its LAC is stored all the same."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes(), visibility=Visibility.FAST)
        await handle.add(b"zero")
        cluster.store.before_write = store_away
        with pytest.raises(MetadataUnavailableError):
            await handle.close()
        await until(lambda: handle.visible == 0)
        assert (await cluster.client.open(handle.ledger_id)).last_readable == 0
        cluster.store.before_write = None
        assert (await handle.close()).last_entry == 0
        assert handle.tick(asyncio.get_running_loop().time()) is None


async def test_a_fast_writer_that_cannot_close_stores_its_lac_after_its_connections_broke() -> None:
    """All bookies had been sent the LAC and had not answered yet."""
    async with scripted_cluster(lac_interval_s=0.01) as cluster:
        handle = await cluster.client.create(QuorumSizes(), visibility=Visibility.FAST)
        await handle.add(b"zero")
        asked: list[str] = []
        for bookie in cluster.bookies:
            bookie.mute = lambda what: what == "write_lac" and not asked.append(what)
        cluster.store.before_write = store_away
        with pytest.raises(MetadataUnavailableError):
            await handle.close()
        await until(lambda: len(asked) == 3)
        for bookie in cluster.bookies:
            bookie.go_away()
            bookie.mute = lambda what: False
            await bookie.listen()
        await until(lambda: handle.visible == 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_fast_writer_that_cannot_close_stores_its_lac_on_connections_being_made(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """The connections for the LAC were being made as the close began; they come up, or fail and are made again."""
    async with scripted_cluster(lac_interval_s=0.01) as cluster:
        connections = cluster.client._pool.v3_connections
        resolve, closing = connections._resolve, asyncio.Event()
        asked: list[BookieId] = []

        async def resolve_later(bookie_id: BookieId) -> BookieInfo | None:
            first = bookie_id not in asked
            asked.append(bookie_id)
            await closing.wait()
            return None if first and fails else await resolve(bookie_id)

        monkeypatch.setattr(connections, "_resolve", resolve_later)
        handle = await cluster.client.create(QuorumSizes(), visibility=Visibility.FAST)
        await handle.add(b"zero")
        await until(lambda: len(asked) >= 2)
        cluster.store.before_write = store_away
        with pytest.raises(MetadataUnavailableError):
            await handle.close()
        closing.set()
        await until(lambda: handle.visible == 0)


async def test_a_busy_fast_writer_leaves_the_lac_to_its_entries() -> None:
    """Each entry carries the LAC of the one before it: an explicit one for each tick would cost as much as an entry."""
    async with scripted_cluster(lac_interval_s=0.01) as cluster:
        handle = await cluster.client.create(QuorumSizes(), visibility=Visibility.FAST)
        asked: list[str] = []
        for bookie in cluster.bookies:
            bookie.mute = lambda what: bool(asked.append(what))
        now = asyncio.get_running_loop().time
        ends_at, added = now() + 0.3, 0
        while now() < ends_at:
            await handle.add(b"x")
            added += 1
            handle.submit(b"y")  # in flight at every tick
        assert asked.count("write_lac") < 30, f"{asked.count('write_lac')} explicit LACs for {added} adds"


async def test_a_strict_writer_asks_every_member_once_one_keeps_the_lac() -> None:
    """One of the two members that were asked for the LAC does not answer: the third one makes the add visible."""
    async with scripted_cluster(add_timeout_s=60.0) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        cluster.bookies[0].mute = lambda what: what == "write_lac"
        async with asyncio.timeout(5.0):
            for _ in range(3):
                await handle.add(b"x")
        assert handle.failed_members == 0


# ---- the client


async def test_a_fast_writers_clock_is_looked_at_as_often_as_its_lac_is_promised() -> None:
    """The client's one timer is due within lac_interval_s of an add, also when that is shorter than usual."""
    async with scripted_cluster(lac_interval_s=0.004) as cluster:
        handle = await cluster.client.create(QuorumSizes(), visibility=Visibility.FAST)
        await handle.add(b"x")
        assert cluster.client._tick_due <= asyncio.get_running_loop().time() + 0.004
    with pytest.raises(ConfigurationError, match="lac_interval_s must be positive"):
        LedgerClientConfig(lac_interval_s=0)


async def test_closing_the_client_ends_an_open_that_waits() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        for bookie in cluster.bookies:
            bookie.be_silent()
        reads = [len(bookie.frames) for bookie in cluster.bookies]
        opening = asyncio.create_task(cluster.client.open(handle.ledger_id))
        recovering = asyncio.create_task(cluster.client.open_with_recovery(handle.ledger_id))
        await until(lambda: all(len(b.frames) >= n + 2 for b, n in zip(cluster.bookies, reads, strict=True)))
        await cluster.client.close()
        async with asyncio.timeout(GUARD_S):
            results = await asyncio.gather(opening, recovering, return_exceptions=True)
        assert [type(result).__name__ for result in results] == ["ReadError", "LedgerRecoveryError"]


async def test_a_paused_process_blames_no_bookie() -> None:
    """As after SIGCONT: the clock has jumped beyond every timeout before a single answer was read."""
    async with scripted_cluster(4, add_timeout_s=5.0) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        for bookie in cluster.bookies:
            bookie.be_silent()
        handle.submit(b"one")
        await asyncio.sleep(0.01)
        for bookie in cluster.bookies:
            bookie.speak()
        handle.extend_deadlines(10.0)
        handle.tick(asyncio.get_running_loop().time() + 10.1)
        assert handle.failed_members == 0


async def test_a_lost_registration_alone_costs_no_member_without_a_spare() -> None:
    """The store forgot all bookies, which answer as before: appends go on with full replication."""
    async with scripted_cluster(lost_member_s=0.1) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        for bookie in cluster.bookies:
            await bookie.unregister()
        await asyncio.sleep(0.4)
        await handle.add(b"one")
        assert handle.failed_members == 0


async def test_lost_registrations_cost_no_more_members_than_there_are_spares() -> None:
    """All three members answer, but none is registered: the only spare bookie replaces one of them."""
    async with scripted_cluster(4, lost_member_s=0.1, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        members = cluster.ensemble(handle)
        [spare] = cluster.spares(handle)
        for bookie in members:
            await bookie.unregister()
        await until(lambda: spare in cluster.ensemble(handle))
        await asyncio.sleep(0.4)
        assert len({*members} & {*cluster.ensemble(handle)}) == 2
        async with asyncio.timeout(GUARD_S):
            await handle.add(b"one")
        assert handle.failed_members == 0


async def test_a_bookie_that_refuses_an_explicit_lac_has_not_stored_it() -> None:
    """Nor when it is asked again. The add waits: readers that ask this bookie do not see the entry."""
    async with scripted_cluster(replace_backoff_s=0.02, quorum_timeout_s=NEVER_S) as cluster:
        handle = await cluster.client.create(QuorumSizes(ensemble=3, write=3, ack=3))
        refusing = cluster.ensemble(handle)[0]
        refusing.refuse_lacs = Status.EREADONLY
        adding = asyncio.create_task(handle.add(b"zero"))
        await until(lambda: refusing.log.count("write_lac") >= 2)
        assert not adding.done()
        refusing.refuse_lacs = None
        async with asyncio.timeout(GUARD_S):
            await adding
        assert all(handle.ledger_id in bookie.packets for bookie in cluster.bookies)


async def test_a_late_answer_of_a_replaced_member_is_no_copy_of_its_successor() -> None:
    """b0 owes its answer to entry 0 when it refuses entry 1; it is replaced, and its connection stays for others."""
    async with scripted_cluster(4, replace_backoff_s=0.02) as cluster:
        quorum = QuorumSizes(ensemble=3, write=3, ack=3)
        handle = await cluster.client.create(quorum, visibility=Visibility.FAST)
        other = await cluster.client.create(
            QuorumSizes(ensemble=4, write=4, ack=3), visibility=Visibility.FAST
        )
        old = cluster.ensemble(handle)[0]
        [spare] = cluster.spares(handle)
        old.late = lambda what: what == "add 0"
        spare.mute = lambda what: what.startswith("add")
        handle.submit(b"zero")
        await until(lambda: "add 0" in old.log)
        old.refuse_adds = Status.EIO
        handle.submit(b"one")
        await until(lambda: cluster.ensemble(handle)[0] is spare)
        old.refuse_adds = None
        old.speak()
        async with asyncio.timeout(GUARD_S):
            await other.add(b"its answer comes after the late one")
        assert handle.lac == -1, "its successor has no copy"
        spare.speak()
        async with asyncio.timeout(GUARD_S):
            await handle.drain()
        assert await cluster.recorded_copies(handle.ledger_id, 0) == 3


async def test_one_fenced_member_ends_the_handle_although_there_is_a_spare() -> None:
    """Another bookie in its place would take the adds, and the recovery that has fenced it would not know."""
    async with scripted_cluster(4, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        before = cluster.ensemble(handle)
        before[0].fenced.add(handle.ledger_id)
        for bookie in before[1:]:
            bookie.mute = lambda what: what.startswith("add")
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(LedgerFencedError):
                await handle.add(b"one")
        metadata = (await cluster.store.read_ledger(handle.ledger_id)).value
        assert metadata.last_fragment.ensemble == tuple(bookie.bookie_id for bookie in before)


async def test_a_late_answer_at_another_position_is_no_copy_of_its_write_set() -> None:
    """E3 Qw2 Qa2. b0 owes its answer to entry 0 (b0 b1) when it refuses entry 2; it is replaced, and takes the place
    of b2, on the same connection. The answer that comes then must not confirm entry 0: only b1 has it.
    """
    async with scripted_cluster(4, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(
            QuorumSizes(ensemble=3, write=2, ack=2), visibility=Visibility.FAST
        )
        back, _, gone = cluster.ensemble(handle)
        spare = cluster.spares(handle)[0]
        back.late = lambda what: what == "add 0"
        spare.mute = lambda what: what.startswith("add")
        handle.submit(b"zero")
        await until(lambda: "add 0" in back.log)
        back.refuse_adds = Status.EIO
        handle.submit(b"one")
        handle.submit(b"two")
        await until(lambda: cluster.ensemble(handle)[0] is spare)
        back.refuse_adds = None
        gone.go_away()
        await gone.unregister()
        await until(lambda: cluster.ensemble(handle)[2] is back)
        back.speak()
        await until(lambda: {"add 1", "add 2"} <= set(back.log))
        await asyncio.sleep(0.05)
        assert handle.lac == -1, "confirmed by a copy where no reader looks"
        spare.speak()
        async with asyncio.timeout(5):
            await handle.drain()
        assert handle.lac == 2


async def test_answers_owed_from_an_earlier_position_do_not_pay_for_later_adds() -> None:
    """As above, and b0 is silent about entry 1, which it is sent only as b2. Its late answers, as many as it was
    sent adds, must not hide that: it fails as overdue.
    """
    async with scripted_cluster(4, replace_backoff_s=0.02, add_timeout_s=1.5) as cluster:
        handle = await cluster.client.create(
            QuorumSizes(ensemble=3, write=2, ack=2), visibility=Visibility.FAST
        )
        back, other, gone = cluster.ensemble(handle)
        spare = cluster.spares(handle)[0]
        back.late = lambda what: what in ("add 0", "add 2")
        back.mute = lambda what: what == "add 1"
        other.mute = lambda what: what == "add 1"
        for payload in (b"zero", b"one", b"two"):
            handle.submit(payload)
        await until(lambda: {"add 0", "add 2"} <= set(back.log))
        back.refuse_adds = Status.EIO
        handle.submit(b"three")
        await until(lambda: cluster.ensemble(handle)[0] is spare)
        back.refuse_adds = None
        gone.go_away()
        await gone.unregister()
        await until(lambda: cluster.ensemble(handle)[2] is back)
        await until(lambda: back.log.count("add 2") == 2)
        back.answer_late()
        await until(lambda: handle._stream.members[2].owed_adds == 0 or handle.failed_members > 0)
        await until(lambda: 2 in handle._stream.machine.failed_positions)


async def test_bookies_that_store_adds_and_no_lac_end_the_handle_too() -> None:
    """Adds are confirmed each time, and never visible: what counts is that none is done."""
    async with scripted_cluster(add_timeout_s=0.1, replace_backoff_s=0.02, quorum_timeout_s=1.0) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        for bookie in cluster.ensemble(handle):
            bookie.mute = lambda what: what == "write_lac"
        async with asyncio.timeout(15):
            with pytest.raises(AddFailedError, match="fewer than its ack quorum"):
                await handle.add(b"one")


async def test_a_replaced_member_is_marked_for_what_was_confirmed_without_it() -> None:
    """It breaks, the others go on, and its place is taken later: it stays a member of the fragment before."""
    async with scripted_cluster(4, replace_backoff_s=0.02) as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await handle.add(b"zero")
        lost = cluster.ensemble(handle)[2]
        cluster.store.before_write = store_away
        lost.go_away()
        await until(lambda: handle.failed_members == 1)
        await handle.add(b"one")
        cluster.store.before_write = None
        await until(lambda: handle.failed_members == 0)
        await lost.listen()
        await handle.add(b"two")
        metadata = await handle.close()
        assert lost.bookie_id in metadata.fragment_of(1).ensemble and len(metadata.fragments) == 2
        assert await cluster.recorded_copies(handle.ledger_id, 1) == 2
        await until(lambda: not cluster.client.missed_copies.unmarked)
        mark = await cluster.store.repair.read_mark(handle.ledger_id)
        assert mark.value.missing == (lost.bookie_id,)


async def test_a_visibility_that_is_a_text_is_refused() -> None:
    """It would count as neither: an add was done before readers saw it, whatever the text."""
    async with scripted_cluster() as cluster:
        with pytest.raises(ConfigurationError, match="visibility must be one of"):
            await cluster.client.create(QuorumSizes(), visibility="strict")  # type: ignore[arg-type]
        assert [each async for each in cluster.store.ledger_ids()] == []


async def test_a_ledger_that_is_created_while_its_client_is_closed_takes_no_adds() -> None:
    """No bookie can be reached any more: its adds would wait for the whole `quorum_timeout_s`."""
    async with scripted_cluster(quorum_timeout_s=NEVER_S) as cluster:
        creating = asyncio.create_task(cluster.client.create(QuorumSizes()))
        await asyncio.sleep(0)
        await cluster.client.close()
        handle = await creating
        with pytest.raises(AddFailedError, match="client was closed"):
            await handle.add(b"zero")
        assert not cluster.client._handles and not cluster.client._ticking


async def test_a_closed_client_creates_no_ledger() -> None:
    async with scripted_cluster() as cluster:
        await cluster.client.close()
        for create in (cluster.client.create, cluster.client.create_deferred):
            with pytest.raises(ConfigurationError, match="client is closed"):
                await create(QuorumSizes())
        assert [each async for each in cluster.store.ledger_ids()] == []


@pytest.mark.parametrize(
    ("custom", "why"),
    [
        (((),), "pairs of a name"),
        ((("name", b"value", b"more"),), "pairs of a name"),
        ((("\ud800", b"value"),), "lone surrogate"),
        ((("name", b"one"), ("name", b"two")), "twice"),
        ((("name", "value"),), "a value in custom must be"),
        ([("name", b"value")], "custom must be"),
    ],
)
async def test_names_and_values_that_metadata_cannot_keep_are_refused(custom: Any, why: str) -> None:
    async with scripted_cluster() as cluster:
        with pytest.raises(ConfigurationError, match=why):
            await cluster.client.create(QuorumSizes(), custom=custom)
        assert [each async for each in cluster.store.ledger_ids()] == []


async def test_no_handle_waits_until_fewer_than_no_bytes_are_in_flight() -> None:
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        with pytest.raises(ConfigurationError, match="in_flight_bytes_max must be at least 1"):
            await handle.wait_for_capacity(0)
