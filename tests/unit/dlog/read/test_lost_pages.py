"""Readers of a log that has lost a page of its ledger list, on a simulated cluster with tiny pages.

Source: docs/log-semantics.md#rule-28.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.core.metadata_update import Applied
from dlog.core.tailing import Gap, GapReason
from dlog.errors import HistoryPageError, TrimmedError
from dlog.inspection.overview import overview
from dlog.ledger_list.listing import SHORT_SIZES
from dlog.metadata import store as store_module
from dlog.model import Message, MessageId, PageRef
from dlog.testing import SimulatedCluster, simulate

LOG = "orders"
COUNT = 20
LATEST = {"until": "latest"}


@pytest.fixture(autouse=True)
def tiny_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store_module, "DEFAULT_SIZES", SHORT_SIZES)
    yield


@dataclass
class Loss:
    """A log with two messages in each ledger, one second apart; the list's page `page` cannot be read."""

    client: LogClient
    messages: list[Message]
    page: PageRef
    key: str

    @property
    def before(self) -> list[Message]:
        return [message for message in self.messages if message.id.ledger_id < self.page.first_id]

    @property
    def lost(self) -> list[Message]:
        first, last = self.page.first_id, self.page.last_id
        return [message for message in self.messages if first <= message.id.ledger_id <= last]

    @property
    def after(self) -> list[Message]:
        return [message for message in self.messages if message.id.ledger_id > self.page.last_id]

    @property
    def gap(self) -> Gap:
        return self.gap_from(MessageId(self.page.first_id, 0, 0))

    def gap_from(self, first: MessageId, resume_at: MessageId | None = None) -> Gap:
        return Gap(first, resume_at or MessageId(self.page.last_id + 1, 0, 0), GapReason.DATA_LOSS)

    async def items(self, **wanted: Any) -> list[Message | Gap]:
        async with self.client.reader(LOG, on_data_loss="gap", **wanted) as reader:
            return [item async for item in reader.items()]


Scene = Callable[[Loss], Awaitable[None]]


