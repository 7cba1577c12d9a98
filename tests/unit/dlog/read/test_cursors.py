"""Readers with a cursor, on a simulated cluster (docs/log-semantics.md#rule-35)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.errors import (
    CursorMovedError,
    CursorNotFoundError,
    LogNotFoundError,
    ShrinkRefusedError,
    TrimmedError,
    UnknownPositionError,
)
from dlog.model import EARLIEST_ID, NO_MESSAGE, MessageId
from dlog.read.backlog import Lag
from dlog.read.places import Places
from dlog.testing import SimulatedCluster, simulate
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError, InvalidNameError, MetadataUnavailableError, ReadError

LOG = "orders"
Scene = Callable[[LogClient, LogWriter], Awaitable[None]]


def play(scene: Scene, seed: int = 1) -> None:
    """The scene with a client and a writer of an empty log."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            await scene(client, writer)
            writer.abort()

    simulate(main, seed=seed)


async def taken(client: LogClient, count: int, **options: Any) -> list[bytes | None]:
    """The payloads of the next messages of cursor `c`, acknowledged."""
    async with client.reader(LOG, cursor="c", **options) as reader:
        found = [(await anext(reader)).payload for _ in range(count)]
        await reader.ack()
        return found


def test_each_reader_continues_where_the_last_one_acknowledged() -> None:
    """Inside a batch, at the end of a ledger, and over one that is empty."""

    async def scene(client: LogClient, writer: LogWriter) -> None:
        for name in (b"a", b"b", b"c"):
            await writer.append_many([name + b"%d" % number for number in range(3)])
            await writer.rotate()
        assert await taken(client, 2) == [b"a0", b"a1"]
        assert await taken(client, 1) == [b"a2"]
        assert await taken(client, 4) == [b"b0", b"b1", b"b2", b"c0"]
        async with client.reader(LOG, cursor="c", until="latest") as reader:
            assert [(await anext(reader)).payload] == [b"c1"]  # and not acknowledged
        assert await taken(client, 2) == [b"c1", b"c2"]
        await writer.append(b"d")
        assert await taken(client, 1) == [b"d"]
        [cursor] = await client.cursors(LOG)
        assert cursor.name == "c"
        assert await client.cursor_lag(LOG, "c") == Lag(0, 0, 0, 0)

    play(scene)


def test_one_message_of_those_returned_can_be_acknowledged() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        ids = await writer.append_many([b"0", b"1", b"2", b"3"])
        async with client.reader(LOG, cursor="c") as reader:
            assert reader.cursor is not None
            assert reader.cursor.position == ids[0]
            messages = [await anext(reader) for _ in range(3)]
            await reader.ack(messages[1])
            assert reader.cursor.position == ids[2]
            await reader.ack(str(ids[0]))
            assert reader.cursor.position == ids[2]
            with pytest.raises(ConfigurationError, match=f"message {ids[3]} cannot be acknowledged"):
                await reader.ack(ids[3])
            await reader.ack(ids[2], properties={"sum": "3"})
            assert reader.cursor.properties == (("sum", "3"),)
        assert await taken(client, 1) == [b"3"]

    play(scene)


def test_a_new_cursor_begins_where_its_reader_does() -> None:
    """And stays there, although nothing is acknowledged and messages follow."""

    async def scene(client: LogClient, writer: LogWriter) -> None:
        ids = [await writer.append(b"%d" % number) for number in range(4)]
        begins = {
            "earliest": ({}, b"0"),
            "latest": ({"start": "latest"}, b"new"),
            "id": ({"start": ids[1]}, b"1"),
            "after": ({"after": ids[1]}, b"2"),
            "last": ({"last": 1}, b"3"),
            "time": ({"start": datetime(2100, 1, 1, tzinfo=UTC)}, b"new"),
        }
        for name, (options, _) in begins.items():
            async with client.reader(LOG, cursor=name, **options):  # type: ignore[arg-type]
                pass
        await writer.append(b"new")
        for name, (_, first) in begins.items():
            async with client.reader(LOG, cursor=name, start="earliest") as reader:
                assert (await anext(reader)).payload == first
        assert [cursor.name for cursor in await client.cursors(LOG)] == sorted(begins)

    play(scene)


