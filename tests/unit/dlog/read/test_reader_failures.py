"""What a reader does about messages it cannot return, and how it ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from dlog.core.tailing import Gap, GapReason
from dlog.errors import (
    DataLossError,
    EntryFormatError,
    LogNotFoundError,
    TrimmedError,
    UnknownPositionError,
)
from dlog.format.entry import Codec
from dlog.model import LogState, Message, MessageId
from dlog.read import reader as reader_module
from dlog.read.backlog import Lag
from dlog.read.batch import MessageBatch, decode_batch
from dlog.read.config import ReaderConfig
from dlog.read.range import ReadRange, read_range
from dlog.read.reader import Reader
from ledger.errors import ConfigurationError, MissingExtraError, ReadError
from tests.helpers.log.memory_ledgers import MemoryLog, entry_of, poll
from tests.helpers.log.reading import UNTIL_LATEST, payloads, play, two_ledgers


def test_trimmed_and_unknown_positions_fail(request: pytest.FixtureRequest) -> None:
    """Errors come out of the iteration."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        await log.record(5, trim_before=MessageId(5, 0, 0))
        with pytest.raises(TrimmedError):
            await payloads(log.reader(read_range(start="3:0:0")))
        with pytest.raises(UnknownPositionError):
            await payloads(log.reader(read_range(start="9:0:0")))

    play(request, scene)


@pytest.mark.parametrize("lost", [False, True])
def test_a_range_that_ends_in_the_last_ledger_ends_without_another(
    request: pytest.FixtureRequest, lost: bool
) -> None:
    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), sealed=True)
        if lost:
            await log.record(3, 5, seals={3: 0, 5: 4})
        else:
            await log.record(3, seals={3: 0})
        wanted = UNTIL_LATEST if lost else read_range(until="3:7:0")
        async with log.reader(wanted, on_data_loss="gap") as reader:
            found = await collect(reader.items())
        assert found[0].payload == b"a"
        gap = Gap(MessageId(5, 0, 0), MessageId(6, 0, 0), GapReason.DATA_LOSS)
        assert found[1:] == ([gap] if lost else [])
        assert reader.ended

    play(request, scene)


def test_a_reader_continues_at_the_position_after_a_gap_up_to_the_end(
    request: pytest.FixtureRequest,
) -> None:
    """With its cursor, a new one or none, before the next ledger is listed."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), sealed=True)
        await log.record(3, 5, seals={3: 0, 5: 4})
        async with log.reader(on_data_loss="gap", cursor="c") as reader:
            items = reader.items()
            await anext(items)
            assert isinstance(await anext(items), Gap)
            await reader.ack()
            after = reader.position
        assert after == MessageId(6, 0, 0)
        for wanted, cursor in (({}, "c"), ({"start": after}, "new"), ({"start": after}, None)):
            options = {} if cursor is None else {"cursor": cursor}
            async with log.reader(read_range(**wanted), **options) as reader:
                assert await reader.poll(0.05) is None
                assert reader.position == after
        log.add_ledger(8, (b"b",))
        await log.record(3, 5, 8, seals={3: 0, 5: 4})
        assert await payloads(log.reader(cursor="c"), 1) == [b"b"]

    play(request, scene)


async def collect(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def test_gaps_are_returned_if_asked(request: pytest.FixtureRequest) -> None:
    """A trimmed start, a lost entry and a lost ledger, each with its bounds."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), (b"b",), (b"c",), sealed=True).entries[1] = None
        log.add_ledger(6, (b"d",))
        await log.record(3, 5, 6, seals={3: 2, 5: 0}, trim_before=MessageId(3, 0, 0))
        reader = log.reader(read_range(start="1:0:0", until="latest"), on_trimmed="gap", on_data_loss="gap")
        async with reader:
            found = await collect(reader.items())
        at = MessageId
        assert [item if isinstance(item, Gap) else item.payload for item in found] == [
            Gap(at(1, 0, 0), at(3, 0, 0), GapReason.TRIMMED),
            b"a",
            Gap(at(3, 1, 0), at(3, 2, 0), GapReason.DATA_LOSS),
            b"c",
            Gap(at(5, 0, 0), at(6, 0, 0), GapReason.DATA_LOSS),
            b"d",
        ]
        with pytest.raises(ConfigurationError, match="items"):
            aiter(reader)
        with pytest.raises(DataLossError, match="3:1:0"):
            await payloads(log.reader(read_range(start="3:0:0", until="latest")))
        await log.record(3, 5, seals={3: 2})
        with pytest.raises(DataLossError, match="cannot determine the end of log default/orders"):
            await payloads(log.reader(UNTIL_LATEST))

    play(request, scene)


