"""Watches that are set again, on a session that only notes what is asked."""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.exceptions import NoNodeError

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