def play(
    scene: Scene,
    *,
    level: int = 0,
    number: int = 1,
    damaged: Callable[[bytes], bytes] | None = None,
    unknown: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Lose a page by its level and place, or replace its value.

    `unknown`: what each seal has of what a takeover could not read.
    """

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            for _ in range(2):
                async with client.open_writer(LOG, create=True) as writer:
                    for _ in range(COUNT // 2):
                        for body in (b"one", b"two"):
                            await writer.append(body)
                            await asyncio.sleep(1.0)
                        await writer.rotate()
                if unknown:
                    await forget(client, unknown)
            messages = [message async for message in client.reader(LOG, until="latest")]
            ref, record = (info := await client.describe(LOG)).ref, info.record
            pages = metadata_keys.pages_key(ref.root, ref.name, ref.log_uuid)
            places = [name.split("-") for name in await client.ledgers.store.list_records(pages)]
            firsts = sorted(int(place[1]) for place in places if int(place[0]) == level)
            page = await client.logs.ledger_list(ref, record).ref_to_page(level, firsts[number])
            assert page is not None
            key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name)
            value = (await client.ledgers.store.read_record(key)).value
            await client.ledgers.store.remove_record(key, 0)
            if damaged is not None:
                await client.ledgers.store.create_record(key, damaged(value))
        async with await cluster.client() as client:  # the other one remembers the page
            await scene(Loss(client, messages, page, key))

    simulate(main)


async def forget(client: LogClient, unknown: Mapping[str, int]) -> None:
    """Of the ledgers that are in the record now."""
    ref = await client.logs.find(client.name(LOG))
    read = await client.logs.read(ref)
    ledgers = [
        replace(listed, seal=replace(listed.seal, **unknown))
        for listed in read.value.ledgers
        if listed.seal is not None
    ]
    assert len(ledgers) == len(read.value.ledgers)
    record = replace(read.value, ledgers=tuple(ledgers), nonce=7)
    assert isinstance(await client.logs.compare_and_set(ref, record, read.version), Applied)


@pytest.mark.parametrize("damaged", [None, lambda value: b"", lambda value: value[:-1] + b"x"])
@pytest.mark.parametrize(("level", "number"), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)])
def test_a_lost_page_is_a_gap_over_what_it_lists(
    level: int, number: int, damaged: Callable[[bytes], bytes] | None
) -> None:
    async def scene(loss: Loss) -> None:
        assert loss.lost and loss.after
        expected = [*loss.before, loss.gap, *loss.after]
        assert await loss.items(**LATEST) == expected
        assert await loss.items(cursor="c", **LATEST) == expected

    play(scene, level=level, number=number, damaged=damaged)


def test_without_gaps_it_is_an_error_after_everything_before_it() -> None:
    async def scene(loss: Loss) -> None:
        found = []
        with pytest.raises(HistoryPageError, match=f"restore {loss.key} .*on_data_loss='gap'"):
            async for message in loss.client.reader(LOG, **LATEST):
                found.append(message)
        assert found == loss.before

    play(scene, number=2)


def test_a_page_of_a_later_release_is_no_gap() -> None:
    def of_a_later_release(value: bytes) -> bytes:
        body = value[:4] + bytes([value[4] + 1]) + value[5:-4]
        return body + zlib.crc32(body).to_bytes(4, "big")

    async def scene(loss: Loss) -> None:
        for wanted in ({}, {"last": 2 * COUNT - 1}, {"start": datetime.fromtimestamp(0, UTC)}):
            with pytest.raises(HistoryPageError, match=r"upgrade dlog$") as found:
                await loss.items(**LATEST, **wanted)
            assert found.value.newer_version is not None
        with pytest.raises(HistoryPageError, match=r"upgrade dlog$"):
            await loss.client.reader(LOG, last=2 * COUNT - 1, on_data_loss="gap").open()

    play(scene, number=1, damaged=of_a_later_release)


def test_an_overview_of_a_log_whose_first_page_is_lost_begins_with_the_page() -> None:
    async def scene(loss: Loss) -> None:
        assert (await overview(loss.client, LOG)).first == loss.gap.first

    play(scene, number=0)


def test_a_range_ends_or_begins_in_the_gap_as_it_was_asked_to() -> None:
    async def scene(loss: Loss) -> None:
        first, last = loss.page.first_id, loss.page.last_id
        for start in (
            MessageId(first, 0, 1),
            MessageId(first, 7, 0),
            MessageId(last, 0, 0),
            MessageId(last, 9, 0),
        ):
            assert await loss.items(start=start, **LATEST) == [loss.gap_from(start), *loss.after]
            until = MessageId(start.ledger_id, start.entry_id + 1, 0)
            assert await loss.items(start=start, until=until) == [loss.gap_from(start, until)]
            assert await loss.items(until=until) == [*loss.before, loss.gap_from(loss.gap.first, until)]
        assert await loss.items(until=loss.gap.first) == loss.before
        assert await loss.items(until=loss.gap.resume_at) == [*loss.before, loss.gap]
        assert await loss.items(start=loss.gap.resume_at, **LATEST) == loss.after
        behind = MessageId(first - 1, 9, 0)
        assert await loss.items(start=behind, **LATEST) == [loss.gap, *loss.after]
        assert await loss.items(start=behind, until=loss.gap.first) == []

    play(scene, level=1)


def test_the_last_n_count_what_a_lost_page_has() -> None:
    async def scene(loss: Loss) -> None:
        after, lost = len(loss.after), len(loss.lost)
        assert after and lost and loss.before
        for count in (1, after):
            assert await loss.items(last=count, **LATEST) == loss.after[-count:]
        for count in (after + 1, after + lost):
            assert await loss.items(last=count, **LATEST) == [loss.gap, *loss.after]
        for more in (1, 3):
            found = await loss.items(last=after + lost + more, **LATEST)
            assert found == [*loss.before[-more:], loss.gap, *loss.after]
        assert await loss.items(last=99, **LATEST) == [*loss.before, loss.gap, *loss.after]
        assert [one async for one in loss.client.reader(LOG, last=after, **LATEST)] == loss.after
        with pytest.raises(HistoryPageError, match="on_data_loss='gap'"):
            await loss.client.reader(LOG, last=after + 1, **LATEST).open()

    play(scene, level=1)


def test_a_ledger_of_a_lost_page_that_was_not_counted_counts_as_one_of_the_last_n() -> None:
    async def scene(loss: Loss) -> None:
        assert loss.page.uncounted == loss.page.ledgers == len(loss.lost) / 2
        for more in (1, 3):
            count = len(loss.after) + loss.page.ledgers + more
            assert await loss.items(last=count, **LATEST) == [*loss.before[-more:], loss.gap, *loss.after]

    play(scene, number=4, unknown={"message_count": -1})


def test_a_time_in_a_lost_page_is_where_that_begins_or_ends() -> None:
    async def scene(loss: Loss) -> None:
        epoch, tick = datetime.fromtimestamp(0, UTC), timedelta(microseconds=1)

        def time_of(message: Message) -> datetime:
            return epoch + timedelta(microseconds=message.append_time_us)

        for time in (time_of(loss.before[-1]) + tick, *map(time_of, loss.lost)):
            assert await loss.items(start=time, **LATEST) == [loss.gap, *loss.after]
            assert await loss.items(until=time) == [*loss.before, loss.gap]
            assert await loss.items(start=time, until=time + tick) == [loss.gap]
        assert await loss.items(start=time_of(loss.after[0]), **LATEST) == loss.after
        assert await loss.items(until=time_of(loss.before[-1])) == loss.before[:-1]
        with pytest.raises(HistoryPageError, match="on_data_loss='gap'"):
            await loss.client.reader(LOG, time_of(loss.lost[1]), **LATEST).open()

    play(scene, level=1)


def test_a_time_after_a_lost_page_that_does_not_know_its_own_is_found_after_it() -> None:
    async def scene(loss: Loss) -> None:
        assert loss.page.last_append_us == 0 and loss.before
        for message in loss.after[1:]:
            time = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=message.append_time_us)
            left = [one for one in loss.after if one.id >= message.id]
            assert await loss.items(start=time, **LATEST) == left

    play(scene, number=4, unknown={"first_append_us": 0, "last_append_us": 0})


def test_the_lag_is_measured_where_the_list_shows_it() -> None:
    async def scene(loss: Loss) -> None:
        async with loss.client.reader(LOG, loss.gap.resume_at, on_data_loss="gap") as reader:
            assert (await reader.measure_lag()).messages == len(loss.after)
        for start in (loss.gap.first, loss.before[0].id):
            async with loss.client.reader(LOG, start, on_data_loss="gap") as reader:
                with pytest.raises(HistoryPageError, match=loss.page.name):
                    await reader.measure_lag()

    play(scene)


def test_two_lost_pages_are_two_gaps() -> None:
    async def scene(loss: Loss) -> None:
        ref, record = (info := await loss.client.describe(LOG)).ref, info.record
        ids = [message.id.ledger_id for message in loss.after]
        following = await loss.client.logs.ledger_list(ref, record).ref_to_page(0, ids[0])
        assert following is not None
        key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, following.name)
        await loss.client.ledgers.store.remove_record(key, 0)
        loss.client.logs._pages._kept.clear()
        second = Gap(
            MessageId(following.first_id, 0, 0), MessageId(following.last_id + 1, 0, 0), GapReason.DATA_LOSS
        )
        left = [message for message in loss.after if message.id.ledger_id > following.last_id]
        assert await loss.items(**LATEST) == [*loss.before, loss.gap, second, *left]
        assert await loss.items(last=len(left) + 1, **LATEST) == [second, *left]

    play(scene)


def test_a_position_below_a_trim_into_a_page_that_is_lost_later_is_reported_as_trimmed() -> None:
    """Whether a message at the position was trimmed, only the page would show."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer(LOG, create=True) as writer:
                for _ in range(COUNT):
                    await writer.append_many([b"one", b"two"])
                    await writer.append(b"three")
                    await writer.rotate()
            messages = [message async for message in client.reader(LOG, until="latest")]
            ref, record = (info := await client.describe(LOG)).ref, info.record
            page = await client.logs.ledger_list(ref, record).ref_to_page(0, record.pages[0].first_id)
            assert page is not None
            trim = MessageId(page.first_id, 1, 0)
            await client.shrink(LOG, trim)
            await client.ledgers.store.remove_record(
                metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name), 0
            )
            loss = Loss(client, messages, page, "")
        async with await cluster.client() as client:
            loss.client = client
            expected = [loss.gap_from(trim), *loss.after]
            assert await loss.items(**LATEST) == expected
            assert await loss.items(start=trim, **LATEST) == expected
            below = MessageId(page.first_id, 0, 1)
            with pytest.raises(TrimmedError):
                await loss.items(start=below, **LATEST)
            found = await loss.items(start=below, on_trimmed="gap", **LATEST)
            assert found == [Gap(below, trim, GapReason.TRIMMED), *expected]
            assert (await overview(client, LOG)).first == trim

    simulate(main)


def test_a_page_that_is_trimmed_and_passed_over_is_no_gap() -> None:
    async def scene(loss: Loss) -> None:
        await loss.client.shrink(LOG, loss.gap.resume_at)
        assert await loss.items(**LATEST) == loss.after
        assert await loss.items(last=99, **LATEST) == loss.after

    play(scene)