def test_a_cursor_is_not_created_above_the_tail() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        last = await writer.append(b"0")
        for above in (
            last._replace(entry_id=last.entry_id + 2),
            last._replace(ledger_id=last.ledger_id + 100),
        ):
            with pytest.raises(UnknownPositionError, match="is above the tail"):
                await client.reader(LOG, above, cursor="c").open()
            with pytest.raises(UnknownPositionError) as refused:
                await client.set_cursor(LOG, "c", above)
            assert (refused.value.requested, refused.value.last) == (above, last.ledger_id)
        assert await client.cursors(LOG) == []

    play(scene)


def test_every_position_is_above_a_log_without_ledgers() -> None:
    """Ledger 0 is no exception: it may be another log's, or no ledger."""

    async def scene(client: LogClient, writer: LogWriter) -> None:
        await client.create("empty")
        above = MessageId(0, 5, 0)
        with pytest.raises(UnknownPositionError, match=r"is no id of log default/empty, which is empty: use"):
            await client.set_cursor("empty", "c", above)
        with pytest.raises(ShrinkRefusedError, match="allowed now is 0:0:0, since later messages would be"):
            await client.shrink("empty", above)
        assert (await client.set_cursor("empty", "c", "0:0:0")).position == EARLIEST_ID

    play(scene)


def test_an_id_that_cannot_be_stored_moves_no_cursor() -> None:
    """Stored all the same, it would take the place of a cursor that can be read."""

    async def scene(client: LogClient, writer: LogWriter) -> None:
        first = await writer.append(b"0")
        await writer.rotate()
        last = await writer.append(b"1")
        await client.set_cursor(LOG, "c", last)
        for wrong in (
            first._replace(ledger_id=-1),
            last._replace(entry_id=-1),
            last._replace(batch_index=-1),
            first._replace(entry_id=2**63),
            first._replace(batch_index=2**31),
        ):
            with pytest.raises(ConfigurationError, match=f"message id {wrong} is out of range"):
                await client.set_cursor(LOG, "c", wrong)
            with pytest.raises(ConfigurationError, match="out of range"):
                await client.reader(LOG, wrong, cursor="new").open()
            with pytest.raises(ConfigurationError, match="out of range"):
                await client.shrink(LOG, wrong)
            async with client.reader(LOG, cursor="c", until="latest") as reader:
                message = await anext(reader)
                with pytest.raises(ConfigurationError, match="out of range"):
                    await reader.ack(message._replace(id=wrong))
        assert [(cursor.name, cursor.position) for cursor in await client.cursors(LOG)] == [("c", last)]

    play(scene)


@pytest.mark.parametrize("wrong", [0.0, 0.5, math.nan, True, "0", None], ids=repr)
@pytest.mark.parametrize("at", range(3))
def test_an_id_of_other_than_whole_numbers_is_refused_everywhere(at: int, wrong: Any) -> None:
    """Where it is used is too late: half an entry id passed for a position, and what cannot be compared raised that."""

    async def scene(client: LogClient, writer: LogWriter) -> None:
        numbers: list[Any] = list(await writer.append(b"0"))
        numbers[at] = wrong
        found = MessageId(*numbers)
        for call in (
            client.set_cursor(LOG, "c", found),
            client.shrink(LOG, found),
            client.resolve(LOG, found),
            client.explain(LOG, found),
            writer.append(b"1", expect_tail=found),
        ):
            with pytest.raises(ConfigurationError, match="a number of a message id must be a whole number"):
                await call
        for places in ({"start": found}, {"after": found}, {"until": found}):
            with pytest.raises(ConfigurationError, match="a number of a message id must be a whole number"):
                client.reader(LOG, **places)
        async with client.reader(LOG, cursor="c", until="latest") as reader:
            message = await anext(reader)
            with pytest.raises(ConfigurationError, match="a number of a message id must be a whole number"):
                await reader.ack(message._replace(id=found))
            assert await reader.poll(0) is None

    play(scene)


