"""Watches that are set again, on a session that only notes what is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError, UnimplementedError

from ledger.errors import MetadataUnavailableError
from ledger.metadata.zookeeper.session import watches as watches_module
from ledger.metadata.zookeeper.session.kazoo_bridge import NodeEvent
from ledger.metadata.zookeeper.session.session import Listeners
from ledger.metadata.zookeeper.session.watches import Watches


class _NotingSession:
    is_connected = True

    def __init__(self) -> None:
        self.listeners = Listeners()
        self.asked: list[tuple[str, asyncio.Future[Any]]] = []

    def check_usable(self) -> None: ...

    def watch_node(self, path: str) -> asyncio.Future[Any]:
        return self._ask("node")

    def watch_children(self, path: str) -> asyncio.Future[Any]:
        return self._ask("children")

    def end_watch(self, path: str) -> asyncio.Future[Any]:
        return self._ask(f"end {path}")

    def _ask(self, what: str) -> asyncio.Future[Any]:
        answer = asyncio.get_running_loop().create_future()
        self.asked.append((what, answer))
        return answer


async def test_a_node_that_comes_with_the_answer_that_it_is_missing_is_watched() -> None:
    """Answer and event arrive together: what waits for the answer runs after the event was heard."""
    session: Any = _NotingSession()
    heard: list[str] = []
    Watches(session).watch_children("/a", lambda: heard.append("a"))
    [(_, children)] = session.asked
    children.set_exception(NoNodeError())
    await asyncio.sleep(0)
    _, (_, node) = session.asked
    node.set_result(None)
    for hear in session.listeners.node_event:
        hear(NodeEvent("/a", False, False))
    await asyncio.sleep(0)
    assert [what for what, _ in session.asked] == ["children", "node", "children"]
    await asyncio.sleep(0)
    assert heard == ["a"]


@pytest.mark.parametrize("is_missing", [False, True], ids=["there", "missing"])
async def test_a_watch_whose_request_times_out_is_set_again(
    is_missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection stays, so nothing else sets it; a node that is missing is watched in place of its children."""
    monkeypatch.setattr(watches_module, "_AGAIN_S", 0.0)
    session: Any = _NotingSession()
    heard: list[str] = []
    Watches(session).watch_children("/a", lambda: heard.append("a"))
    expected = ["children"]
    if is_missing:
        session.asked[-1][1].set_exception(NoNodeError())
        await asyncio.sleep(0)
        expected.append("node")
    session.asked[-1][1].set_exception(MetadataUnavailableError("did not answer within 1 s"))
    await asyncio.sleep(0.01)
    assert heard == ["a"]
    assert [what for what, _ in session.asked] == [*expected, "children"]


async def test_without_a_connection_a_watch_is_set_when_there_is_one_again() -> None:
    session: Any = _NotingSession()
    Watches(session).watch_children("/a", lambda: None)
    session.asked[-1][1].set_exception(NoNodeError())
    await asyncio.sleep(0)
    session.is_connected = False
    session.asked[-1][1].set_exception(MetadataUnavailableError("the connection is lost"))
    await asyncio.sleep(0)
    assert [what for what, _ in session.asked] == ["children", "node"]
    session.is_connected = True
    [connected] = session.listeners.connected
    connected(False)
    assert [what for what, _ in session.asked] == ["children", "node", "children"]


async def test_the_coming_of_a_node_is_told_while_another_watch_on_its_children_is_being_set() -> None:
    """The server makes the node between the two requests: the second one sees it, and only the event shows it to the
    first watcher."""
    session: Any = _NotingSession()
    heard: list[str] = []
    watches = Watches(session)
    watches.watch_children("/a", lambda: heard.append("first"))
    session.asked[-1][1].set_exception(NoNodeError())
    await asyncio.sleep(0)
    session.asked[-1][1].set_result(None)
    await asyncio.sleep(0)
    watches.watch_children("/a", lambda: heard.append("second"))
    for hear in session.listeners.node_event:
        hear(NodeEvent("/a", False, False))
    session.asked[2][1].set_result([])
    await asyncio.sleep(0)
    assert "first" in heard


async def test_watches_that_nothing_needs_end_at_the_server_beyond_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watches_module, "UNWATCHED_MAX", 2)
    session: Any = _NotingSession()
    watches = Watches(session)
    for path in ("/a", "/b", "/c", "/d"):
        watches.watch_node(path, lambda: None)()
    still = watches.watch_node("/c", lambda: None)  # the server has this one
    watches.watch_node("/a", lambda: None)()  # and this one no longer
    assert [what for what, _ in session.asked] == ["node"] * 3 + ["end /a", "node", "end /b", "node"]
    still()
    assert session.asked[-1][0] == "end /d"


async def test_a_server_that_does_not_know_how_to_end_a_watch_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watches_module, "UNWATCHED_MAX", 0)
    session: Any = _NotingSession()
    watches = Watches(session)
    watches.watch_node("/a", lambda: None)()
    session.asked[-1][1].set_exception(UnimplementedError())
    await asyncio.sleep(0)
    watches.watch_node("/b", lambda: None)()
    assert [what for what, _ in session.asked] == ["node", "end /a", "node"]
