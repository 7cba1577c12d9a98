"""What a log's retention trims, on a simulated cluster whose list of ledgers is in tiny pages.

Source: docs/log-semantics.md#rule-34.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.core.metadata_changes import has_deletable
from dlog.errors import LogNotFoundError, RecordFormatError
from dlog.inspection.ledgers import listed_ledgers
from dlog.ledger_list.listing import SHORT_SIZES, Sizes
from dlog.ledger_list.trim_cut import TrimCut
from dlog.log_retention import RetentionPlan
from dlog.metadata import store as store_module
from dlog.model import MessageId, Retention
from dlog.testing import SimulatedCluster, simulate
from dlog.write import ledger_recovery
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError, LedgerNotFoundError
from ledger.model import LedgerId

LOG = "orders"
COUNT = 20
PAYLOAD = bytes(100)
Scene = Callable[[SimulatedCluster, LogClient, LogWriter, list[MessageId]], Awaitable[None]]


@pytest.fixture(autouse=True)
def tiny_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store_module, "DEFAULT_SIZES", SHORT_SIZES)
    yield


def play(scene: Scene, seed: int = 1) -> None:
    """The scene with a log of one message in each ledger, one a second.

    The record holds the seals of COUNT ledgers; the seal of the one after them is recorded at the next rotation, and
    the newest is open and empty.
    """

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            ids = []
            for _ in range(COUNT + 1):
                await asyncio.sleep(1)
                ids.append(await writer.append(PAYLOAD))
                await writer.rotate()
            await scene(cluster, client, writer, ids)
            writer.abort()

    simulate(main, seed=seed)


async def first_kept(client: LogClient, retention: Retention) -> int:
    """The number of the first message that it keeps; what is planned is what happens."""
    before = await listed_ledgers(client, LOG)
    plan = await client.plan_retention(LOG, retention)
    assert await listed_ledgers(client, LOG) == before
    await client.set_retention(LOG, retention)
    assert await client.retention(LOG) == retention
    assert await client.plan_retention(LOG) == plan
    assert await client.apply_retention(LOG) == plan
    left = await listed_ledgers(client, LOG)
    assert len(before) - len(left) == plan.ledgers == plan.messages + plan.uncounted
    assert await client.apply_retention(LOG) == RetentionPlan(kept_by=plan.kept_by)
    async with client.reader(LOG, until="latest") as reader:
        count = 0
        async for message in reader:
            count += 1
            assert message.payload == PAYLOAD
    return COUNT + 1 - count


def test_by_messages() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        for keep in (100, COUNT, COUNT - 1, 12, 11, 3, 1):
            assert await first_kept(client, Retention(max_messages=keep)) == max(0, COUNT - keep)

    play(scene)


def test_by_bytes() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        seals = [one.seal for one in await listed_ledgers(client, LOG)]
        each = seals[0].byte_count if seals[0] is not None else 0
        assert each > len(PAYLOAD)
        assert await first_kept(client, Retention(max_bytes=COUNT * each)) == 0
        assert await first_kept(client, Retention(max_bytes=14 * each + 1)) == COUNT - 15
        assert await first_kept(client, Retention(max_bytes=14 * each)) == COUNT - 14
        assert await first_kept(client, Retention(max_bytes=1)) == COUNT - 1

    play(scene)


def test_by_age() -> None:
    """By the time of the last message of each ledger; the newest ones stay, however old they are.

    These are the last two, and the newest that the record knows to have entries.
    """

    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        assert await first_kept(client, Retention(max_age_s=3600)) == 0
        assert await first_kept(client, Retention(max_age_s=10.9)) == COUNT - 10
        await asyncio.sleep(100)
        assert await first_kept(client, Retention(max_age_s=60)) == COUNT - 1
        last = await writer.append(PAYLOAD)
        await asyncio.sleep(100)
        assert (await client.apply_retention(LOG)).before is None
        async with client.reader(LOG, until="latest") as reader:
            assert [message.id async for message in reader] == [*ids[-2:], last]

    play(scene)


def test_a_clock_that_goes_back_trims_less() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        client.ledgers.environment.wall_us = lambda: 0  # type: ignore[method-assign]
        assert (await client.plan_retention(LOG, Retention(max_age_s=1))).before is None

    play(scene)


def test_by_the_slowest_cursor() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        unread = Retention(keep_unread=True)
        assert (
            await first_kept(client, unread) == 0
        )  # there is no cursor, so there is no consumer to wait for
        await client.set_cursor(LOG, "slow", ids[4])
        await client.set_cursor(LOG, "fast", "latest")
        assert await first_kept(client, unread) == 4
        await client.set_cursor(LOG, "slow", ids[9])
        assert await first_kept(client, unread) == 9
        await client.delete_cursor(LOG, "slow")
        assert await first_kept(client, unread) == COUNT - 1

    play(scene)


@pytest.mark.parametrize("cursor", ["job", "new"])
def test_a_cursor_that_is_set_back_while_a_trim_is_under_way_keeps_what_it_was_set_to(cursor: str) -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await client.set_retention(LOG, Retention(keep_unread=True))
        await client.set_cursor(LOG, "job", ids[9])
        count_last = client.admin._count_last
        set_to = iter((ids[7], ids[4]))

        async def then_set(cut: TrimCut | None) -> int | None:
            if (position := next(set_to, None)) is not None:
                async with await cluster.client() as operator:
                    await operator.set_cursor(LOG, cursor, position)
            return await count_last(cut)

        client.admin._count_last = then_set  # type: ignore[method-assign]
        plan = await client.apply_retention(LOG)
        assert (plan.before, plan.kept_by) == (MessageId(ids[4].ledger_id, 0, 0), "keep_unread")
        assert (await client.describe(LOG)).record.trim_before == plan.before
        async with client.reader(LOG, cursor=cursor, until="latest") as reader:
            assert [message.id async for message in reader] == ids[4:]

    play(scene)


def test_a_retention_that_is_set_while_a_trim_is_under_way_decides() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await client.set_retention(LOG, Retention(max_messages=2))
        count_last = client.admin._count_last

        async def then_set(cut: TrimCut | None) -> int | None:
            await client.set_retention(LOG, Retention())
            return await count_last(cut)

        client.admin._count_last = then_set  # type: ignore[method-assign]
        before = await listed_ledgers(client, LOG)
        assert await client.apply_retention(LOG) == RetentionPlan()
        assert await listed_ledgers(client, LOG) == before

    play(scene)


def test_the_rule_that_keeps_most_decides() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await client.set_cursor(LOG, "slow", ids[3])
        both = Retention(max_messages=5, keep_unread=True)
        assert (await client.plan_retention(LOG, both)).kept_by == "keep_unread"
        assert await first_kept(client, both) == 3
        await client.set_cursor(LOG, "slow", "latest")
        assert (await client.plan_retention(LOG, both)).kept_by == "max_messages"
        assert await first_kept(client, both) == COUNT - 5
        rules = Retention(max_age_s=3600, max_messages=1, max_bytes=1, keep_unread=True)
        assert (await client.plan_retention(LOG, rules)).kept_by == "max_age_s"
        assert await first_kept(client, rules) == COUNT - 5

    play(scene)


def test_rules_that_let_everything_go_leave_what_no_trim_takes() -> None:
    """So the plan names no rule: none of them, however it is set, would have more trimmed."""

    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await client.set_cursor(LOG, "fast", "latest")
        await asyncio.sleep(100)
        for rules in (Retention(max_age_s=60), Retention(keep_unread=True)):
            plan = await client.plan_retention(LOG, rules)
            assert (plan.ledgers, plan.kept_by) == (COUNT - 1, "newest_ledger")
        rules = Retention(max_age_s=60, max_messages=2)
        assert (await client.plan_retention(LOG, rules)).kept_by == "max_messages"
        assert await first_kept(client, Retention(max_age_s=60)) == COUNT - 1
        assert await client.plan_retention(LOG) == RetentionPlan(kept_by="newest_ledger")

    play(scene)


def test_a_log_of_one_old_ledger_is_kept_by_no_rule() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer(LOG, create=True) as writer:
                await writer.append(PAYLOAD)
            await asyncio.sleep(100)
            plan = await client.plan_retention(LOG, Retention(max_age_s=1))
            assert plan == RetentionPlan(kept_by="newest_ledger")

    simulate(main, seed=1)


def test_what_was_not_counted_counts_as_no_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So more is kept than asked for, never less.

    A takeover seals the two ledgers whose seals the record does not hold; here it cannot count their messages.
    """
    monkeypatch.setattr(ledger_recovery, "_messages_through", lambda last: ledger_recovery.NOT_COUNTED)

    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await writer.append(PAYLOAD)
        writer.abort()
        newer = await client.open_writer(LOG)
        for _ in range(3):
            await newer.append(PAYLOAD)
            await newer.rotate()
        plan = await client.plan_retention(LOG, Retention(max_messages=4))
        assert (plan.before, plan.ledgers) == (MessageId(ids[-3].ledger_id, 0, 0), COUNT - 2)
        plan = await client.plan_retention(LOG, Retention(max_messages=2))
        assert (plan.ledgers, plan.messages, plan.uncounted) == (COUNT + 2, COUNT, 2)

    play(scene)