def test_batches_begin_with_the_rest_of_one_that_was_begun(request: pytest.FixtureRequest) -> None:
    """Message by message, then in batches, then by items(): each comes once."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"0", b"1", b"2"), (b"3", b"4", b"5"), (b"6",))
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            assert await payloads(reader, 1) == [b"0"]
            async for batch in reader.batches():
                assert (str(batch.first_id), list(batch.payloads)) == ("3:0:1", [b"1", b"2"])
                break
            assert str(reader.position) == "3:1:0"
            async for item in reader.items():
                assert isinstance(item, Message) and item.payload == b"3"
                break
            assert str(reader.position) == "3:1:1"
            assert await payloads(reader) == [b"4", b"5", b"6"]

    play(request, scene)


def test_policies_are_checked(request: pytest.FixtureRequest) -> None:
    """Data loss is never skipped in silence."""

    async def scene(log: MemoryLog) -> None:
        with pytest.raises(ConfigurationError, match="on_data_loss must be one of fail, gap, got 'skip'"):
            log.reader(on_data_loss="skip")

    play(request, scene)


def test_a_damaged_entry_names_its_place(request: pytest.FixtureRequest) -> None:
    """What came before it is delivered; what comes behind it is not reached by asking again."""

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a",))
        ledger.entries.append(b"\x00garbage")
        ledger.append(b"c")
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            assert await payloads(reader, 1) == [b"a"]
            for _ in range(2):
                with pytest.raises(EntryFormatError, match="entry 1 of ledger 3, log default/orders"):
                    await payloads(reader)
            assert str(reader.position) == "3:1:0"
        async with log.reader(UNTIL_LATEST) as reader:
            ((batch, after),) = await reader.next_items(10)
            assert isinstance(batch, MessageBatch) and list(batch.payloads) == [b"a"]
            assert str(after) == "3:1:0"
            with pytest.raises(EntryFormatError):
                await reader.next_items(10)

    play(request, scene)


async def _of_a_poll(reader: Reader) -> list[bytes | None]:
    message = await reader.poll(5)
    return [] if message is None else [message.payload]


async def _of_a_batch(reader: Reader) -> list[bytes | None]:
    return [payload async for batch in reader.batches() for payload in batch.payloads]


async def _of_items(reader: Reader) -> list[bytes | None]:
    items = await reader.next_items(10)
    return [payload for batch, _ in items if isinstance(batch, MessageBatch) for payload in batch.payloads]


@pytest.mark.parametrize("read", [payloads, _of_a_poll, _of_a_batch, _of_items])
def test_an_entry_whose_codec_is_missing_is_not_skipped(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[Reader], Awaitable[list[bytes | None]]],
) -> None:
    """Each call raises. A reader that is given the package goes on with this entry."""
    pytest.importorskip("zstandard")

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a",))
        ledger.entries.append(entry_of(bytes(5000), codec=Codec.ZSTD))
        ledger.append(b"c")
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            assert await payloads(reader, 1) == [b"a"]
            with monkeypatch.context() as context:
                context.setitem(sys.modules, "zstandard", None)
                for _ in range(3):
                    with pytest.raises(MissingExtraError, match="codec zstd"):
                        await read(reader)
                    assert reader.position == MessageId(3, 1, 0)
            assert await payloads(reader) == [bytes(5000), b"c"]

    play(request, scene)


@pytest.mark.parametrize(
    "error", [MissingExtraError("codec zstd", "zstandard", "compression"), MemoryError()]
)
def test_what_comes_before_an_entry_that_cannot_be_decoded_is_returned(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def decode(ledger_id: int, entry_id: int, payload: memoryview) -> tuple[MessageBatch, int]:
        if entry_id == 2:
            raise error
        return decode_batch(ledger_id, entry_id, payload)

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), (b"b",), (b"c",), (b"d",))
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            monkeypatch.setattr(reader_module, "decode_batch", decode)
            assert await _of_items(reader) == [b"a", b"b"]
            with pytest.raises(type(error)):
                await reader.next_items(10)
            monkeypatch.undo()
            assert await _of_items(reader) == [b"c", b"d"]

    play(request, scene)


def test_a_reader_before_a_damaged_entry_is_not_at_the_tail(request: pytest.FixtureRequest) -> None:
    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a",))
        ledger.entries.append(b"\x00garbage")
        ledger.confirm()
        await log.record(3)
        async with log.reader() as reader:
            assert await payloads(reader, 1) == [b"a"]
            with pytest.raises(EntryFormatError):
                await anext(reader)
            await poll(lambda: reader.waits_for is not None)
            assert not reader.at_tail
            assert reader.lag == Lag(entries=1, ledgers=0)

    play(request, scene)


def test_items_come_several_at_a_time(request: pytest.FixtureRequest) -> None:
    """As many as are fetched already, up to the limit; none at the end."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, *[(b"%d" % number,) for number in range(10)])
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            sizes = []
            while items := await reader.next_items(4):
                sizes.append(len(items))
            assert sizes == [4, 4, 2]

    play(request, scene)


