"""Record batches of a reader over ledgers that a test moves by hand: every message once, the position always right."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from dlog.arrow import entry_columns, record_batches
from dlog.errors import DataLossError, EntryFormatError
from dlog.format.entry import Codec
from dlog.model import MessageId
from dlog.read.backlog import Lag
from dlog.read.config import ReaderConfig
from dlog.read.range import ReadRange, read_range
from dlog.read.reader import Reader
from ledger.errors import ConfigurationError, MissingExtraError, ReadError
from tests.helpers.log.memory_ledgers import MemoryLog, entry_of, poll
from tests.helpers.log.reading import UNTIL_LATEST, payloads, play, two_ledgers

RANGES: list[dict[str, Any]] = [
    {"until": "latest"},
    {"start": "3:0:1", "until": "5:1:1"},
    {"after": "3:0:0", "until": "3:1:0"},
    {"start": "3:0:7", "until": "5:0:0"},
    {"start": "5:1:0", "until": "5:1:0"},
    {"last": 3, "until": "latest"},
]


async def rows_of(reader: Reader, batch_rows: int = 8192) -> list[tuple[MessageId, bytes | None]]:
    found = []
    async for batch in reader.arrow_batches(["message_id", "value"], batch_rows=batch_rows):
        ids = map(MessageId.from_bytes, batch["message_id"].to_pylist())
        found += zip(ids, batch["value"].to_pylist(), strict=True)
    return found


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
@pytest.mark.parametrize("said", RANGES, ids=str)
def test_rows_are_the_messages_of_the_range(
    request: pytest.FixtureRequest, said: dict[str, Any], batch_rows: int
) -> None:
    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        async with log.reader(read_range(**said)) as one_by_one:
            expected = [(message.id, message.payload) async for message in one_by_one]
        async with log.reader(read_range(**said)) as reader:
            assert await rows_of(reader, batch_rows) == expected
            assert reader.position == one_by_one.position and reader.ended
            assert (await reader.to_arrow()).num_rows == 0
        async with log.reader(read_range(**said)) as reader:
            assert (await reader.to_arrow())["value"].to_pylist() == [payload for _, payload in expected]
        assert log.ledgers.open_handles == 0

    play(request, scene)


async def one_message(reader: Reader) -> list[bytes | None]:
    return await payloads(reader, 1)


async def one_entry(reader: Reader) -> list[bytes | None]:
    async for batch in reader.batches():
        return list(batch.payloads)
    return []


async def two_rows(reader: Reader) -> list[bytes | None]:
    async for batch in reader.arrow_batches(["value"], batch_rows=2):
        found: list[bytes | None] = batch["value"].to_pylist()
        return found
    return []


async def all_rows(reader: Reader) -> list[bytes | None]:
    found: list[bytes | None] = (await reader.to_arrow(["value"]))["value"].to_pylist()
    return found


@pytest.mark.parametrize("first", [one_message, one_entry, two_rows])
@pytest.mark.parametrize("second", [one_message, one_entry, two_rows])
@pytest.mark.parametrize("third", [one_message, one_entry, two_rows, all_rows])
def test_iteration_of_any_kind_goes_on_after_any_other(
    request: pytest.FixtureRequest, first: Any, second: Any, third: Any
) -> None:
    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        async with log.reader(UNTIL_LATEST) as reader:
            seen = []
            for step in (first, second, third):
                seen += await step(reader)
                async with log.reader(ReadRange(start=reader.position, until=reader.until)) as other:
                    assert [*seen, *await payloads(other)] == [b"a", b"b", b"c", b"d", b"e", b"f"]
            seen += await all_rows(reader)
            assert seen == [b"a", b"b", b"c", b"d", b"e", b"f"]

    play(request, scene)


def test_without_an_end_a_row_waits_only_so_long_for_more(request: pytest.FixtureRequest) -> None:
    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a", b"b"))
        await log.record(3)
        async with log.reader() as reader:
            batches = reader.arrow_batches(["value"], batch_rows=3)
            assert (await anext(batches))["value"].to_pylist() == [b"a", b"b"]
            waiting = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0)
            ledger.append(b"c", b"d", b"e", b"f")
            assert (await waiting)["value"].to_pylist() == [b"c", b"d", b"e"]
            assert (await anext(batches))["value"].to_pylist() == [b"f"]
            await batches.aclose()

    play(request, scene)


def test_a_cancelled_call_loses_no_row(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken two entries, and waits for the third."""
    monkeypatch.setattr(record_batches, "LINGER_S", 60.0)

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a", b"b"), (b"c",))
        await log.record(3)
        async with log.reader() as reader:
            assert await payloads(reader, 1) == [b"a"]
            waiting = asyncio.ensure_future(anext(reader.arrow_batches(["value"], batch_rows=4)))
            while not reader.at_tail:  # noqa: ASYNC110 - nothing reports it
                await asyncio.sleep(0.001)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            assert reader.position == MessageId(3, 0, 1)
            assert not reader.at_tail and reader.waits_for is None
            ledger.append(b"d", b"e", b"f")
            batch = await anext(reader.arrow_batches(["value"], batch_rows=4))
            assert batch["value"].to_pylist() == [b"b", b"c", b"d", b"e"]
            assert await payloads(reader, 1) == [b"f"]

    play(request, scene)