def test_a_takeover_counts_the_messages_that_it_seals() -> None:
    """From the last entry of each ledger: also those of batches, and none of messages that were never sent."""

    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await writer.append_many([PAYLOAD] * 5)
        futures = [writer.submit_nowait(PAYLOAD) for _ in range(4)]
        futures[1].cancel()
        await asyncio.gather(futures[0], *futures[2:])
        writer.abort()
        newer = await client.open_writer(LOG)
        seals = [one.seal for one in await listed_ledgers(client, LOG)][-3:-1]
        assert [seal and seal.message_count for seal in seals] == [1, 8]
        for _ in range(3):
            await newer.append(PAYLOAD)
            await newer.rotate()
        plan = await client.plan_retention(LOG, Retention(max_messages=11))
        assert (plan.ledgers, plan.messages, plan.uncounted) == (COUNT, COUNT, 0)

    play(scene)


def test_an_unsealed_ledger_stays_although_newer_ones_are_listed() -> None:
    """Its seal is recorded at the next rotation, or takeover."""

    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await client.set_cursor(LOG, "beyond", "latest")
        assert (await client.describe(LOG)).record.ledgers[-2].seal is None
        plan = await client.plan_retention(LOG, Retention(keep_unread=True))
        assert plan.before == MessageId(ids[-2].ledger_id, 0, 0)

    play(scene)


