"""Administration beside a writer at the worst moment: between its read and its compare-and-set."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from dlog.cli.upkeep.garbage import Collection
from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.errors import DataLossError, RecordFormatError, ShrinkRefusedError
from dlog.format.log_metadata import encode_record
from dlog.model import MessageId
from dlog.write.active_ledger import ActiveLedger, LedgerMaker
from dlog.write.takeover_runner import TakeoverRunner, new_owner
from ledger.errors import LayoutMismatchError, LedgerRecoveryError
from ledger.model import LedgerId
from tests.helpers.ledger.scripted_bookies import until
from tests.helpers.log.scripted_log import (
    ScriptedLog,
    environment_of,
    payloads,
    scripted_log,
    store_of,
)


def meanwhile(client: LogClient, happen: Callable[[], Awaitable[Any]]) -> None:
    """Let it happen once, just before the client's next compare-and-set of a record."""
    logs: Any = client.logs
    change = logs.compare_and_set

    async def late(*args: Any, **options: Any) -> Any:
        logs.compare_and_set = change
        await happen()
        return await change(*args, **options)

    logs.compare_and_set = late


def answer_fences_late(log: ScriptedLog) -> None:
    for bookie in log.bookies:
        bookie.late = lambda what: what.startswith("fence")


async def ledgers_of(client: LogClient) -> set[LedgerId]:
    return {one async for one in client.ledgers.store.ledger_ids()}


async def test_a_shrink_during_which_the_owner_rotates_keeps_the_new_ledger() -> None:
    """A blind put would lose it, with everything appended to it (docs/log-semantics.md#rule-1, #rule-33)."""
    async with scripted_log() as log, log.client() as client, log.client() as admin:
        writer = await client.open_writer("orders", create=True)
        ids = [await writer.append(b"%d" % number) for number in range(3)]

        async def rotate_and_append() -> None:
            await writer.rotate()
            ids.append(await writer.append(b"3"))

        meanwhile(admin, rotate_and_append)
        record = await admin.shrink("orders", ids[1])
        assert record.trim_before == ids[1]
        assert record.ledger_ids == writer.record.ledger_ids
        assert ids[3].ledger_id in record.ledger_ids
        assert await payloads(client, "orders") == [b"1", b"2", b"3"]


async def test_nothing_above_the_tail_is_trimmed() -> None:
    """It would hide messages to come (docs/log-semantics.md#rule-33)."""
    async with scripted_log() as log, log.client(password=b"secret") as client:
        writer = await client.open_writer("orders", create=True)
        last = await writer.append(b"one")
        tail = MessageId(last.ledger_id, last.entry_id + 1, 0)
        for above in (tail._replace(batch_index=1), MessageId(last.ledger_id + 1, 0, 0)):
            with pytest.raises(ShrinkRefusedError):
                await client.shrink("orders", above)
        assert (await client.shrink("orders", tail)).trim_before == tail


async def test_a_takeover_that_cannot_fence_deletes_the_ledger_that_it_has_created() -> None:
    async with scripted_log() as log, log.client() as client, log.client() as candidate:
        writer = await client.open_writer("orders", create=True)
        lost = (await writer.append(b"one")).ledger_id
        await writer.rotate()
        await writer.append(b"two")  # an empty ledger would leave the list, and be deleted later
        await client.ledgers.delete(lost)
        before = await ledgers_of(client)
        with pytest.raises(DataLossError):
            await candidate.open_writer("orders")
        assert await ledgers_of(client) == before
        taken_over = await candidate.open_writer("orders", given_up=[lost])
        await taken_over.append(b"three")
        assert await ledgers_of(client) == before | set(taken_over.record.ledger_ids) - {lost}


async def test_a_ledger_created_for_an_epoch_that_has_passed_is_replaced() -> None:
    """Another candidate takes over while this one fences: it starts over in the next epoch."""
    async with scripted_log() as log, log.client() as candidate, log.client() as other:
        empty = (await other.open_writer("orders", create=True)).record.ledger_ids[-1]
        store = store_of(candidate)
        answer_fences_late(log)
        store_of(other).answered.clear()
        openings = []
        for client in (other, candidate):
            openings.append(asyncio.create_task(client.open_writer("orders")))
            await until(lambda client=client: "create_new_ledger" in store_of(client).answered)  # type: ignore[misc]
        too_early = max(await ledgers_of(candidate))
        close = store.held["write_ledger"] = asyncio.Event()
        for bookie in log.bookies:
            bookie.speak()
        assert (await openings[0]).epoch == 2
        await other.ledgers.delete(empty)
        close.set()
        writer = await openings[1]
        assert writer.epoch == 3
        [ledger_id] = set(writer.record.ledger_ids) & await ledgers_of(candidate)
        tags = dict((await candidate.ledgers.store.read_ledger(ledger_id)).value.custom)
        assert tags[metadata_keys.TAG_EPOCH] == b"3"
        assert too_early not in await ledgers_of(candidate)


async def test_a_takeover_whose_fences_fail_deletes_the_ledger_that_it_has_created() -> None:
    async with scripted_log() as log, log.client() as candidate, log.client() as other:
        await (await other.open_writer("orders", create=True)).append(b"one")
        before = await ledgers_of(other)
        answer_fences_late(log)
        opening = asyncio.create_task(candidate.open_writer("orders"))
        await until(lambda: "create_new_ledger" in store_of(candidate).answered)
        for bookie in log.bookies:
            bookie.go_away()
        with pytest.raises(LedgerRecoveryError):
            await opening
        assert await ledgers_of(other) == before