def test_a_deleted_log_raises(request: pytest.FixtureRequest) -> None:
    """While it waits, too; and a log that never was."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",))
        await log.record(3)
        async with log.reader() as reader:
            assert await payloads(reader, 1) == [b"a"]
            await log.record(3, state=LogState.DELETING)
            with pytest.raises(LogNotFoundError):
                await payloads(reader)

    play(request, scene)


def test_bookies_that_are_away_are_waited_for(request: pytest.FixtureRequest) -> None:
    """A short outage goes unnoticed, a long one raises what the bookies last said."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        log.ledgers.failures = [ReadError("bookies are away") for _ in range(4)]
        async with log.reader(read_range(start="earliest", until="3:1:0")) as reader:
            assert await payloads(reader) == [b"a", b"b"]
        log.ledgers.failures = [ReadError("bookies are away") for _ in range(1000)]
        config = ReaderConfig(unavailable_timeout_s=0.1)
        async with log.reader(read_range(start="earliest", until="3:1:0"), config=config) as reader:
            with pytest.raises(ReadError, match="away"):
                await payloads(reader)

    play(request, scene)


def test_a_busy_log_does_not_keep_a_reader_waiting_indefinitely(request: pytest.FixtureRequest) -> None:
    """The bookies of its ledger are away while the log rotates on others: each look at the record succeeds."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        log.ledgers.failures = [ReadError("bookies are away") for _ in range(100_000)]
        config = ReaderConfig(unavailable_timeout_s=0.3)

        async def rotate() -> None:
            for ledger_id in range(6, 1000):
                log.add_ledger(ledger_id, (b"x",), sealed=True)
                await log.record(3, 5, ledger_id, seals={3: 1})
                await asyncio.sleep(0.02)

        rotating = asyncio.create_task(rotate())
        async with log.reader(read_range(start="earliest", until="3:1:0"), config=config) as reader:
            with pytest.raises(ReadError, match="away"):
                async with asyncio.timeout(5):
                    await payloads(reader)
        rotating.cancel()

    play(request, scene)


def test_one_failure_after_a_long_wait_at_the_tail_is_no_outage(request: pytest.FixtureRequest) -> None:
    """What failed before and was gone round does not count against what fails much later."""

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a",))
        await log.record(3)
        config = ReaderConfig(unavailable_timeout_s=0.2)
        until = read_range(start="earliest", until="3:2:0")
        async with log.reader(until, config=config) as reader:
            log.ledgers.failures = [ReadError("away")]
            assert await payloads(reader, 1) == [b"a"]
            await asyncio.sleep(0.4)
            log.ledgers.failures = [ReadError("away")]
            ledger.append(b"b")
            assert await payloads(reader, 1) == [b"b"]

    play(request, scene)


def test_a_tail_that_has_worked_waits_as_long_as_it_takes(request: pytest.FixtureRequest) -> None:
    """It says for what; one that never worked gives up."""

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a",))
        await log.record(3)
        config = ReaderConfig(unavailable_timeout_s=0.05)
        async with log.reader(config=config) as reader:
            assert await payloads(reader, 1) == [b"a"]
            log.ledgers.failures = [ReadError("bookies are away") for _ in range(1000)]
            ledger.append(b"b")
            await poll(lambda: reader.waits_for == "bookies are away")
            await asyncio.sleep(0.2)
            log.ledgers.failures.clear()
            assert await payloads(reader, 1) == [b"b"]
        log.ledgers.failures = [ReadError("bookies are away") for _ in range(1000)]
        async with log.reader(config=config) as reader:
            with pytest.raises(ReadError):
                await payloads(reader, 1)

    play(request, scene)


def test_closing_ends_a_wait_elsewhere(request: pytest.FixtureRequest) -> None:
    """The other task's iteration ends; it was not cancelled."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",))
        await log.record(3)
        reader = log.reader()
        reading = asyncio.create_task(payloads(reader))
        await poll(lambda: reader.at_tail)
        await reader.close()
        assert await reading == [b"a"]

    play(request, scene)


