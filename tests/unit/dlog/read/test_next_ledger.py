"""The ledger after the one at which a reader waits is opened before it is needed, and closed whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from dlog.model import LogMetadata, LogState
from dlog.read.next_ledger import NextLedger
from dlog.read.reader import Reader
from ledger.client import LedgerClient
from ledger.errors import MetadataUnavailableError, ReadError
from ledger.model import LedgerId, Versioned
from tests.helpers.log.memory_ledgers import MemoryLedgers, MemoryLog, poll
from tests.helpers.log.reading import play

UNAVAILABLE = (MetadataUnavailableError("the store is down"), ReadError("too few bookies answer"))


async def log_of(request: pytest.FixtureRequest, *ledger_ids: int) -> MemoryLog:
    log = await MemoryLog.create(request.node.nodeid)
    for ledger_id in ledger_ids:
        log.add_ledger(ledger_id, (b"a",))
    await log.record(*ledger_ids)
    return log


def next_of(log: MemoryLog) -> NextLedger:
    return NextLedger(cast(LedgerClient, log.ledgers), b"", lambda: log.logs.read(log.ref, fresh=False))


@contextmanager
def all_closed(ledgers: MemoryLedgers) -> Iterator[None]:
    yield
    assert ledgers.open_handles == 0


async def test_an_expected_ledger_is_open_when_it_is_taken(request: pytest.FixtureRequest) -> None:
    """Its LAC is read only once the ledger before it is sealed."""
    log = await log_of(request, 3, 4)
    with all_closed(log.ledgers):
        following = next_of(log)
        await following.expect(4)
        await following.expect(4)
        await poll(lambda: log.ledgers.opened == [4])
        log.ledgers.find(4).append(b"b")
        following.hurry(LedgerId(3))
        handle = await following.take(4)
        assert handle is not None and (handle.ledger_id, handle.last_readable) == (4, 1)
        assert log.ledgers.opened == [4]
        assert await following.take(4) is None, "it is taken once"
        await handle.close()


async def test_one_that_is_not_known_is_looked_for(request: pytest.FixtureRequest) -> None:
    log = await log_of(request, 3, 4, 5)
    with all_closed(log.ledgers):
        following = next_of(log)
        following.hurry(LedgerId(3))
        handle = await following.take(4)
        assert handle is not None and handle.ledger_id == 4
        await handle.close()
        following.hurry(LedgerId(5))
        assert await following.take(6) is None


async def test_another_ledger_is_left_to_the_reader(request: pytest.FixtureRequest) -> None:
    """The one before was sealed by a takeover, which dropped the successor and made its own."""
    log = await log_of(request, 3, 4, 5)
    with all_closed(log.ledgers):
        for find in (True, False):
            following = next_of(log)
            if find:
                following.hurry(LedgerId(3))
            else:
                await following.expect(4)
            await poll(lambda: log.ledgers.open_handles == 1)
            assert await following.take(5) is None
            await following.expect(None)
            assert log.ledgers.open_handles == 0


@pytest.mark.parametrize("failing", ["open", "read_lac"])
@pytest.mark.parametrize("error", UNAVAILABLE)
async def test_what_fails_is_left_to_the_reader(
    request: pytest.FixtureRequest, failing: str, error: Exception
) -> None:
    log = await log_of(request, 3, 4)
    with all_closed(log.ledgers):
        following = next_of(log)
        if failing == "open":
            log.ledgers.failures = [error]
        await following.expect(4)
        if failing == "read_lac":
            await poll(lambda: log.ledgers.opened == [4])
            log.ledgers.failures = [error]
        assert await following.take(4) is None


async def test_a_record_that_cannot_be_read_is_left_to_the_reader(request: pytest.FixtureRequest) -> None:
    log = await log_of(request, 3, 4)

    async def unavailable() -> Versioned[LogMetadata]:
        raise MetadataUnavailableError("the store is down")

    following = NextLedger(cast(LedgerClient, log.ledgers), b"", unavailable)
    following.hurry(LedgerId(3))
    assert await following.take(4) is None


@pytest.mark.parametrize("turns", range(8))
async def test_a_reader_that_is_closed_leaves_nothing_open(
    request: pytest.FixtureRequest, turns: int
) -> None:
    """Wherever it is: while it expects the ledger, and while it takes it."""
    log = await log_of(request, 3, 4)
    following = next_of(log)
    await following.expect(4)
    for _ in range(turns):
        await asyncio.sleep(0)
    await following.close()
    await following.expect(4)
    taken = asyncio.create_task(following.take(4))
    for _ in range(turns):
        await asyncio.sleep(0)
    taken.cancel()
    [handle] = await asyncio.gather(taken, return_exceptions=True)
    if handle is not None and not isinstance(handle, BaseException):
        await handle.close()
    await following.close()
    handle = await log.ledgers.shared.open(LedgerId(4))
    assert handle.readers == 1


async def test_an_interrupted_close_leaves_nothing_open(request: pytest.FixtureRequest) -> None:
    """The ledger was open already."""
    log = await log_of(request, 3, 4)
    following = next_of(log)
    await following.expect(4)
    following.hurry(LedgerId(3))
    await poll(lambda: following._task is not None and following._task.done())
    closing = asyncio.create_task(following.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert log.ledgers.open_handles == 0


async def _waiting_at_a_rotation(log: MemoryLog) -> Reader:
    log.add_ledger(3, (b"a",))
    log.add_ledger(5)
    await log.record(3, 5)  # ledger 3 is not sealed yet
    reader = log.reader()
    assert (await anext(reader)).payload == b"a"
    await poll(lambda: log.ledgers.open_handles == 2)
    return reader


@pytest.mark.parametrize("turns", range(1, 6))
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["two", "cancelled"])
def test_a_reader_that_is_closed_twice_leaves_nothing_open(
    request: pytest.FixtureRequest, turns: int, is_cancelled: bool
) -> None:
    """The second close comes during the first one, or after that was cancelled."""

    async def scene(log: MemoryLog) -> None:
        reader = await _waiting_at_a_rotation(log)
        first = asyncio.create_task(reader.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        if is_cancelled:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        await reader.close()
        assert log.ledgers.open_handles == 0
        await asyncio.gather(first, return_exceptions=True)

    play(request, scene)


@pytest.mark.parametrize("turns", range(12))
def test_a_reader_that_is_closed_as_it_fails_leaves_nothing_open(
    request: pytest.FixtureRequest, turns: int
) -> None:
    """The log is deleted while it waits, and its clean-up is under way."""

    async def scene(log: MemoryLog) -> None:
        reader = await _waiting_at_a_rotation(log)
        await log.record(state=LogState.DELETING)
        for _ in range(turns):
            await asyncio.sleep(0)
        await reader.close()
        assert log.ledgers.open_handles == 0

    play(request, scene)