def test_what_comes_before_an_undecodable_entry_is_returned(request: pytest.FixtureRequest) -> None:
    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a", b"b"), (b"c",))
        ledger.entries[1] = b"\xd1 damaged"
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            batches = reader.arrow_batches(["value"])
            assert (await anext(batches))["value"].to_pylist() == [b"a", b"b"]
            for _ in range(2):
                with pytest.raises(EntryFormatError, match="entry 1 of ledger 3, log default/orders"):
                    await anext(reader.arrow_batches())
                assert reader.position == MessageId(3, 1, 0)
            with pytest.raises(EntryFormatError, match="entry 1 of ledger 3, log default/orders"):
                await payloads(reader, 1)

    play(request, scene)


def test_what_comes_before_an_entry_whose_codec_is_missing_is_returned(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("zstandard")

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3, (b"a", b"b"))
        ledger.entries.append(entry_of(bytes(5000), codec=Codec.ZSTD))
        ledger.append(b"c")
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            with monkeypatch.context() as context:
                context.setitem(sys.modules, "zstandard", None)
                batches = reader.arrow_batches(["value"])
                assert (await anext(batches))["value"].to_pylist() == [b"a", b"b"]
                for _ in range(2):
                    with pytest.raises(MissingExtraError, match="codec zstd"):
                        await anext(reader.arrow_batches())
                    assert reader.position == MessageId(3, 1, 0)
            assert await all_rows(reader) == [bytes(5000), b"c"]

    play(request, scene)


def test_what_comes_before_a_loss_is_returned(request: pytest.FixtureRequest) -> None:
    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a", b"b"), (b"c",), (b"d",)).entries[1] = None
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            batches = reader.arrow_batches(["value"])
            assert (await anext(batches))["value"].to_pylist() == [b"a", b"b"]
            with pytest.raises(DataLossError):
                await anext(batches)
            assert reader.position == MessageId(3, 1, 0)

    play(request, scene)


def test_trimmed_messages_are_skipped_if_wanted(request: pytest.FixtureRequest) -> None:
    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        await log.record(3, 5, seals={3: 1}, trim_before=MessageId(3, 1, 0))
        wanted = read_range(start="3:0:0", until="latest")
        async with log.reader(wanted, on_trimmed="skip") as reader:
            assert await all_rows(reader) == [b"c", b"d", b"e", b"f"]

    play(request, scene)


