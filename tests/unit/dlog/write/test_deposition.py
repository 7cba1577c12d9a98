"""A writer that has lost its log, perhaps asleep: which acks it delivers (docs/log-semantics.md#rule-24, #rule-25)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dlog.core.rotation import Phase
from dlog.core.rotation_triggers import RotationLimits
from dlog.errors import (
    AppendAbortedError,
    AppendIndeterminateError,
    RecordTooLargeError,
    WriterDeposedError,
)
from dlog.model import MessageId
from ledger.model import LedgerId
from tests.helpers.ledger.scripted_bookies import GUARD_S, ScriptedBookie, until
from tests.helpers.log.scripted_log import environment_of, payloads, scripted_log, store_of
from tests.helpers.log.scripted_writer import current, entries, settled_writer


async def test_a_success_from_before_the_fence_is_still_delivered() -> None:
    """The entry was on its quorum, the new writer has adopted it, and then the answers come.

    Source: docs/log-semantics.md#rule-24.
    """
    async with scripted_log() as log, log.client() as old_client, log.client() as client:
        old = await old_client.open_writer("orders", create=True)
        ledger_id = current(old)
        await old.append(b"one")
        for bookie in log.bookies:
            bookie.late = lambda what: what in ("add 1", "write_lac")
        [future] = await entries(old, b"two")
        await until(lambda: all((ledger_id, 1) in bookie.entries for bookie in log.bookies))
        for bookie in log.bookies:
            bookie.late = lambda what: False
        new = await client.open_writer("orders", create=True)
        await until(lambda: old._rotation.phase is Phase.OVER)
        with pytest.raises(WriterDeposedError):
            await old.append(b"three")
        for bookie in log.bookies:
            bookie.speak()
        async with asyncio.timeout(GUARD_S):
            assert await future == MessageId(ledger_id, 1, 0)
        assert await payloads(client, "orders") == [b"one", b"two"]
        assert new.epoch == 2


async def test_after_a_long_sleep_an_ack_waits_until_the_epoch_is_confirmed() -> None:
    """Source: docs/log-semantics.md#rule-25."""
    async with scripted_log() as log, log.client(blind=True, deletion_grace_s=100.0) as client:
        writer = await settled_writer(client, "orders")
        await writer.append(b"one")
        store_of(client).asked.clear()
        await writer.append(b"two")
        assert store_of(client).asked == []
        environment_of(client).asleep_s = 51.0
        store_of(client).away = True
        [future] = await entries(writer, b"three")
        await until(lambda: store_of(client).asked.count("read_record") >= 2)
        assert all((current(writer), 2) in bookie.entries for bookie in log.bookies)
        assert not future.done()
        store_of(client).away = False
        async with asyncio.timeout(GUARD_S):
            assert (await future).entry_id == 2


async def test_an_answer_confirms_the_epoch_as_of_the_question() -> None:
    """A stale read: the process sleeps while the record is on its way to it (docs/log-semantics.md#rule-25)."""
    async with scripted_log() as log, log.client(blind=True, deletion_grace_s=100.0) as client:
        writer = await settled_writer(client, "orders")
        await writer.append(b"one")
        store, environment = store_of(client), environment_of(client)
        environment.asleep_s = 51.0

        def fall_asleep(name: str) -> None:
            store.before_answer = lambda name: None
            environment.asleep_s += 51.0

        store.asked.clear()
        store.before_answer = fall_asleep
        async with asyncio.timeout(GUARD_S):
            await writer.append(b"two")
        assert store.asked.count("read_record") == 2


@pytest.mark.parametrize("change", ["takeover", "rotation"])
async def test_a_change_of_its_own_confirms_the_epoch_as_of_the_request(change: str) -> None:
    """The process sleeps while the answer to its compare-and-set is on its way (docs/log-semantics.md#rule-25)."""
    async with scripted_log() as log, log.client(blind=True, deletion_grace_s=100.0) as client:
        store, environment, reading = store_of(client), environment_of(client), asyncio.Event()

        def fall_asleep(name: str) -> None:
            if name == "write_record":
                store.before_answer = lambda name: None
                store.held["read_record"] = reading
                environment.asleep_s += 51.0

        if change == "takeover":
            await client.create("orders")
            store.before_answer = fall_asleep
            writer = await client.open_writer("orders")
        else:
            writer = await settled_writer(client, "orders")
            await writer.append(b"one")
            store.before_answer = fall_asleep
            await writer.rotate()
        assert environment.asleep_s == 51.0
        [future] = await entries(writer, b"two")
        active_ledger = writer._queue.active_ledger
        assert active_ledger is not None
        await until(lambda: active_ledger.handle.done_through == 0)
        assert not future.done()
        reading.set()
        async with asyncio.timeout(GUARD_S):
            assert (await future).ledger_id == current(writer)


