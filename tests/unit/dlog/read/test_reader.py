"""The reader over real log records and ledgers that a test moves by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
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
from dlog.model import LogState, Message, MessageId
from dlog.read.batch import MessageBatch
from dlog.read.config import ReaderConfig
from dlog.read.range import Place, ReadRange, read_range
from dlog.read.reader import Lag, Reader
from ledger.errors import ConfigurationError, ReadError
from tests.helpers.log.memory_ledgers import MemoryLog, poll

Scene = Callable[[MemoryLog], Coroutine[Any, Any, None]]


def play(request: pytest.FixtureRequest, scene: Scene) -> None:
    async def run() -> None:
        async with asyncio.timeout(20):
            await scene(await MemoryLog.create(request.node.name))

    asyncio.run(run())


async def payloads(reader: Reader, count: int | None = None) -> list[bytes | None]:
    found: list[bytes | None] = []
    if count == 0:
        return found
    async for message in reader:
        found.append(message.payload)
        if len(found) == count:
            break
    return found


UNTIL_LATEST = ReadRange(until=Place.LATEST)


async def two_ledgers(log: MemoryLog) -> None:
    log.add_ledger(3, (b"a", b"b"), (b"c",), sealed=True)
    log.add_ledger(5, (b"d",), (b"e", b"f"))
    await log.record(3, 5, seals={3: 1})


# ---- ranges


def test_a_log_is_read_in_order_across_ledgers(request: pytest.FixtureRequest) -> None:
    """Ids rise and say where each message is; handles are closed at the end."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        async with log.reader(UNTIL_LATEST) as reader:
            found = [(message.payload, str(message.id)) async for message in reader]
        assert found == [
            (b"a", "3:0:0"),
            (b"b", "3:0:1"),
            (b"c", "3:1:0"),
            (b"d", "5:0:0"),
            (b"e", "5:1:0"),
            (b"f", "5:1:1"),
        ]
        assert log.ledgers.open_handles == 0

    play(request, scene)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"start": "3:0:1", "until": "5:1:1"}, [b"b", b"c", b"d", b"e"]),
        ({"after": "3:0:1", "until": "latest"}, [b"c", b"d", b"e", b"f"]),
        ({"after": "3:0:0", "until": "3:1:0"}, [b"b"]),
        ({"start": "3:0:7", "until": "5:0:0"}, [b"c"]),
        ({"start": "3:9:0", "until": "5:0:9"}, [b"d"]),
        ({"start": "5:1:0", "until": "5:0:0"}, []),
        ({"start": "latest", "until": "latest"}, []),
        ({"last": 1, "until": "latest"}, [b"f"]),
        ({"last": 3, "until": "latest"}, [b"d", b"e", b"f"]),
        ({"last": 5, "until": "latest"}, [b"b", b"c", b"d", b"e", b"f"]),
        ({"last": 99, "until": "latest"}, [b"a", b"b", b"c", b"d", b"e", b"f"]),
    ],
)
def test_ranges(request: pytest.FixtureRequest, said: dict[str, Any], expected: list[bytes]) -> None:
    """start is inclusive, after and until are not; an id need not exist; last counts back from the tail."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        async with log.reader(read_range(**said)) as reader:
            assert await payloads(reader) == expected

    play(request, scene)


def test_ranges_are_checked() -> None:
    """One beginning, ids that parse, counts above zero."""
    with pytest.raises(ConfigurationError, match="one of start, after and last"):
        read_range(start="earliest", last=3)
    with pytest.raises(ConfigurationError, match="at least 1"):
        read_range(last=0)
    with pytest.raises(ConfigurationError, match="17:420:3"):
        read_range(start="nonsense")
    with pytest.raises(ConfigurationError, match="use start='latest'"):
        read_range(after="latest")


def test_last_respects_the_trim_mark(request: pytest.FixtureRequest) -> None:
    """What is trimmed is not counted among the last."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        await log.record(3, 5, seals={3: 1}, trim_before=MessageId(3, 1, 0))
        async with log.reader(read_range(last=99, until="latest")) as reader:
            assert await payloads(reader) == [b"c", b"d", b"e", b"f"]

    play(request, scene)