def test_an_entry_is_decoded_once_however_many_batches_it_fills(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    monkeypatch.setattr(
        record_batches,
        "decode_columns",
        lambda *given: decoded.append(given[1]) or entry_columns.decode_columns(*given),
    )

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a", b"bb", b"c", b"dd"), (b"e",))
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            assert len(await rows_of(reader, batch_rows=1)) == 5
        assert decoded == [0, 1]

    play(request, scene)


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 5])
def test_a_batch_that_was_not_delivered_can_be_undone(
    request: pytest.FixtureRequest, batch_rows: int
) -> None:
    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        async with log.reader(UNTIL_LATEST) as reader:
            seen = await payloads(reader, 1)
            while (made := await reader.record_batches("it", ["value"], batch_rows).make()) is not None:
                reader.put_back(made.taken, made.before, in_place_of_first=made.has_rest)
                assert reader.position == made.before and not reader.ended
                seen += await payloads(reader, 1)
            assert seen == [b"a", b"b", b"c", b"d", b"e", b"f"]

    play(request, scene)


def test_wrong_requests_are_refused(request: pytest.FixtureRequest) -> None:
    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        async with log.reader() as reader:
            with pytest.raises(ConfigurationError, match=r"no end, .* until='latest'"):
                await reader.to_arrow()
        async with log.reader(UNTIL_LATEST, on_trimmed="gap") as reader:
            with pytest.raises(ConfigurationError, match="iterate over batch_items"):
                await reader.to_arrow()
        async with log.reader(UNTIL_LATEST) as reader:
            for columns, sentence in (
                (["value", "offset"], "column 'offset' is unknown: use log, message_id"),
                (["value", "key", "value"], "column 'value' is named twice"),
                ([], "columns is empty: name at least one of log"),
                ("value", "columns must be"),
                (["value", ["key"]], "a name in columns must be a text"),
            ):
                with pytest.raises(ConfigurationError, match=sentence):
                    await reader.to_arrow(columns)  # type: ignore[arg-type]
            for batch_rows in (0, 10_000_001, 2.5):
                with pytest.raises(ConfigurationError, match="batch_rows must be"):
                    await anext(reader.arrow_batches(batch_rows=batch_rows))  # type: ignore[arg-type]
            assert await payloads(reader) == [b"a", b"b", b"c", b"d", b"e", b"f"]

    play(request, scene)


def test_a_closed_reader_makes_no_batches(request: pytest.FixtureRequest) -> None:
    async def scene(log: MemoryLog) -> None:
        await two_ledgers(log)
        reader = log.reader(UNTIL_LATEST)
        batches = reader.arrow_batches(batch_rows=1)
        await anext(batches)
        await reader.close()
        assert str(reader.position) == "3:0:1"
        with pytest.raises(ConfigurationError, match="is closed"):
            await anext(batches)

    play(request, scene)


def test_keys_and_tombstones_of_entries_of_both_kinds(request: pytest.FixtureRequest) -> None:
    """Of equal sizes and of others, in one batch."""

    async def scene(log: MemoryLog) -> None:
        ledger = log.add_ledger(3)
        ledger.entries = [
            entry_of(b"aa", b"bb", keys=[b"k", b"l"]),
            entry_of(None, b"", keys=[b"", None]),
            entry_of(None, None),
        ]
        ledger.confirm()
        await log.record(3)
        async with log.reader(UNTIL_LATEST) as reader:
            table = await reader.to_arrow(["value", "key"])
        assert table.schema.names == ["value", "key"]
        assert table["key"].to_pylist() == [b"k", b"l", b"", None, None, None]
        assert table["value"].to_pylist() == [b"aa", b"bb", None, b"", None, None]

    play(request, scene)