def forget(bookie: ScriptedBookie, ledger_id: LedgerId) -> None:
    """As Apache's bookie after a restart: a ledger that was deleted may be written again."""
    bookie.fenced.discard(ledger_id)
    for key in [key for key in bookie.entries if key[0] == ledger_id]:
        del bookie.entries[key]


async def test_a_sleeper_gets_no_ack_from_bookies_that_forgot_its_deleted_ledger() -> None:
    """Bookies accept the entry, and the log has another owner (docs/log-semantics.md#rule-25)."""
    async with (
        scripted_log() as log,
        log.client(blind=True, deletion_grace_s=100.0) as sleeper,
        log.client() as client,
    ):
        old = await settled_writer(sleeper, "orders")  # hears of no other owner
        ledger_id = current(old)
        new = await client.open_writer("orders", create=True)
        await client.collect("orders")
        for bookie in log.bookies:
            forget(bookie, ledger_id)
        environment_of(sleeper).asleep_s = 51.0
        [future] = await entries(old, b"into nowhere")
        async with asyncio.timeout(GUARD_S):
            [outcome] = await asyncio.gather(future, return_exceptions=True)
        assert isinstance(outcome, AppendIndeterminateError)
        assert sum((ledger_id, 0) in bookie.entries for bookie in log.bookies) >= 2  # the ack quorum
        await new.append(b"two")
        assert await payloads(client, "orders") == [b"two"]


async def test_a_taker_without_a_grace_keeps_to_the_grace_of_the_log() -> None:
    """Its sleeping owner delivers acks for half of the grace that the record holds (docs/log-semantics.md#rule-25)."""
    async with (
        scripted_log() as log,
        log.client(blind=True, deletion_grace_s=100.0) as sleeper,
        log.client(deletion_grace_s=0.0) as client,
    ):
        old = await sleeper.open_writer("orders", create=True)
        ledger_id = current(old)
        await client.open_writer("orders", create=True)
        await client.collect("orders")
        await client.ledgers.store.read_ledger(ledger_id)
        record = (await client.describe("orders")).record
        assert record.grace_us == 100_000_000
        [pending] = record.pending_delete
        assert pending.not_before_us > environment_of(client).wall_us() + 90_000_000


async def test_a_taker_with_a_longer_grace_raises_that_of_the_log() -> None:
    async with scripted_log() as log, log.client() as first, log.client(deletion_grace_s=9.0) as second:
        await first.open_writer("orders", create=True)
        assert (await first.describe("orders")).record.grace_us == 0
        writer = await second.open_writer("orders", create=True)
        assert writer.record.grace_us == 9_000_000
        assert (await first.open_writer("orders", create=True)).record.grace_us == 9_000_000


async def test_appends_that_wait_for_a_record_that_is_full_end_with_a_sentence() -> None:
    """The ledger works and is full, and cannot be replaced until the log is trimmed (docs/log-semantics.md#rule-17)."""
    limits = RotationLimits(bytes_max=1000, hard_bytes_factor=2, interval_min_s=0.01)
    async with scripted_log() as log, log.client(rotation=limits, hold_limit_s=0.3) as client:
        writer = await client.open_writer("orders", create=True)

        async def is_full(*args: Any) -> Any:
            raise RecordTooLargeError(
                "the record is full: shrink the log", record_bytes=2, record_bytes_max=1
            )

        logs: Any = client.logs
        logs.compare_and_set = is_full
        async with asyncio.timeout(20):
            with pytest.raises(AppendAbortedError, match=r"within 0\.3 s .*shrink the log"):
                while True:
                    await writer.append(bytes(200))
                    await asyncio.sleep(0.005)


async def test_a_client_closes_its_writers_at_the_same_time() -> None:
    """The store is away, so each has to wait for its limit: all of them together wait as long as one."""
    async with scripted_log() as log, log.client(hold_limit_s=0.5) as client:
        writers = [await client.open_writer(f"orders-{number}", create=True) for number in range(6)]
        for writer in writers:
            await writer.append(b"one")
        store_of(client).away = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        await client.close()
        assert not any(writer.active for writer in writers)
        assert loop.time() - began < 4 * 0.5