def test_a_retention_is_replaced_and_ends_with_its_log() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        assert await client.retention(LOG) == Retention()
        assert await client.apply_retention(LOG) == RetentionPlan()
        await client.set_retention(LOG, Retention(max_messages=3))
        await client.set_retention(LOG, Retention())
        assert await client.apply_retention(LOG) == RetentionPlan()
        await client.set_retention(LOG, Retention(max_messages=3))
        assert await client.delete(LOG)
        await client.create(LOG)
        assert await client.retention(LOG) == Retention()

    play(scene)


def test_wrong_ones_are_refused_and_a_damaged_one_is_reported() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        for wrong in (None, 7, {"max_messages": 3}):
            with pytest.raises(ConfigurationError, match="retention"):
                await client.set_retention(LOG, wrong)  # type: ignore[arg-type]
        with pytest.raises(LogNotFoundError):
            await client.set_retention("absent", Retention())
        await client.set_retention(LOG, Retention(max_messages=3))
        ref = (await client.describe(LOG)).ref
        key = metadata_keys.retention_key(ref.root, ref.name, ref.log_uuid)
        store = client.ledgers.store
        await store.write_record(key, b"damaged", (await store.read_record(key)).version)
        for call in (client.retention(LOG), client.plan_retention(LOG), client.apply_retention(LOG)):
            with pytest.raises(RecordFormatError, match="or set it again"):
                await call
        assert len(await listed_ledgers(client, LOG)) == COUNT + 2
        await client.set_retention(LOG, Retention(max_messages=3))
        assert (await client.apply_retention(LOG)).ledgers == COUNT - 3

    play(scene)


