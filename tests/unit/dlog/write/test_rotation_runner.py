"""A writer and its ledgers against scripted bookies and a store that goes away: what callers are told, and when."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from dlog.core.degraded import DegradedPolicy
from dlog.core.rotation import Phase
from dlog.core.rotation_triggers import RotationLimits
from dlog.errors import (
    AppendAbortedError,
    AppendIndeterminateError,
    LogNotFoundError,
    TakeoverLostError,
    WriterDeposedError,
)
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, MessageId
from dlog.read.resolution import Resolution
from dlog.write import append_deadline
from ledger.config import LedgerClientConfig
from ledger.wire.status import Status
from ledger.writing.write_handle import WriteHandle
from tests.helpers.ledger.scripted_bookies import GUARD_S, until
from tests.helpers.log.scripted_log import messages_before, payloads, scripted_log, store_of
from tests.helpers.log.scripted_writer import added, current, entries, fence, settled_writer

# ---- recovery (docs/log-semantics.md#rule-19, #rule-24b)


async def test_a_recovered_ledger_decides_what_was_in_flight_and_the_rest_is_sent_again_in_order() -> None:
    """Entries 3 and 4 were stored and not answered, 5 to 7 never stored (docs/log-semantics.md#rule-19, #rule-24b)."""
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer = await client.open_writer("orders", create=True)
        ledger_id = current(writer)
        for bookie in log.bookies:
            bookie.late = lambda what: added(what) in (3, 4)
            bookie.mute = lambda what: added(what) >= 5
        futures = await entries(writer, *(b"%d" % number for number in range(8)))
        await until(lambda: all((ledger_id, 4) in bookie.entries for bookie in log.bookies))
        for bookie in log.bookies:
            bookie.late = lambda what: False
        assert await fence(tool, ledger_id) == 4
        recovering = asyncio.Event()
        log.cluster.store.before_read = recovering.wait  # type: ignore[assignment]  # something to await
        for bookie in log.bookies:
            bookie.speak()
        await until(lambda: writer._rotation.phase is Phase.RECOVERING)
        futures += await entries(writer, b"8", b"9")
        recovering.set()
        async with asyncio.timeout(10):
            ids = await asyncio.gather(*futures)
        assert [(one.ledger_id, one.entry_id) for one in ids[:5]] == [(ledger_id, n) for n in range(5)]
        assert all(one.ledger_id == current(writer) > ledger_id for one in ids[5:])
        assert ids == sorted(ids)
        assert await payloads(client, "orders") == [b"%d" % number for number in range(10)]
        assert await messages_before(client, "orders") == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
        assert writer.epoch == 1


async def test_what_recovery_has_found_is_acknowledged_where_it_is_without_an_answer_to_the_add() -> None:
    """Entries 1 and 2 are stored, and their answers never come; sent again, they would be in the log twice.

    Source: docs/log-semantics.md#rule-19.
    """
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer = await client.open_writer("orders", create=True)
        ledger_id = current(writer)
        for bookie in log.bookies:
            bookie.late = lambda what: added(what) in (1, 2)
        futures = await entries(writer, b"0", b"1", b"2")
        await until(lambda: all((ledger_id, 2) in bookie.entries for bookie in log.bookies))
        for bookie in log.bookies:
            bookie.late = lambda what: False
        assert await fence(tool, ledger_id) == 2
        assert not futures[1].done() and not futures[2].done()
        futures += await entries(writer, b"3", b"4")
        async with asyncio.timeout(GUARD_S):
            ids = await asyncio.gather(*futures)
        assert ids[:3] == [MessageId(ledger_id, number, 0) for number in range(3)]
        assert all(one.ledger_id == current(writer) > ledger_id for one in ids[3:])
        assert await payloads(client, "orders") == [b"%d" % number for number in range(5)]


async def test_a_fenced_writer_gives_a_candidate_time_however_often_it_has_to_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first attempt fails before the wait; the next one must not skip it (docs/log-semantics.md#rule-24b)."""
    async with scripted_log() as log, log.client(candidate_wait_s=1.0) as client, log.client() as tool:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        await fence(tool, current(writer))
        store_of(client).away_for = {"read_record"}
        [future] = await entries(writer, b"two")
        await until(lambda: "could not be recovered and replaced" in caplog.text)
        store_of(client).away_for = set()
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(GUARD_S):
            await future
        assert loop.time() - began >= 0.75


async def test_held_appends_wait_if_the_next_ledger_has_failed_before_it_is_listed() -> None:
    """It is recovered and replaced as any other, and nothing is rejected (docs/log-semantics.md#rule-19)."""
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        made: list[WriteHandle] = []
        create = client.ledgers.create

        async def noted(*args: Any, **options: Any) -> WriteHandle:
            made.append(await create(*args, **options))
            return made[-1]

        client.ledgers.create = noted  # type: ignore[method-assign]
        listing = store_of(client).held["write_record"] = asyncio.Event()
        await fence(tool, current(writer))
        futures = await entries(writer, b"two", b"three")
        await until(lambda: bool(made))
        for bookie in log.bookies:
            bookie.go_away()
        await until(lambda: made[0].failed is not None)
        for bookie in log.bookies:
            await bookie.listen()
        listing.set()
        async with asyncio.timeout(GUARD_S):
            ids = await asyncio.gather(*futures)
        assert [one.ledger_id for one in ids] == [current(writer)] * 2 != [made[0].ledger_id] * 2
        assert await payloads(client, "orders") == [b"one", b"two", b"three"]


async def test_what_is_cancelled_before_a_ledger_took_it_is_absent() -> None:
    """One message of a batch, a whole batch, and a batch that is held back during a recovery.

    Source: docs/log-semantics.md#rule-8.
    """
    async with scripted_log() as log, log.client() as client, log.client() as tool:
        writer = await client.open_writer("orders", create=True)
        first = [await writer.submit(b"%d" % number) for number in range(3)]
        first[1].cancel()
        await asyncio.gather(first[0], first[2])
        recovering = asyncio.Event()
        await fence(tool, current(writer))
        log.cluster.store.before_read = recovering.wait  # type: ignore[assignment]  # something to await
        in_flight = await entries(writer, b"3")
        await until(lambda: writer._rotation.phase is Phase.RECOVERING)
        many = await writer.submit_many([b"4", b"5"])
        held = await entries(writer, b"6", b"7")
        many.cancel()
        held[0].cancel()
        recovering.set()
        async with asyncio.timeout(GUARD_S):
            await asyncio.gather(*in_flight, held[1])
        assert await payloads(client, "orders") == [b"0", b"2", b"3", b"7"]


# ---- rotation (docs/log-semantics.md#rule-15 to #rule-17)


async def test_no_ack_of_the_successor_before_its_predecessor_is_sealed() -> None:
    """Source: docs/log-semantics.md#rule-15."""
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        before = current(writer)
        gate = asyncio.Event()
        log.cluster.store.before_write = gate.wait  # type: ignore[assignment]  # something to await
        rotated = asyncio.ensure_future(writer.rotate())
        await until(lambda: writer.position is not None and writer.position.ledger_id > before)
        [future] = await entries(writer, b"two")
        successor = current(writer)
        await until(lambda: all((successor, 0) in bookie.entries for bookie in log.bookies))
        active_ledger = writer._queue.active_ledger
        assert active_ledger is not None
        await until(lambda: active_ledger.handle.done_through == 0)
        assert not future.done()
        gate.set()
        assert (await future).ledger_id == successor == await rotated


async def test_a_record_that_is_read_before_the_seal_releases_no_ack_of_the_successor() -> None:
    """Another client trims the log while its owner seals P; reading that record confirms the epoch, and no more.

    Source: docs/log-semantics.md#rule-15, #rule-25.
    """
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await client.open_writer("orders", create=True)
        one = await writer.append(b"one")
        sealing = store_of(client).held["write_ledger"] = asyncio.Event()
        rotated = asyncio.ensure_future(writer.rotate())
        await until(lambda: writer.position is not None and writer.position.ledger_id > one.ledger_id)
        [future] = await entries(writer, b"two")
        active_ledger = writer._queue.active_ledger
        assert active_ledger is not None
        await until(lambda: active_ledger.handle.done_through == 0)
        store_of(client).answered.clear()
        await other.shrink("orders", one)
        watch = writer._rotation._watch
        await until(lambda: "read_record" in store_of(client).answered and not watch._reading)
        assert not future.done()
        sealing.set()
        async with asyncio.timeout(GUARD_S):
            assert (await future).ledger_id == await rotated > one.ledger_id


async def test_a_rotation_never_overwrites_a_takeover_that_its_writer_has_not_heard_of() -> None:
    """Its compare-and-set is at the version that it knows (docs/log-semantics.md#rule-1, #rule-9)."""
    async with scripted_log() as log, log.client(blind=True) as sleeper, log.client() as client:
        old = await settled_writer(sleeper, "orders")
        await old.append(b"one")
        new = await client.open_writer("orders")
        record = (await client.describe("orders")).record
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(WriterDeposedError):
                await old.rotate()
        assert (await client.describe("orders")).record == record
        assert (record.epoch, record.owner) == (2, new.owner)
        await new.append(b"two")
        assert await payloads(client, "orders") == [b"one", b"two"]


async def test_while_the_store_is_away_a_rotation_that_began_leaves_the_old_ledger_in_use() -> None:
    """The barrier comes down, and goes up again only when the store has answered (docs/log-semantics.md#rule-17)."""
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        before = current(writer)
        for bookie in log.bookies:
            bookie.late = lambda what: what == "add 1"
        [slow] = await entries(writer, b"slow")
        rotated = asyncio.ensure_future(writer.rotate())
        await until(lambda: writer._rotation.phase is Phase.DRAINING)
        store_of(client).away = True
        await until(lambda: writer._rotation.phase is Phase.LIFTED)
        for bookie in log.bookies:
            bookie.speak()
        await slow
        loop = asyncio.get_running_loop()
        end, number = loop.time() + 0.5, 0
        while loop.time() < end:
            async with asyncio.timeout(GUARD_S):
                assert (await writer.append(b"more")).ledger_id == before
            number += 1
        store_of(client).away = False
        assert await rotated > before
        assert (await writer.append(b"last")).ledger_id > before
        assert len(await payloads(client, "orders")) == number + 3


async def test_a_store_that_is_slower_than_a_probe_does_not_prevent_a_rotation() -> None:
    """The drain and each answer take longer than the first probe waits; the next ones wait longer.

    Source: docs/log-semantics.md#rule-17.
    """
    patient = LedgerClientConfig(add_timeout_s=60.0, quorum_timeout_s=60.0)
    async with scripted_log() as log, log.client(store_probe_s=0.02, ledger=patient) as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        before = current(writer)
        for bookie in log.bookies:
            bookie.late = lambda what: what == "add 1"
        [slow] = await entries(writer, b"slow")
        store_of(client).read_record_s = 0.1
        rotated = asyncio.ensure_future(writer.rotate())
        await until(lambda: writer._rotation.phase is Phase.LIFTED)
        await until(lambda: writer._rotation.phase is Phase.DRAINING)
        for bookie in log.bookies:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            assert await rotated > before
        assert (await slow).ledger_id == before


# ---- opening (docs/log-semantics.md#rule-20 to #rule-24)


async def test_a_lost_entry_of_long_ago_does_not_bar_the_next_writer() -> None:
    """A takeover needs the fence; what it records of old entries is for seeking only.

    Source: docs/log-semantics.md#rule-20.
    """
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        for number in range(5):
            await writer.append(b"%d" % number)
        ledger_id = current(writer)
        writer.abort()
        for bookie in log.bookies:
            del bookie.entries[ledger_id, 0]
        again = await client.open_writer("orders", create=True)
        seal = again.record.ledgers[0].seal
        assert seal is not None
        assert (seal.last_entry, seal.first_append_us) == (4, 0)
        assert seal.last_append_us > 0


async def test_a_log_whose_last_fragment_is_empty_is_taken_over_without_its_older_bookies() -> None:
    """What the takeover would record of the last entry, its append time, is for seeking only, too.

    Source: docs/log-semantics.md#rule-20.
    """
    async with scripted_log(6) as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        for payload in (b"zero", b"half"):
            await writer.append(payload)
        active_ledger = writer._rotation.current
        assert active_ledger is not None
        old = log.cluster.ensemble(active_ledger.handle)
        for bookie in old:
            bookie.go_away()
        await until(lambda: not set(old) & set(log.cluster.ensemble(active_ledger.handle)))
        writer.abort()
        async with asyncio.timeout(10):
            again = await client.open_writer("orders", create=True)
            await again.append(b"one")
        seal = again.record.ledgers[0].seal
        assert seal is not None
        assert (seal.last_entry, seal.last_append_us) == (1, 0)
        for bookie in old:
            await bookie.listen()
        assert await payloads(client, "orders") == [b"zero", b"half", b"one"]
        assert seal.byte_count == 0
        await client.set_cursor("orders", "c", MessageId(active_ledger.ledger_id, 1, 0))
        lag, after = await client.cursor_lag("orders", "c"), again._rotation.current
        assert after is not None
        assert (lag.entries, lag.bytes) == (2, after.handle.length)


@pytest.mark.parametrize("own", [True, False])
async def test_a_seal_has_its_bytes_although_the_ledger_was_closed_without_its_length(own: bool) -> None:
    """A candidate that could not read the last entry closed the ledger and died; the owner goes on, or a third client.

    Source: docs/log-semantics.md#rule-20.
    """
    async with scripted_log(6) as log, log.client() as client, log.client() as tool:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"zero")
        active_ledger = writer._rotation.current
        assert active_ledger is not None
        ledger_id, length = active_ledger.ledger_id, active_ledger.handle.length
        old = log.cluster.ensemble(active_ledger.handle)
        for bookie in old:
            bookie.go_away()
        await until(lambda: not set(old) & set(log.cluster.ensemble(active_ledger.handle)))
        async with asyncio.timeout(10):
            assert await fence(tool, ledger_id) == 0
        assert (await store_of(tool).read_ledger(ledger_id)).value.length == 0
        for bookie in old:
            await bookie.listen()
        if not own:
            writer.abort()
            writer = await client.open_writer("orders")
        async with asyncio.timeout(10):
            await writer.append(b"one")
        seal = writer.record.ledgers[0].seal
        assert seal is not None
        assert (seal.last_entry, seal.message_count, seal.byte_count) == (0, 1, length)


async def test_a_takeover_before_the_first_watch_does_not_go_unnoticed() -> None:
    """An idle writer learns that it lost the log even if that happened while it was being opened.

    Source: docs/log-semantics.md#rule-24.
    """
    async with (
        scripted_log() as log,
        log.client() as client,
        log.client(deletion_grace_s=100.0) as other,  # and so has nothing to change afterwards
    ):
        await client.create("orders")
        logs: Any = client.logs
        change = logs.compare_and_set

        async def then_another_wins(*args: Any) -> Any:
            answer = await change(*args)
            logs.compare_and_set = change
            await other.open_writer("orders", create=True)
            return answer

        logs.compare_and_set = then_another_wins
        writer = await client.open_writer("orders", create=True)
        await until(lambda: not writer.active, 3)


async def test_a_loser_reports_the_winner_even_if_its_ledger_cannot_be_deleted() -> None:
    """The ledger becomes an orphan, which the sweep finds (docs/log-semantics.md#rule-22)."""
    async with scripted_log() as log, log.client() as client, log.client() as other:
        await client.create("orders")
        store_of(client).away_for.add("remove_ledger")
        logs: Any = client.logs
        change = logs.compare_and_set

        async def another_wins_first(*args: Any) -> Any:
            winner = await other.open_writer("orders", create=True)
            await winner.append(b"mine")
            return await change(*args)

        logs.compare_and_set = another_wins_first
        with pytest.raises(TakeoverLostError) as caught:
            await client.open_writer("orders", create=True)
        assert caught.value.epoch == 1


async def test_a_log_that_is_being_deleted_resolves_nothing() -> None:
    """Its ledgers have left the list, and that proves the absence of nothing (docs/log-semantics.md#i6)."""
    async with scripted_log() as log, log.client(deletion_grace_s=100.0) as client:
        writer = await client.open_writer("orders", create=True)
        message_id = await writer.append(b"one")
        assert await client.resolve("orders", message_id) is Resolution.COMMITTED
        assert not await client.delete("orders")
        with pytest.raises(LogNotFoundError):
            await client.resolve("orders", message_id)


# ---- the end


async def test_a_writer_tidies_up_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion of a long history outlasts rotations: while it runs, no rotation begins another one."""
    async with scripted_log() as log, log.client() as client:
        begun: list[LogMetadata] = []
        go_on = asyncio.Event()

        async def tidy(_: LogRef, record: LogMetadata) -> None:
            begun.append(record)
            await go_on.wait()

        monkeypatch.setattr(client._retention, "tidy", tidy)
        writer = await client.open_writer("orders", create=True)
        await until(lambda: len(begun) == 1)
        for number in range(3):
            await writer.append(b"%d" % number)
            await writer.rotate()
        await asyncio.sleep(0.05)
        assert len(begun) == 1
        go_on.set()
        await until(lambda: len(begun) == 2)
        assert begun[-1].ledger_ids[-1] == current(writer), "once for all rotations since"
        await writer.append(b"3")
        await writer.rotate()
        await until(lambda: len(begun) == 3)
        await writer.close()


async def test_a_writer_that_is_over_does_not_rotate() -> None:
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        await writer.close()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendAbortedError):
                await writer.rotate()


async def test_close_gives_up_when_the_store_stays_away() -> None:
    """Everything is acked; only the seal is missing, and the next writer makes it."""
    async with scripted_log() as log, log.client(hold_limit_s=0.3) as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        store_of(client).away = True
        async with asyncio.timeout(GUARD_S):
            await writer.close()
        store_of(client).away = False
        async with client.open_writer("orders", create=True) as again:
            await again.append(b"two")
        assert await payloads(client, "orders") == [b"one", b"two"]


async def test_close_during_a_rotation_that_cannot_be_listed_gives_up_too() -> None:
    async with scripted_log() as log, log.client(hold_limit_s=0.3) as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        logs: Any = client.logs
        writes = logs.compare_and_set

        async def away(*args: object) -> object:
            store_of(client).away = True
            return await writes(*args)

        logs.compare_and_set = away
        rotated = asyncio.ensure_future(writer.rotate())
        await asyncio.gather(rotated, return_exceptions=True)
        async with asyncio.timeout(GUARD_S):
            await writer.close()


async def test_close_gives_up_too_if_its_last_append_succeeds_while_a_rotation_is_in_doubt() -> None:
    """Its time begins with that outcome, whatever else is waited for."""
    async with scripted_log() as log, log.client(hold_limit_s=0.3) as client:
        writer = await settled_writer(client, "orders")
        await writer.append(b"one")
        for bookie in log.bookies:
            bookie.late = lambda what: what == "add 1"
        [last] = await entries(writer, b"two")
        store_of(client).held["write_record"] = asyncio.Event()
        rotating = asyncio.ensure_future(writer.rotate())
        await until(lambda: writer._rotation.phase is Phase.LISTING)
        closing = asyncio.ensure_future(writer.close())
        await asyncio.sleep(0)
        for bookie in log.bookies:
            bookie.speak()
        assert (await last).entry_id == 1
        async with asyncio.timeout(GUARD_S):
            await closing
        await asyncio.gather(rotating, return_exceptions=True)


async def test_bookies_that_refuse_the_client_end_the_writer_immediately() -> None:
    """No hold limit, two minutes here, makes them change their mind."""
    async with scripted_log() as log, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        for bookie in log.bookies:
            bookie.refuse_adds = bookie.refuse_reads = Status.EUA
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendIndeterminateError, match=r"cannot be written: .*refuses this client"):
                await writer.append(b"one")
        assert not writer.active


async def test_an_append_that_no_bookie_answers_ends_at_the_limit() -> None:
    """Whatever else is waited for, 30 s for replacements here, nothing waits for longer than the limit.

    Source: docs/log-semantics.md#rule-19.
    """
    ledger = LedgerClientConfig(add_timeout_s=0.2, quorum_timeout_s=30.0, replace_backoff_s=0.05)
    async with scripted_log() as log, log.client(hold_limit_s=1.0, ledger=ledger) as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        for bookie in log.bookies:
            bookie.be_silent()
        named = "|".join(re.escape(bookie.bookie_id) for bookie in log.bookies)
        async with asyncio.timeout(4):
            with pytest.raises(
                AppendIndeterminateError, match=rf"not acknowledged within 1 s .*bookie ({named})"
            ):
                await writer.append(b"two")
        assert not writer.active


async def test_an_append_after_a_full_ledger_that_cannot_be_replaced_ends_at_the_limit() -> None:
    """Two of three bookies live, the policy wants three; at the hard limit appends are held.

    Source: docs/log-semantics.md#rule-17, #rule-19b.
    """
    limits = RotationLimits(bytes_max=200, interval_min_s=0.01)
    async with (
        scripted_log() as log,
        log.client(hold_limit_s=1.0, degraded=DegradedPolicy.REFUSE, rotation=limits) as client,
    ):
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        log.bookies[0].go_away()
        await log.bookies[0].unregister()
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendAbortedError, match=r"within 1 s .*needs 3 writable bookies and 2 are"):
                while True:
                    await writer.append(b"x" * 100)
        assert not writer.active


async def test_a_waiting_append_is_reported_with_the_bookies_that_do_not_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within seconds, from both: the one that failed, and the one that is merely silent so far."""
    monkeypatch.setattr(append_deadline, "FIRST_WARNING_S", 1.2)
    async with scripted_log() as log, log.client(hold_limit_s=60.0) as client:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        gone, silent, _ = log.bookies
        gone.go_away()
        silent.be_silent()
        waiting = asyncio.ensure_future(writer.append(b"two"))
        await until(lambda: "an append has waited" in caplog.text)
        [line] = [text for text in caplog.messages if "an append has waited" in text]
        assert gone.bookie_id in line
        assert silent.bookie_id in line
        assert "still trying up to 60 s" in line
        silent.speak()
        async with asyncio.timeout(10):
            await waiting


async def test_a_writer_that_gives_up_reports_the_last_obstacle() -> None:
    """The fence began it, but what it waits for is the store."""
    async with scripted_log() as log, log.client(hold_limit_s=0.5) as client, log.client() as tool:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")
        store_of(client).away_for = {"write_record"}
        await fence(tool, current(writer))
        async with asyncio.timeout(GUARD_S):
            with pytest.raises(AppendAbortedError, match=r"0\.5 s \(the store is away\)"):
                await writer.append(b"two")
