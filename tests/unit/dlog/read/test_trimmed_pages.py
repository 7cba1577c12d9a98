"""Pages of the list that have only trimmed ledgers, and are lost: readers miss nothing of them.

Source: docs/log-semantics.md#pages, #rule-28.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.core.tailing import Gap, GapReason
from dlog.errors import TrimmedError
from dlog.model import Message, MessageId, PageRef
from dlog.read.resolution import Resolution
from dlog.testing import SimulatedCluster, simulate
from tests.helpers.log.trimmed_pages import TrimTo, append_and_trim, keep_trimmed_listed

LOG = "orders"
EPOCH = datetime.fromtimestamp(0, UTC)
Scene = Callable[[LogClient, list[Message], list[PageRef], MessageId], Awaitable[None]]

every_trim = pytest.mark.parametrize("to", list(TrimTo))
every_policy = pytest.mark.parametrize("on_data_loss", ["fail", "gap"])


@pytest.fixture(autouse=True)
def trimmed_ledgers_stay_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_trimmed_listed(monkeypatch)


def play(to: TrimTo, scene: Scene) -> None:
    """The scene gets what was in the log before pages were lost, these pages, and the trim position."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            pages = await append_and_trim(client, LOG, to)
            assert pages
            messages = [message async for message in client.reader(LOG, until="latest")]
            ref, record = (info := await client.describe(LOG)).ref, info.record
            for page in pages:
                key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name)
                await client.ledgers.store.remove_record(key, 0)
        async with await cluster.client() as client:  # the other one remembers the pages
            await scene(client, messages, pages, record.trim_before)

    simulate(main)


async def items(client: LogClient, **wanted: Any) -> list[Message | Gap]:
    async with client.reader(LOG, until="latest", **wanted) as reader:
        return [item async for item in reader.items()]


@every_policy
@every_trim
def test_a_reader_returns_everything(to: TrimTo, on_data_loss: str) -> None:
    async def scene(
        client: LogClient, messages: list[Message], pages: list[PageRef], trim: MessageId
    ) -> None:
        assert await items(client, on_data_loss=on_data_loss) == messages
        assert await items(client, start=trim, on_data_loss=on_data_loss) == messages
        assert await items(client, cursor="c", on_data_loss=on_data_loss) == messages

    play(to, scene)


@every_policy
@every_trim
def test_the_last_n_are_found_without_the_page(to: TrimTo, on_data_loss: str) -> None:
    async def scene(
        client: LogClient, messages: list[Message], pages: list[PageRef], trim: MessageId
    ) -> None:
        for count in (1, len(messages) - 1, len(messages), len(messages) + 1, 99):
            assert await items(client, last=count, on_data_loss=on_data_loss) == messages[-count:]

    play(to, scene)


@every_policy
@every_trim
def test_a_time_is_found_without_the_page(to: TrimTo, on_data_loss: str) -> None:
    async def scene(
        client: LogClient, messages: list[Message], pages: list[PageRef], trim: MessageId
    ) -> None:
        for time in (EPOCH, EPOCH + timedelta(microseconds=messages[0].append_time_us)):
            assert await items(client, start=time, on_data_loss=on_data_loss) == messages
        async with client.reader(LOG, until=EPOCH, on_data_loss=on_data_loss) as reader:
            assert [item async for item in reader.items()] == []

    play(to, scene)


@every_policy
@every_trim
def test_a_position_in_the_page_counts_as_trimmed(to: TrimTo, on_data_loss: str) -> None:
    async def scene(
        client: LogClient, messages: list[Message], pages: list[PageRef], trim: MessageId
    ) -> None:
        earliest = max(trim, messages[0].id)
        for page in pages:
            for ledger_id in (page.first_id, page.last_id):
                start = MessageId(ledger_id, 1, 0)
                with pytest.raises(TrimmedError):
                    await items(client, start=start, on_data_loss=on_data_loss)
                found = await items(client, start=start, on_trimmed="gap", on_data_loss=on_data_loss)
                assert found == [Gap(start, earliest, GapReason.TRIMMED), *messages]

    play(to, scene)


@every_trim
def test_an_append_in_the_page_is_resolved_as_trimmed(to: TrimTo) -> None:
    async def scene(
        client: LogClient, messages: list[Message], pages: list[PageRef], trim: MessageId
    ) -> None:
        for page in pages:
            for ledger_id in (page.first_id, page.last_id):
                assert await client.resolve(LOG, MessageId(ledger_id, 0, 0)) is Resolution.TRIMMED

    play(to, scene)


@every_trim
def test_the_next_trim_takes_the_page_out_of_the_list(to: TrimTo) -> None:
    async def scene(
        client: LogClient, messages: list[Message], pages: list[PageRef], trim: MessageId
    ) -> None:
        record = await client.shrink(LOG, trim)
        assert record.trim_before == trim and record.first_id > pages[-1].last_id
        assert await items(client) == messages

    play(to, scene)