def test_the_frozen_tail_lies_in_the_first_unsealed_ledger(request: pytest.FixtureRequest) -> None:
    """Between rotation and seal the reader neither waits for the seal nor reads the successor."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",))
        log.add_ledger(5, (b"not acknowledged yet",))
        await log.record(3, 5)
        async with log.reader(UNTIL_LATEST) as reader:
            assert await payloads(reader) == [b"a"]

    play(request, scene)


# ---- tailing


def test_a_tailing_reader_waits_and_delivers(request: pytest.FixtureRequest) -> None:
    """It says why it waits, knows that it is at the tail, and goes on in the next ledger once this one is sealed."""

    async def scene(log: MemoryLog) -> None:
        first = log.add_ledger(3, (b"a",))
        await log.record(3)
        async with log.reader() as reader:
            assert await payloads(reader, 1) == [b"a"]
            waiting = asyncio.create_task(payloads(reader, 1))
            await poll(lambda: reader.waits_for is not None and reader.at_tail)
            assert reader.waits_for == "ledger 3 is read up to its last confirmed entry 0"
            assert reader.lag == Lag(0, 0)
            first.append(b"b")
            assert await waiting == [b"b"]

            second = log.add_ledger(4)
            await log.record(3, 4)
            waiting = asyncio.create_task(payloads(reader, 1))
            second.append(b"c")
            await poll(
                lambda: reader.waits_for is not None and "ledger 4 may not be read" in reader.waits_for
            )
            assert not reader.at_tail
            first.seal()
            assert await waiting == [b"c"]
            assert str(reader.position) == "4:1:0"

    play(request, scene)


def test_a_cancelled_wait_loses_nothing(request: pytest.FixtureRequest) -> None:
    """The next call goes on where the cancelled one was."""

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3)
        await log.record(3)
        async with log.reader() as reader:
            for number in range(5):
                waiting = asyncio.create_task(payloads(reader, 1))
                await poll(lambda: reader.at_tail)
                waiting.cancel()
                ledger.append(b"%d" % number)
            assert await payloads(reader, 5) == [b"0", b"1", b"2", b"3", b"4"]

    play(request, scene)


def test_the_slow_poll_replaces_lost_watches(request: pytest.FixtureRequest) -> None:
    """A seal and a successor that nobody announces are found all the same."""

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a",))
        await log.record(3)
        log.logs.watch = lambda ref, watch: lambda: None  # type: ignore[method-assign]  # a watch that never fires
        async with log.reader(config=ReaderConfig(first_poll_s=0.01, slow_poll_s=0.05)) as reader:
            assert await payloads(reader, 1) == [b"a"]
            await poll(lambda: reader.at_tail)
            ledger.sealed = True
            log.add_ledger(4, (b"b",))
            await log.record(3, 4)
            assert await payloads(reader, 1) == [b"b"]

    play(request, scene)


def test_the_end_of_a_sealed_log_ends_the_iteration(request: pytest.FixtureRequest) -> None:
    """Also without `until`."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), sealed=True)
        await log.record(3, seals={3: 0}, state=LogState.SEALED)
        async with log.reader() as reader:
            assert await payloads(reader) == [b"a"]

    play(request, scene)


def test_an_empty_log_waits_or_ends(request: pytest.FixtureRequest) -> None:
    """Created and never written: until latest is empty, a tail waits for the first message."""

    async def scene(log: MemoryLog) -> None:
        async with log.reader(UNTIL_LATEST) as reader:
            assert await payloads(reader) == []
        async with log.reader() as reader:
            waiting = asyncio.create_task(payloads(reader, 1))
            await poll(lambda: reader.waits_for is not None)
            assert "nobody has opened it for writing" in (reader.waits_for or "")
            log.add_ledger(7, (b"first",))
            await log.record(7)
            assert await waiting == [b"first"]

    play(request, scene)


# ---- position


def test_a_reader_started_at_the_position_of_another_goes_on_exactly_there(
    request: pytest.FixtureRequest,
) -> None:
    """After every message, in the middle of a batch and at its end."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        everything = [b"a", b"b", b"c", b"d", b"e", b"f"]
        for count in range(7):
            async with log.reader(UNTIL_LATEST) as reader:
                assert await payloads(reader, count) == everything[:count]
            async with log.reader(ReadRange(start=reader.position, until=Place.LATEST)) as reader:
                assert await payloads(reader) == everything[count:]

    play(request, scene)


def test_batches_come_in_columns(request: pytest.FixtureRequest) -> None:
    """One per entry, clipped where start and until lie inside."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        async with log.reader(read_range(start="3:0:1", until="5:1:1")) as reader:
            found = [(str(batch.first_id), list(batch.payloads)) async for batch in reader.batches()]
            assert found == [("3:0:1", [b"b"]), ("3:1:0", [b"c"]), ("5:0:0", [b"d"]), ("5:1:0", [b"e"])]
            assert str(reader.position) == "5:1:1"

    play(request, scene)


# ---- memory


def test_read_ahead_is_bounded_by_bytes(request: pytest.FixtureRequest) -> None:
    """A consumer that does not read stops the fetching; nothing is lost."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, *[(b"%04d" % number * 250,) for number in range(100)])
        await log.record(3)
        async with log.reader(
            UNTIL_LATEST, config=ReaderConfig(read_ahead_bytes=5000, fetch_bytes=2000)
        ) as reader:
            assert await payloads(reader, 1) == [b"0000" * 250]
            for _ in range(200):
                await asyncio.sleep(0)
            assert log.ledgers.reads <= 8
            assert len(await payloads(reader)) == 99

    play(request, scene)


# ---- what cannot be read


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


def test_lag_counts_what_is_known(request: pytest.FixtureRequest) -> None:
    """Entries of this ledger not yet returned, and listed ledgers behind it."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), (b"b",), (b"c",), sealed=True)
        log.add_ledger(4, (b"d",))
        await log.record(3, 4, seals={3: 2})
        async with log.reader(UNTIL_LATEST, config=ReaderConfig(read_ahead_bytes=1, fetch_bytes=1)) as reader:
            assert reader.lag == Lag(0, 0)
            await payloads(reader, 1)
            assert reader.lag == Lag(entries=2, ledgers=1)
            await payloads(reader)
            assert reader.lag == Lag(0, 0)

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