def test_what_a_failed_table_has_read_is_not_acknowledged(request: pytest.FixtureRequest) -> None:
    """It was not returned. A reader that begins at the cursor returns it; what was returned before counts."""

    async def scene(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
        log.add_ledger(3, (b"a",), (b"b",), (b"c",), (b"d",))
        await log.record(3)
        decode, failing = entry_columns.decode_columns, [False, True]

        def fails(*place: Any) -> Any:
            if failing.pop(0):
                raise EntryFormatError("damaged")
            return decode(*place)

        async with log.reader(UNTIL_LATEST, cursor="c") as reader:
            first = await anext(reader)
            in_ones = record_batches.RecordBatches(reader, ["value"], 1)
            monkeypatch.setattr(record_batches, "decode_columns", fails)
            monkeypatch.setattr(reader, "record_batches", lambda *_: in_ones)
            with pytest.raises(EntryFormatError):
                await reader.to_arrow()
            assert reader.position == first.id._replace(entry_id=2)
            for upto in (None, first.id._replace(entry_id=1)):
                with pytest.raises(ConfigurationError, match="from 3:1:0 on cannot be acknowledged"):
                    await reader.ack(upto)
            await reader.ack(first)
        monkeypatch.undo()
        async with log.reader(UNTIL_LATEST, cursor="c") as reader:
            assert (await reader.to_arrow(["value"]))["value"].to_pylist() == [b"b", b"c", b"d"]
            await reader.ack()
            assert reader.cursor is not None and reader.cursor.position == first.id._replace(entry_id=4)

    with pytest.MonkeyPatch.context() as patched:
        play(request, lambda log: scene(log, patched))


def test_the_lag_counts_what_was_fetched_and_is_not_in_a_record_batch_yet(
    request: pytest.FixtureRequest,
) -> None:
    """Also what comes back when a call is cancelled, and what messages are taken from then."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, *[(b"%d" % number,) for number in range(6)], sealed=True)
        log.add_ledger(4, (b"6", b"7"), (b"8",))
        await log.record(3, 4, seals={3: 5})
        async with log.reader() as reader:
            await poll(lambda: reader.lag.entries == 8)
            batches = reader.arrow_batches(["value"], batch_rows=2)
            for entries in (6, 4, 2):
                await anext(batches)
                assert reader.lag == Lag(entries, ledgers=1)
            waiting = asyncio.ensure_future(anext(reader.arrow_batches(["value"], batch_rows=100)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert reader.lag == Lag(entries=2, ledgers=1) and not reader.at_tail
            known = []
            for _ in range(3):
                await anext(reader)
                known.append(reader.lag)
            assert known == [Lag(2, 0), Lag(1, 0), Lag(0, 0, 0, 0)]

    play(request, scene)


def test_the_lag_counts_messages_that_are_returned_after_some_rows(request: pytest.FixtureRequest) -> None:
    """The rest of an entry whose first messages were rows is one entry until its last message is returned."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a", b"b", b"c", b"d"), (b"e",))
        await log.record(3)
        async with log.reader() as reader:
            async for _ in reader.arrow_batches(["value"], batch_rows=1):
                break
            known = [reader.lag]
            for _ in range(4):
                await anext(reader)
                known.append(reader.lag)
            assert known == [Lag(2, 0), Lag(2, 0), Lag(2, 0), Lag(1, 0), Lag(0, 0, 0, 0)]

    play(request, scene)


def test_an_outage_after_rows_is_raised_by_the_next_call_and_then_waited_for_anew(
    request: pytest.FixtureRequest,
) -> None:
    """The rows before it are returned first; its time is not waited for twice."""

    async def scene(log: MemoryLog) -> None:
        log.add_ledger(3, (b"a",), sealed=True)
        log.add_ledger(5, (b"b",))
        await log.record(3, 5, seals={3: 0})
        config = ReaderConfig(unavailable_timeout_s=0.5)
        async with log.reader(read_range(until="5:1:0"), config=config) as reader:
            batches = reader.arrow_batches(["value"])
            log.ledgers.failures_of[5] = ReadError("bookies are away")
            assert (await anext(batches))["value"].to_pylist() == [b"a"]
            with pytest.raises(ReadError, match="away"):
                async with asyncio.timeout(0.2):
                    await anext(batches)
            log.ledgers.failures_of.clear()
            assert [batch["value"].to_pylist() async for batch in reader.arrow_batches(["value"])] == [[b"b"]]

    play(request, scene)
