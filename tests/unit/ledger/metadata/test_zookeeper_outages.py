"""What a session reports of a server that is away: once, and not that it did not answer what it never got."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss as ConnectionLostError

from ledger.environment import SystemEnvironment
from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.uri import parse_uri
from ledger.metadata.zookeeper.address import parse_address
from ledger.metadata.zookeeper.session import session as session_module
from ledger.metadata.zookeeper.session.kazoo_bridge import Answered, Arrival, Connected, Disconnected
from ledger.metadata.zookeeper.session.session import ZooKeeperSession

ADDRESS = "zk://127.0.0.1:2181/ledgers?request_timeout_ms=100"


class _SilentBridge:
    """kazoo's place: connected, and nothing is ever answered."""

    def __init__(self, *given: Any) -> None:
        self.arrive: Callable[[Arrival], None] = given[-1]
        self.sent = 0
        self.calls: list[Any] = []

    def start(self) -> None:
        self.arrive(Connected(1))

    async def stop(self, wait_s: float) -> None:
        pass

    def submit(self, call: Any, request: Any) -> None:
        self.sent += 1
        self.calls.append(call)


async def opened(monkeypatch: pytest.MonkeyPatch) -> tuple[ZooKeeperSession, _SilentBridge]:
    bridges: list[_SilentBridge] = []

    def make(*given: Any) -> _SilentBridge:
        bridges.append(_SilentBridge(*given))
        return bridges[-1]

    monkeypatch.setattr(session_module, "KazooBridge", make)
    session = ZooKeeperSession(parse_address(parse_uri(ADDRESS)), None, SystemEnvironment())
    await session.open()
    return session, bridges[-1]


async def test_a_request_that_was_never_sent_was_not_left_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    session, bridge = await opened(monkeypatch)
    bridge.arrive(Disconnected(refused=False))
    for request in (session.get("/a"), session.set("/a", b"")):
        with pytest.raises(
            MetadataUnavailableError, match=r"2181 could not be reached within 0\.1 s: try again"
        ):
            await request
    assert bridge.sent == 0
    await session.close()


async def test_a_request_that_was_sent_was_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    session, bridge = await opened(monkeypatch)
    read, change = session.get("/a"), session.set("/a", b"")
    with pytest.raises(MetadataUnavailableError, match=r"did not answer within 0\.1 s: try again"):
        await read
    with pytest.raises(MetadataOutcomeUnknownError, match=r"did not answer within 0\.1 s while a change"):
        await change
    assert bridge.sent == 2
    await session.close()


async def test_the_loss_of_a_connection_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """kazoo reports it when the connection ends, and again when the session has expired."""
    session, bridge = await opened(monkeypatch)
    with caplog.at_level(logging.WARNING):
        for session_id in (2, 3):
            bridge.arrive(Disconnected(refused=False))
            bridge.arrive(Disconnected(refused=False))
            bridge.arrive(Connected(session_id))
    assert [("is lost" in line, "had expired" in line) for line in caplog.messages] == [
        (True, False),
        (False, True),
    ] * 2
    await session.close()


async def test_a_loss_that_is_reported_behind_the_next_connection_is_not_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, bridge = await opened(monkeypatch)
    late = session.get("/a")
    bridge.arrive(Disconnected(refused=False))
    bridge.arrive(Connected(1))
    bridge.arrive(Answered(bridge.calls[0], None, ConnectionLostError()))
    with pytest.raises(MetadataUnavailableError, match="broke off the connection"):
        await late
    read = session.get("/b")
    assert bridge.sent == 2
    bridge.arrive(Answered(bridge.calls[1], b"b", None))
    assert await read == b"b"
    await session.close()


async def test_a_thread_that_has_died_is_reported_to_all_that_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    session, bridge = await opened(monkeypatch)
    bridge.arrive(Disconnected())
    waiting = session.get("/a")
    bridge.arrive(Disconnected(has_ended=True))
    with pytest.raises(MetadataUnavailableError, match="2181 has died: open the store again"):
        await waiting
    with pytest.raises(MetadataUnavailableError, match="2181 has died: open the store again"):
        session.get("/b")
    assert bridge.sent == 0
    await session.close()


async def test_nothing_is_sent_between_the_loss_of_a_call_and_that_of_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, bridge = await opened(monkeypatch)
    lost, waiting = session.get("/a"), session.get("/b")
    bridge.arrive(Answered(bridge.calls[0], None, ConnectionLostError()))
    with pytest.raises(MetadataUnavailableError, match="broke off the connection"):
        await lost
    late = session.get("/c")
    assert bridge.sent == 2
    bridge.arrive(Answered(bridge.calls[1], None, ConnectionLostError()))
    bridge.arrive(Disconnected(refused=False))
    bridge.arrive(Connected(1))
    assert bridge.sent == 3
    bridge.arrive(Answered(bridge.calls[2], b"c", None))
    assert await late == b"c"
    with pytest.raises(MetadataUnavailableError, match="broke off the connection"):
        await waiting
    await session.close()
