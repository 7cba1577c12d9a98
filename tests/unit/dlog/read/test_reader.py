"""The reader over real log records and ledgers that a test moves by hand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dlog.errors import DataLossError
from dlog.model import NO_MESSAGE, LogState, MessageId
from dlog.read.backlog import Lag
from dlog.read.config import ReaderConfig
from dlog.read.range import Place, ReadRange, read_range
from ledger.errors import ConfigurationError, InvalidNameError, ReadError
from tests.helpers.log.memory_ledgers import MemoryHandle, MemoryLog, poll
from tests.helpers.log.reading import UNTIL_LATEST, payloads, play, two_ledgers

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
        ({"start": "5:1:0", "until": "5:0:9"}, []),
        ({"start": "latest", "until": "latest"}, []),
        ({"start": NO_MESSAGE, "until": "3:0:1"}, [b"a"]),
        ({"after": NO_MESSAGE, "until": "3:0:1"}, [b"a"]),
        ({"after": "3:0:2147483647", "until": "5:0:0"}, [b"c"]),
        ({"after": f"3:{2**63 - 1}:{2**31 - 1}", "until": "5:1:0"}, [b"d"]),
        ({"until": NO_MESSAGE}, []),
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
    for name in ("start", "until"):
        with pytest.raises(
            InvalidNameError, match=r"'nonsense' is no position: .* 17:420:3, earliest, latest, or a time"
        ):
            read_range(**{name: "nonsense"})
    with pytest.raises(InvalidNameError, match="message id 'nonsense' is not valid"):
        read_range(after="nonsense")
    with pytest.raises(ConfigurationError, match="use start='latest'"):
        read_range(after="latest")
    with pytest.raises(ConfigurationError, match=r"a position must be .* datetime"):
        read_range(start=0)  # type: ignore[arg-type]
    for name in ("start", "after", "until"):
        with pytest.raises(ConfigurationError, match="message id 3:-1:0 is out of range"):
            read_range(**{name: MessageId(3, -1, 0)})


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "said",
    [
        {"start": "5:0:0", "until": "3:9:9"},
        {"start": "5:2:0", "until": "5:1:0"},
        {"start": "5:2:1", "until": "5:1:9"},
        {"start": "5:2:0", "until": "5:0:9"},
        {"start": "5:2:0", "until": "4:1:9"},
        {"start": "5:2:1", "until": "5:2:0"},
        {"after": "5:2:1", "until": "5:2:0"},
        {"start": "5:0:0", "until": "earliest"},
        {"after": "5:0:0", "until": "earliest"},
        {"start": "latest", "until": "earliest"},
        {"start": NOON, "until": "earliest"},
        {"start": NOON, "until": NOON - timedelta(microseconds=1)},
    ],
    ids=str,
)
def test_a_range_that_ends_before_it_begins_is_refused(said: dict[str, Any]) -> None:
    """As by `dlog read`: an empty result would look as if there were no messages."""
    with pytest.raises(ConfigurationError, match=r"until=.* is before .*: nothing is between them"):
        read_range(**said)


@pytest.mark.parametrize(
    "said",
    [
        {"start": "5:2:1", "until": "5:2:1"},
        {"after": "5:2:1", "until": "5:2:1"},
        {"start": "5:2:0", "until": "5:1:9"},
        {"start": NOON, "until": NOON},
        {"start": NOON, "until": "5:0:0"},
        {"start": "latest", "until": "3:0:0"},
        {"start": "earliest", "until": "earliest"},
        {"until": "earliest"},
        {"after": NO_MESSAGE, "until": "earliest"},
        {"last": 3, "until": "3:0:0"},
        {"last": 3, "until": "earliest"},
    ],
    ids=str,
)
def test_a_range_that_may_be_empty_is_not_refused(said: dict[str, Any]) -> None:
    assert read_range(**said).until is not None


def test_last_respects_the_trim_mark(request: pytest.FixtureRequest) -> None:
    """What is trimmed is not counted among the last."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        await log.record(3, 5, seals={3: 1}, trim_before=MessageId(3, 1, 0))
        async with log.reader(read_range(last=99, until="latest")) as reader:
            assert await payloads(reader) == [b"c", b"d", b"e", b"f"]

    play(request, scene)