def test_no_message_as_the_position_of_a_cursor_is_the_earliest_message() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        first = await writer.append(b"0")
        async with client.reader(LOG, NO_MESSAGE, cursor="c") as reader:
            assert reader.position == first
            assert (await anext(reader)).payload == b"0"
            await reader.ack()
        assert (await client.set_cursor(LOG, "c", NO_MESSAGE)).position == first
        assert await taken(client, 1) == [b"0"]

    play(scene)


def test_after_the_highest_id_of_an_entry_comes_the_next_entry() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        first = await writer.append(b"0")
        await writer.append(b"1")
        highest = first._replace(batch_index=2**31 - 1)
        following = first._replace(entry_id=first.entry_id + 1)
        async with client.reader(LOG, after=highest, cursor="after") as reader:
            assert reader.position == following
        async with client.reader(LOG, cursor="acked", until="latest") as reader:
            assert (await anext(reader)).payload == b"0"
            await reader.ack(highest)
        assert [cursor.position for cursor in await client.cursors(LOG)] == [following, following]

    play(scene)


def test_a_cursor_that_is_ahead_of_its_log_is_reported() -> None:
    """As after the log's metadata was restored from a backup: messages with lower ids would be passed over."""

    async def scene(client: LogClient, writer: LogWriter) -> None:
        last = await writer.append(b"0")
        ahead = last._replace(ledger_id=last.ledger_id + 100)
        ref, cursors = (await client.describe(LOG)).ref, client.logs.cursors

        async def begin() -> MessageId:
            return ahead

        await cursors.take(ref, "c", begin)
        for until in (None, "latest"):
            with pytest.raises(
                UnknownPositionError,
                match="move the cursor to earliest with set_cursor or `dlog cursor set orders c earliest`",
            ):
                await anext(client.reader(LOG, cursor="c", until=until))
        assert (await cursors.read(ref, "c")).position == ahead
        await client.set_cursor(LOG, "c", "earliest")
        async with client.reader(LOG, cursor="c", until="latest") as reader:
            assert [message.id async for message in reader] == [last]

    play(scene)


def test_an_older_reader_stops_at_its_next_acknowledgement() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        await writer.append_many([b"0", b"1", b"2"])
        async with client.reader(LOG, cursor="c") as old:
            await anext(old)
            await old.ack()
            async with client.reader(LOG, cursor="c") as new:
                assert (await anext(new)).payload == b"1"
                await anext(old)
                with pytest.raises(CursorMovedError):
                    await old.ack()
                await new.ack()
                await anext(new)
            await client.set_cursor(LOG, "c", "earliest")
            with pytest.raises(CursorMovedError):
                await new.ack()
        assert await taken(client, 3) == [b"0", b"1", b"2"]

    play(scene)


def test_a_reader_that_opens_in_several_attempts_takes_its_cursor_once() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, await cluster.client() as other:
            writer = await client.open_writer(LOG, create=True)
            await writer.append_many([b"1", b"2", b"3"])
            for bookie in cluster.bookies:
                bookie.pause()
            older = client.reader(LOG, cursor="c", until="latest")
            opening = asyncio.create_task(older.open())
            await asyncio.sleep(1)  # it has taken the cursor, and cannot find the tail
            assert older.cursor is not None
            async with other.reader(LOG, cursor="c") as newer:
                await newer.ack(properties={"worker": "newer"})
                with pytest.raises(ReadError):
                    await opening
                await newer.ack(properties={"worker": "still the newer"})
                for bookie in cluster.bookies:
                    bookie.resume()
                await asyncio.sleep(30)
                async with older:  # another opening
                    assert older.cursor.properties == (("worker", "still the newer"),)
                    with pytest.raises(CursorMovedError):
                        await newer.ack(properties={"worker": "newer"})

    simulate(main)


