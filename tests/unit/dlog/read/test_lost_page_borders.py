"""Readers at the borders of a lost page of the ledger list: next to empty ledgers, an open one, what is read ahead.

Source: docs/log-semantics.md#rule-28, #rule-32.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.core.tailing import Gap, GapReason
from dlog.errors import HistoryPageError
from dlog.ledger_list.listing import Sizes
from dlog.metadata import store
from dlog.model import Message, MessageId, PageRef
from dlog.read.config import ReaderConfig
from dlog.testing import SimulatedCluster, simulate

LOG = "orders"
LEDGERS = 40
SMALL = ReaderConfig(fetch_entries_max=1)


@dataclass
class Lossy:
    """A log of sealed ledgers with two messages each, and an open one with one message. Page `page` can be lost.

    Every other ledger id is of another log.
    """

    client: LogClient
    messages: list[Message]
    page: PageRef
    key: str

    async def lose(self) -> None:
        await self.client.ledgers.store.remove_record(self.key, 0)

    @property
    def before(self) -> list[Message]:
        return [message for message in self.messages if message.id.ledger_id < self.page.first_id]

    @property
    def after(self) -> list[Message]:
        return [message for message in self.messages if message.id.ledger_id > self.page.last_id]

    @property
    def gap(self) -> Gap:
        return Gap(
            MessageId(self.page.first_id, 0, 0), MessageId(self.page.last_id + 1, 0, 0), GapReason.DATA_LOSS
        )

    async def items(self, **wanted: Any) -> list[Message | Gap]:
        wanted = {"until": "latest", "on_data_loss": "gap", **wanted}
        async with self.client.reader(LOG, **wanted) as reader:
            return [item async for item in reader.items()]


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "DEFAULT_SIZES", Sizes(kept_min=3, page_ledgers=4, page_fanout=50))


def play(scene: Callable[[Lossy], Awaitable[None]], *, number: int = 4, lose: bool = True) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, client.open_writer(LOG, create=True) as writer:
            async with client.open_writer("other", create=True) as other:
                for _ in range(LEDGERS):
                    await writer.append_many([b"one", b"two"])
                    await other.append(b"")
                    await other.rotate()
                    await writer.rotate()
            await writer.append(b"last")
            messages = [message async for message in client.reader(LOG, until="latest")]
            ref, record = (info := await client.describe(LOG)).ref, info.record
            page = record.pages[number]
            assert page.ledgers == 4
            key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name)
            async with await cluster.client() as reading:  # the other one remembers the page
                loss = Lossy(reading, messages, page, key)
                if lose:
                    await loss.lose()
                await scene(loss)

    simulate(main)


@pytest.mark.parametrize("number", [0, 4, -1])
def test_a_start_at_the_border_meets_all_of_the_page_or_nothing(number: int) -> None:
    async def scene(loss: Lossy) -> None:
        first, last = loss.page.first_id, loss.page.last_id
        unlisted = [MessageId(first - 1, 0, 0)] if number else []
        for start in (MessageId(first, 0, 0), *unlisted):
            assert await loss.items(start=start) == [loss.gap, *loss.after]
            with pytest.raises(HistoryPageError):
                await loss.items(start=start, on_data_loss="fail")
        for start in (MessageId(last + 1, 0, 0), loss.after[0].id):
            assert await loss.items(start=start) == loss.after
            assert await loss.items(start=start, on_data_loss="fail") == loss.after
        if not number:
            return
        start = loss.before[-1].id
        assert await loss.items(start=start) == [loss.before[-1], loss.gap, *loss.after]
        assert await loss.items(after=start) == [loss.gap, *loss.after]
        with pytest.raises(HistoryPageError):
            await loss.items(after=start, on_data_loss="fail")

    play(scene, number=number)


@pytest.mark.parametrize("on_data_loss", ["fail", "gap"])
def test_an_end_at_the_border_does_not_meet_the_page(on_data_loss: str) -> None:
    async def scene(loss: Lossy) -> None:
        wanted = {"until": MessageId(loss.page.first_id, 0, 0), "on_data_loss": on_data_loss}
        assert await loss.items(**wanted) == loss.before
        assert await loss.items(last=5, until="latest", on_data_loss=on_data_loss) == loss.messages[-5:]

    play(scene)


def test_an_end_inside_the_page_is_where_the_gap_ends() -> None:
    async def scene(loss: Lossy) -> None:
        for until in (MessageId(loss.page.first_id, 0, 1), MessageId(loss.page.last_id, 7, 0)):
            gap = Gap(loss.gap.first, until, GapReason.DATA_LOSS)
            assert await loss.items(until=until) == [*loss.before, gap]
            with pytest.raises(HistoryPageError):
                await loss.items(until=until, on_data_loss="fail")

    play(scene)


def test_a_tail_passes_the_page_before_the_open_ledger_and_goes_on() -> None:
    async def scene(loss: Lossy) -> None:
        async with loss.client.reader(LOG, loss.gap.first, on_data_loss="gap") as reader:
            items = reader.items()
            found = [await anext(items) for _ in range(1 + len(loss.after))]
            assert found == [loss.gap, *loss.after]
            waiting = asyncio.ensure_future(anext(items))
            await asyncio.sleep(10.0)
            assert not waiting.done()
            async with loss.client.open_writer(LOG) as writer:
                appended = await writer.append(b"more")
                item = await waiting
            assert isinstance(item, Message) and item.id == appended

    play(scene, number=-1)


@pytest.mark.parametrize("config", [None, SMALL])
@pytest.mark.parametrize("read", [1, 9, 2 * 4 * 2 + 1, 2 * 4 * 4 - 1])
def test_a_page_that_is_lost_while_a_reader_is_before_it_is_returned_or_reported(
    config: ReaderConfig | None, read: int
) -> None:
    """What the reader knows of the list, and has read ahead, may be after the page; the rest is a gap."""

    async def scene(loss: Lossy) -> None:
        async with loss.client.reader(LOG, until="latest", on_data_loss="gap", config=config) as reader:
            items = reader.items()
            found = [await anext(items) for _ in range(read)]
            await loss.lose()
            loss.client.logs._pages._kept.clear()
            found += [item async for item in items]
        covered = [item for item in found if isinstance(item, Message)]
        gaps = [item for item in found if isinstance(item, Gap)]
        for message in loss.messages:
            is_lost = any(gap.first <= message.id < gap.resume_at for gap in gaps)
            assert (message in covered) is not is_lost
        assert len(gaps) <= 1 and covered == sorted(covered, key=lambda message: message.id)
        places = [item.first if isinstance(item, Gap) else item.id for item in found]
        assert places == sorted(places)

    play(scene, lose=False)