def test_last_looks_again_when_a_ledger_is_trimmed_and_deleted_under_it(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        honest = log.ledgers.open

        async def open_ledger(ledger_id: int, password: bytes = b"") -> MemoryHandle:
            if ledger_id == 3 and log.ledgers.ledgers.pop(3, None) is not None:
                await log.record(5, trim_before=MessageId(5, 0, 0))
            return await honest(ledger_id, password)

        monkeypatch.setattr(log.ledgers, "open", open_ledger)
        async with log.reader(read_range(last=99, until="latest")) as reader:
            assert await payloads(reader) == [b"d", b"e", b"f"]
        assert 3 not in log.ledgers.ledgers

    play(request, scene)


@pytest.mark.parametrize("lost", ["ledger", "entry"])
def test_last_reports_what_is_lost(request: pytest.FixtureRequest, lost: str) -> None:
    """The record lists the ledger before and after, so it was not trimmed."""

    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        if lost == "ledger":
            del log.ledgers.ledgers[3]
        else:
            log.ledgers.ledgers[3].entries[0] = None
        with pytest.raises(
            DataLossError, match="cannot determine the last 99 messages of log default/orders"
        ):
            async with log.reader(read_range(last=99, until="latest")) as reader:
                await payloads(reader)

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


@pytest.mark.parametrize(
    ("said", "expected"),
    [({"last": 3, "until": "latest"}, [b"b", b"c", b"d"]), ({"until": "latest"}, [b"a", b"b", b"c", b"d"])],
)
def test_what_is_below_the_tail_is_read_where_bookies_lag(
    request: pytest.FixtureRequest, said: dict[str, Any], expected: list[bytes]
) -> None:
    """Only the handle that found the tail saw the newest LAC: those opened next ask bookies that do not know it."""

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a",), (b"b",), (b"c",), (b"d",))
        ledger.shown = [3, 1, *[1] * 99]
        await log.record(3)
        async with log.reader(read_range(**said)) as reader:
            assert await payloads(reader) == expected

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
            assert reader.lag == Lag(0, 0, 0, 0)
            first.append(b"b")
            assert await waiting == [b"b"]

            second = log.add_ledger(4)
            await log.record(3, 4)
            waiting = asyncio.create_task(payloads(reader, 1))
            second.append(b"c")
            await poll(
                lambda: reader.waits_for is not None and "ledger 4 may not be read" in reader.waits_for
            )
            await poll(lambda: log.ledgers.opened == [3, 4])  # before it may be read
            assert not reader.at_tail
            first.seal()
            assert await waiting == [b"c"]
            assert str(reader.position) == "4:1:0"
            assert log.ledgers.opened == [3, 4]

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


def test_a_change_of_the_record_holds_no_entry_up(request: pytest.FixtureRequest) -> None:
    """Those of the ledger before are returned while the store is slow to show what has changed."""

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a",))
        await log.record(3)
        async with log.reader() as reader:
            assert await payloads(reader, 1) == [b"a"]
            await poll(lambda: reader.at_tail)
            look, shown = log.logs.read_window, asyncio.Event()

            async def slow(*args: Any, **options: Any) -> Any:
                await shown.wait()
                return await look(*args, **options)

            log.logs.read_window = slow  # type: ignore[method-assign]
            following = log.add_ledger(4)
            await log.record(3, 4)
            for payload in (b"b", b"c"):
                ledger.append(payload)
                assert await payloads(reader, 1) == [payload]
            shown.set()
            ledger.seal()
            following.append(b"d")
            assert await payloads(reader, 1) == [b"d"]

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


def test_the_slow_poll_goes_on_while_entries_cannot_be_read(request: pytest.FixtureRequest) -> None:
    """A trim that the watch did not report ends the attempts at what was trimmed."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), sealed=True)
        log.add_ledger(4, (b"b",))
        await log.record(3, 4, seals={3: 0})
        log.logs.watch = lambda ref, watch: lambda: None  # type: ignore[method-assign]  # a watch that never fires

        async def no_read_of_3(what: str) -> None:
            if what == "read" and log.ledgers.opened[-1] == 3:
                raise ReadError("entry 0 of ledger 3 cannot be read")

        log.ledgers.interfere = no_read_of_3  # type: ignore[method-assign]
        async with log.reader(config=ReaderConfig(first_poll_s=0.01, slow_poll_s=0.05)) as reader:
            await poll(lambda: reader.waits_for is not None)
            await log.record(4, trim_before=MessageId(4, 0, 0))
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
            assert "is empty and has no writer" in (reader.waits_for or "")
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