def test_a_bounded_reader_that_is_closed_elsewhere_does_not_seem_to_be_at_its_end(
    request: pytest.FixtureRequest,
) -> None:
    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",))
        await log.record(3)
        reader = log.reader(ReadRange(until=MessageId(3, 5, 0)))
        reading = asyncio.create_task(payloads(reader))
        await poll(lambda: reader.at_tail)
        await reader.close()
        with pytest.raises(ConfigurationError, match="closed"):
            await reading
        assert not reader.ended

    play(request, scene)


def test_lag_counts_what_is_known(request: pytest.FixtureRequest) -> None:
    """Entries of this ledger not yet returned, and listed ledgers after it; before the reader opens, nothing."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), (b"b",), (b"c",), sealed=True)
        log.add_ledger(4, (b"d",))
        await log.record(3, 4, seals={3: 2})
        reader = log.reader(UNTIL_LATEST, config=ReaderConfig(read_ahead_bytes=1, fetch_bytes=1))
        assert reader.lag == Lag(0, 0, messages=None, bytes=None)
        async with reader:
            await poll(lambda: reader.lag == Lag(entries=3, ledgers=2))
            await payloads(reader, 1)
            assert reader.lag == Lag(entries=2, ledgers=1)
            await payloads(reader)
            assert reader.lag == Lag(0, 0, 0, 0)

    play(request, scene)


def test_lag_counts_what_was_read_ahead_in_later_ledgers(request: pytest.FixtureRequest) -> None:
    """From what was returned on, though the fetching is at the last ledger long before."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, *[(b"%d" % number,) for number in range(6)], sealed=True)
        log.add_ledger(4, (b"6", b"7"), (b"8",), sealed=True)
        log.add_ledger(5, (b"9",))
        await log.record(3, 4, 5, seals={3: 5, 4: 1})
        async with log.reader() as reader:
            await anext(reader)
            await poll(lambda: reader.lag.entries == 8)
            known = [reader.lag]
            for _ in range(9):
                await anext(reader)
                known.append(reader.lag)
        assert known == [
            *(Lag(entries, 2) for entries in (8, 7, 6, 5, 4, 3)),
            *(Lag(entries, 1) for entries in (3, 2, 1)),
            Lag(0, 0, 0, 0),
        ]

    play(request, scene)


def test_a_closed_reader_reports_it(request: pytest.FixtureRequest) -> None:
    """Its position stays."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        reader = log.reader(UNTIL_LATEST)
        assert await payloads(reader, 2) == [b"a", b"b"]
        await reader.close()
        await reader.close()
        assert str(reader.position) == "3:1:0"
        with pytest.raises(ConfigurationError, match="is closed"):
            await reader.open()

    play(request, scene)


def test_a_dropped_reader_stops_fetching(request: pytest.FixtureRequest) -> None:
    """Whoever leaves the loop early need not close."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",))
        await log.record(3)
        assert await payloads(log.reader(), 1) == [b"a"]
        await poll(lambda: log.ledgers.open_handles == 0)

    play(request, scene)