def test_a_log_that_is_created_anew_during_an_opening_gets_its_cursor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        honest, outages = Places.find, [MetadataUnavailableError("no answer")]

        async def find(places: Places, where: Any, *, is_end: bool = False) -> MessageId:
            while is_end and outages:
                await client.delete(LOG)
                await client.create(LOG)
                raise outages.pop()
            return await honest(places, where, is_end=is_end)

        monkeypatch.setattr(Places, "find", find)
        async with client.reader(LOG, cursor="c", until="latest") as reader:
            await reader.ack(properties={"worker": "one"})
        assert [cursor.properties for cursor in await client.cursors(LOG)] == [(("worker", "one"),)]

    play(scene)


def test_a_cursor_is_set_by_id_and_by_time() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        ids, times = [], []
        for number in range(4):
            await asyncio.sleep(1)
            times.append(
                datetime.fromtimestamp(0, UTC) + timedelta(microseconds=client.ledgers.environment.wall_us())
            )
            ids.append(await writer.append(b"%d" % number))
        set_to = await client.set_cursor(LOG, "c", str(ids[2]), properties={"by": "hand"})
        assert (set_to.position, set_to.properties) == (ids[2], (("by", "hand"),))
        set_to = await client.set_cursor(LOG, "c", times[1])
        assert (set_to.position, set_to.properties) == (ids[1], (("by", "hand"),))
        assert (await client.cursor_lag(LOG, "c")).entries == 3
        assert await taken(client, 1) == [b"1"]
        assert (await client.set_cursor(LOG, "c", "latest")).position > ids[3]
        await client.delete_cursor(LOG, "c")
        with pytest.raises(CursorNotFoundError):
            await client.cursor_lag(LOG, "c")

    play(scene)


def test_the_lag_of_a_cursor_counts_what_all_ledgers_after_it_hold() -> None:
    """Messages one by one, bytes entry by entry; the last ledger is open and not empty."""

    async def scene(client: LogClient, writer: LogWriter) -> None:
        ids: list[MessageId] = []
        for number in range(5):
            if number:
                await writer.rotate()
            for _ in range(3):
                ids += await writer.append_many([b"0123456789"] * 4)
        await client.set_cursor(LOG, "c", "earliest")
        entry_bytes = ((await client.cursor_lag(LOG, "c")).bytes or 0) // 15
        assert entry_bytes > 40
        for number, message_id in enumerate(ids):
            await client.set_cursor(LOG, "c", message_id)
            passed = number // 4
            assert await client.cursor_lag(LOG, "c") == Lag(
                entries=15 - passed,
                ledgers=4 - passed // 3,
                messages=60 - number,
                bytes=(15 - passed) * entry_bytes,
            )
            async with client.reader(LOG, message_id) as reader:
                assert await reader.measure_lag() == await client.cursor_lag(LOG, "c")
        await client.set_cursor(LOG, "c", "latest")
        assert await client.cursor_lag(LOG, "c") == Lag(0, 0, 0, 0)

    play(scene)


def test_the_lag_behind_what_was_trimmed_is_that_of_the_earliest_message() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        ids = await writer.append_many([b"0", b"1", b"2", b"3"])
        await client.set_cursor(LOG, "c", ids[0])
        await client.shrink(LOG, ids[3])
        lag = await client.cursor_lag(LOG, "c")
        assert (lag.entries, lag.messages) == (1, 1)

    play(scene)