def test_the_owner_trims_after_each_rotation_and_after_its_takeover() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await client.set_retention(LOG, Retention(max_messages=3))
        assert len(await listed_ledgers(client, LOG)) == COUNT + 2
        await writer.append(PAYLOAD)
        await writer.rotate()
        await asyncio.sleep(1)
        listed = await listed_ledgers(client, LOG)
        assert [one.ledger_id for one in listed][:2] == [ids[-3].ledger_id, ids[-2].ledger_id]
        assert not (await client.describe(LOG)).record.pending_delete
        with pytest.raises(LedgerNotFoundError):
            await client.ledgers.open(LedgerId(ids[0].ledger_id))
        await client.set_retention(LOG, Retention(max_messages=1))
        writer.abort()
        newer = await client.open_writer(LOG)
        await asyncio.sleep(1)
        listed = await listed_ledgers(client, LOG)
        assert listed[0].ledger_id > ids[-1].ledger_id
        assert [one.seal and one.seal.message_count for one in listed] == [1, None]
        newer.abort()

    play(scene)


def test_a_damaged_retention_does_not_stop_the_owner() -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        ref = (await client.describe(LOG)).ref
        key = metadata_keys.retention_key(ref.root, ref.name, ref.log_uuid)
        await client.ledgers.store.create_record(key, b"damaged")
        await writer.append(PAYLOAD)
        await writer.rotate()
        await asyncio.sleep(1)
        await writer.append(PAYLOAD)
        assert len(await listed_ledgers(client, LOG)) == COUNT + 3

    play(scene)


@pytest.fixture
def full_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ledgers are in the record, which may name one more that waits for its deletion."""
    monkeypatch.setattr(store_module, "DEFAULT_SIZES", Sizes(pending_max=1))


@pytest.mark.usefixtures("full_record")
def test_while_too_many_ledgers_wait_for_their_deletion_none_is_reported_as_trimmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They stay listed until then; afterwards the next application trims them."""

    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        rules = Retention(max_messages=1)
        await client.set_retention(LOG, rules)
        for _ in range(3):
            before = len(await listed_ledgers(client, LOG))
            plan = await client.apply_retention(LOG)
            assert plan.ledgers == before - len(await listed_ledgers(client, LOG))
        client.logs.list_sizes = Sizes(pending_max=100)
        assert (await client.apply_retention(LOG)).ledgers > 0
        assert not (await client.plan_retention(LOG, rules)).ledgers

    play(scene)


@pytest.mark.usefixtures("full_record")
def test_a_trim_whose_ledgers_had_to_stay_listed_is_finished_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        before = MessageId(ids[-2].ledger_id, 0, 0)
        await client.shrink(LOG, before)
        first = (await client.describe(LOG)).record.ledgers[0].ledger_id
        assert first < before.ledger_id
        client.logs.list_sizes = Sizes(pending_max=100)
        await client.shrink(LOG, before)
        assert (await client.describe(LOG)).record.ledgers[0].ledger_id == before.ledger_id

    play(scene)


def test_what_waits_for_its_deletion_does_not_wait_for_a_retention_that_fails() -> None:
    """A cursor that cannot be decoded keeps `keep_unread` from a decision."""

    async def scene(
        cluster: SimulatedCluster, client: LogClient, writer: LogWriter, ids: list[MessageId]
    ) -> None:
        await client.set_retention(LOG, Retention(keep_unread=True))
        await client.set_cursor(LOG, "damaged", "earliest")
        ref = (await client.describe(LOG)).ref
        key = metadata_keys.cursor_key(ref.root, ref.name, ref.log_uuid, "damaged")
        found = await client.ledgers.store.read_record(key)
        await client.ledgers.store.write_record(key, b"rubbish", found.version)
        await client.shrink(LOG, ids[4])
        assert has_deletable((await client.describe(LOG)).record)
        for _ in range(2):
            await writer.append(b"more")
            await writer.rotate()
            await asyncio.sleep(2)
        assert not has_deletable((await client.describe(LOG)).record)

    play(scene)