async def test_a_takeover_that_was_given_up_creates_no_ledger() -> None:
    """The recovery goes on after its caller was cancelled, and marks the ledger then."""
    async with scripted_log() as log, log.client() as candidate, log.client() as other:
        await (await other.open_writer("orders", create=True)).append(b"one")
        before = await ledgers_of(other)
        store = store_of(candidate)
        mark = store.held["write_ledger"] = asyncio.Event()
        opening = asyncio.create_task(candidate.open_writer("orders"))
        await until(lambda: "write_ledger" in store.asked)
        opening.cancel()
        await asyncio.wait([opening])
        mark.set()
        await until(lambda: not candidate.ledgers._recoveries)
        assert store.asked.count("write_ledger") == 2, "it was marked and closed"
        assert "create_new_ledger" not in store.asked
        assert await ledgers_of(other) == before


async def test_the_sweep_never_takes_a_ledger_that_a_sleeping_candidate_can_still_list() -> None:
    """The candidate has made its ledger and sleeps before it claims the log (docs/log-semantics.md#orphan-sweep)."""
    async with scripted_log() as log, log.client() as candidate, log.client() as admin:
        before = await candidate.open_writer("orders", create=True)
        await before.append(b"one")

        async def sweep() -> None:
            newer = await ledgers_of(admin) - set(before.record.ledger_ids)
            assert len(newer) == 1
            assert await admin.admin.sweep() == []
            assert set(await admin.admin.sweep(age_s=-1)) == newer
            record = (await admin.describe("orders")).record
            assert newer == {record.last_ledger_id}, "its compare-and-set will fail"
            assert not newer & await ledgers_of(admin)

        meanwhile(candidate, sweep)
        writer = await candidate.open_writer("orders", create=True)
        await writer.append(b"two")
        assert set(writer.record.ledger_ids) <= await ledgers_of(admin)
        assert await payloads(admin, "orders") == [b"one", b"two"]


async def test_the_sweep_bars_the_new_ledger_of_an_owner_that_sleeps_in_a_rotation() -> None:
    """The owner rebases and takes another one; a rebase keeps no id that was barred.

    Source: docs/log-semantics.md#rule-3.
    """
    async with scripted_log() as log, log.client() as client, log.client() as admin:
        writer = await client.open_writer("orders", create=True)
        await writer.append(b"one")

        async def sweep() -> None:
            assert len(await admin.admin.sweep(age_s=-1)) == 1

        meanwhile(client, sweep)
        current = await writer.rotate()
        assert (await writer.append(b"two")).ledger_id == current
        assert set(writer.record.ledger_ids) <= await ledgers_of(admin)
        assert writer.epoch == 1
        assert await payloads(admin, "orders") == [b"one", b"two"]


async def test_the_sweep_leaves_other_programs_ledgers_alone() -> None:
    async with scripted_log() as log, log.client() as client:
        await client.open_writer("orders", create=True)
        foreign = (await client.ledgers.create(client.config.quorum)).ledger_id
        ref = await client.logs.find(client.name("orders"))
        owner = new_owner(environment_of(client), "")
        orphan = (await LedgerMaker(ref, owner, client.ledgers, client.config).create(1)).ledger_id
        assert await client.admin.sweep(age_s=-1) == [orphan]
        left = await ledgers_of(client)
        assert foreign in left
        assert orphan not in left


@pytest.mark.parametrize("foreign", [False, True])
async def test_a_damaged_log_bars_the_sweep_of_no_other(foreign: bool) -> None:
    """Its own ledgers are left alone, since it is not known which of them it lists. So are those of a log whose record
    is of another cluster, as a restored backup brings it."""
    async with scripted_log() as log, log.client() as client:
        await client.open_writer("damaged", create=True)
        await client.open_writer("orders", create=True)
        kept = (await client.describe("damaged")).record.ledger_ids
        damaged = await client.logs.find(client.name("damaged"))
        key = metadata_keys.record_key(metadata_keys.DEFAULT_ROOT, damaged.name, damaged.log_uuid)
        read = await client.logs.read(damaged)
        value = encode_record(replace(read.value, instance_id="another")) if foreign else b"no record"
        await client.ledgers.store.write_record(key, value, read.version)
        ref = await client.logs.find(client.name("orders"))
        owner = new_owner(environment_of(client), "")
        orphan = (await LedgerMaker(ref, owner, client.ledgers, client.config).create(1)).ledger_id
        await client.admin.sweep(age_s=-1)
        collection = Collection(-1, dry_run=False)
        await collection.run(client)
        assert {type(error) for error in collection.damaged} == {
            LayoutMismatchError if foreign else RecordFormatError
        }
        left = await ledgers_of(client)
        assert orphan not in left
        assert set(kept) <= set(left)


async def test_a_takeover_that_is_cancelled_as_its_ledger_is_made_leaves_no_open_handle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted_log() as log, log.client() as owner, log.client() as candidate:
        await (await owner.open_writer("orders", create=True)).append(b"one")
        fenced = asyncio.Event()
        create, create_early = LedgerMaker.create, TakeoverRunner._create_early
        made: list[ActiveLedger] = []

        async def late(self: LedgerMaker, epoch: int) -> ActiveLedger:
            await fenced.wait()
            made.append(await create(self, epoch))
            return made[-1]

        def begin(self: TakeoverRunner) -> None:
            create_early(self)
            assert self._early is not None
            self._early.add_done_callback(lambda _: opening.cancel())
            monkeypatch.setattr(self._machine, "on_fenced", fenced_with(self._machine.on_fenced))

        def fenced_with(on_fenced: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                fenced.set()
                return on_fenced(*args, **options)

            return call

        monkeypatch.setattr(LedgerMaker, "create", late)
        monkeypatch.setattr(TakeoverRunner, "_create_early", begin)
        opening = asyncio.create_task(candidate.open_writer("orders"))
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert [one.detached for one in made] == [True]