@pytest.mark.parametrize(("namespace", "option"), [("default", ""), ("shop", " --namespace shop")])
def test_the_advice_after_a_trim_names_the_namespace(namespace: str, option: str) -> None:
    """Without it the command would set a cursor of another log."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(namespace=namespace) as client:
            async with client.open_writer(LOG, create=True) as writer:
                ids = [await writer.append(b"%d" % number) for number in range(2)]
            await client.set_cursor(LOG, "c", ids[0])
            await client.shrink(LOG, ids[1])
            with pytest.raises(TrimmedError, match=f"`dlog cursor set {LOG} c {ids[1]}{option}`"):
                await anext(client.reader(LOG, cursor="c"))

    simulate(main)


def test_what_was_trimmed_before_it_was_acknowledged_is_reported() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        ids = [await writer.append(b"%d" % number) for number in range(4)]
        assert await taken(client, 1) == [b"0"]
        await client.shrink(LOG, ids[2])
        with pytest.raises(TrimmedError) as trimmed:
            await taken(client, 1)
        assert (trimmed.value.requested, trimmed.value.earliest) == (ids[1], ids[2])
        assert await taken(client, 1, on_trimmed="skip") == [b"2"]
        async with client.reader(LOG, cursor="new") as reader:
            assert (await anext(reader)).payload == b"2"
            assert reader.cursor is not None
            assert reader.cursor.position == ids[2]

    play(scene)


def test_acknowledging_needs_a_cursor_and_an_open_reader() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        await writer.append(b"0")
        async with client.reader(LOG) as reader:
            assert reader.cursor is None
            with pytest.raises(ConfigurationError, match="pass cursor=… when opening it"):
                await reader.ack()
        with pytest.raises(ConfigurationError, match="open it first"):
            await client.reader(LOG, cursor="c").ack()
        for wrong in ("", "a/b", "..", "x" * 201):
            with pytest.raises(InvalidNameError):
                client.reader(LOG, cursor=wrong)
            with pytest.raises(InvalidNameError):
                await client.set_cursor(LOG, wrong, "earliest")
            with pytest.raises(InvalidNameError):
                await client.delete_cursor(LOG, wrong)
        with pytest.raises(LogNotFoundError):
            await client.cursors("absent")

    play(scene)


def test_the_cursors_of_a_deleted_log_are_gone() -> None:
    async def scene(client: LogClient, writer: LogWriter) -> None:
        await writer.append(b"0")
        async with client.reader(LOG, cursor="c") as reader:
            await anext(reader)
            assert await client.delete(LOG)
            with pytest.raises(CursorNotFoundError):
                await reader.ack()
        await client.create(LOG)
        assert await client.cursors(LOG) == []

    play(scene)


def test_a_reader_that_finds_its_log_deleted_leaves_no_cursor() -> None:
    """The log is deleted after the reader has found it, and before the cursor is created."""

    async def scene(client: LogClient, writer: LogWriter) -> None:
        await writer.append(b"0")
        ref = await client.logs.find(client.name(LOG))
        take = client.logs.cursors.take

        async def take_late(*arguments: Any) -> Any:
            taken = await take(*arguments)
            await client.logs.end_name(ref)
            await client.logs.remove_record(ref)
            await take(*arguments)  # as if it had been created only now
            return taken

        client.logs.cursors.take = take_late  # type: ignore[method-assign]
        with pytest.raises(LogNotFoundError):
            await client.reader(LOG, cursor="c").open()
        assert await client.logs.cursors.all(ref) == []

    play(scene)


@pytest.mark.parametrize("together", [False, True])
def test_an_older_acknowledgement_does_not_bring_its_properties(together: bool) -> None:
    """As of workers that end out of order: what is stored with a position belongs to it."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer(LOG, create=True) as writer:
                ids = [await writer.append(b"%d" % number) for number in range(3)]
            async with client.reader(LOG, cursor="c", until="latest") as reader:
                assert len([message async for message in reader]) == 3
                acks = [reader.ack(ids[at], properties={"at": str(at)}) for at in (2, 0)]
                if together:
                    await asyncio.gather(*acks)
                else:
                    for ack in acks:
                        await ack
            [cursor] = await client.cursors(LOG)
            assert cursor.properties == (("at", "2"),)

    simulate(main)
