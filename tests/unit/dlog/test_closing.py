"""A client that is closed: while its ledgers are being marked, and what a call of it raises afterwards."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Collection

import pytest

from dlog.client import LogClient
from dlog.model import Retention
from ledger.errors import ConfigurationError
from ledger.model import BookieId, LedgerId
from tests.helpers.ledger.scripted_bookies import GUARD_S
from tests.helpers.log.scripted_log import scripted_log

COUNT = 200
MARK_S = 0.2


def report(client: LogClient, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ledgers that lack copies; returns those that are marked by then. Some 1.4 s, more than a silent store gets."""
    marked: list[int] = []

    async def mark(ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
        await asyncio.sleep(MARK_S)
        marked.append(ledger_id)

    monkeypatch.setattr(client.ledgers.store.repair, "mark", mark)
    for ledger_id in range(COUNT):
        client.ledgers.missed_copies.report(LedgerId(ledger_id), BookieId("127.0.0.1:3181"))
    return marked


async def test_it_waits_while_marks_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_log() as log, log.client() as client:
        marked = report(client, monkeypatch)
        async with asyncio.timeout(GUARD_S):
            await client.close()
        assert len(marked) == COUNT


async def test_a_cancelled_close_waits_a_second_and_the_next_one_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted_log() as log, log.client() as client:
        marked = report(client, monkeypatch)
        now = asyncio.get_running_loop().time
        begun = now()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.close(), 0.1)
        assert now() - begun < 1.3
        assert len(marked) < COUNT
        begun = now()
        await client.close()
        assert now() - begun < 0.1


async def test_however_often_a_close_is_cancelled_everything_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted_log() as log, log.client() as client:
        begun, go_on, is_closed = asyncio.Event(), asyncio.Event(), False
        close_store = client._store.close

        async def slow() -> None:
            nonlocal is_closed
            begun.set()
            await go_on.wait()
            await close_store()
            is_closed = True

        monkeypatch.setattr(client._store, "close", slow)
        closing = asyncio.create_task(client.close())
        async with asyncio.timeout(GUARD_S):
            await begun.wait()
            for _ in range(3):
                closing.cancel()
                await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert is_closed
            await client.close()


ALLOWED = {"close", "warn_unclosed"}
ARGUMENTS: dict[str, object] = {
    "log": "orders",
    "cursor": "billing",
    "message_id": "1:0:0",
    "before": "1:0:0",
    "position": "1:0:0",
    "changes": {},
    "retention": Retention(),
}


async def test_each_call_of_a_closed_client_names_the_cause() -> None:
    """And not the store, which cannot be reached any more."""
    async with scripted_log() as log, log.client() as client:
        await client.create("orders")
        await client.close()
        for name, method in inspect.getmembers(client, inspect.isroutine):
            if name.startswith("_") or name in ALLOWED:
                continue
            needed = [
                ARGUMENTS[each.name]
                for each in inspect.signature(method).parameters.values()
                if each.default is each.empty
            ]
            with pytest.raises(ConfigurationError, match=r"client (is|was) closed"):
                if isinstance(answer := method(*needed), Awaitable):
                    await answer
