"""The one seam between kazoo's thread and the event loop. Nothing else of the driver meets a thread.

Answers, watch events and changes of state come out of kazoo's connection thread in the order in which the
server sent them, and reach the loop in that order, many by one wake-up: so an event about a change is always
seen before an answer that knows of it. kazoo's own queues and their two threads are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import select
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import AsyncResult
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from ledger.metadata.zookeeper.session.kazoo_connection import KazooConnection

RECONNECT_PAUSE_MAX_S = 1.0
_kazoo_log = logging.getLogger("ledger.metadata.zookeeper.kazoo")
_kazoo_log.setLevel(logging.ERROR)  # it tells of every attempt to connect; the session tells of changes


@dataclass(frozen=True, slots=True)
class Connected:
    session_id: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """Nothing is known about calls under way. `refused`: for good, ZooKeeper does not take our credentials.

    `has_ended`: kazoo's thread has, because it was stopped or by a fault. kazoo itself does not report that if it has
    reported before that the session is lost.
    """

    refused: bool = False
    has_ended: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    call: Any
    value: Any
    error: Exception | None


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A watch on `path` fired: for its children, or for the node itself."""

    path: str
    of_children: bool
    deleted: bool


Arrival = Connected | Disconnected | Answered | NodeEvent


class _DirectHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler without its queues: callbacks run where they arise, and all of ours are brief.

    It waits for sockets without a descriptor of its own, so that a process that has none left keeps its connection.

    `server_s`: for connecting to one server.
    """

    def __init__(self, server_s: float) -> None:
        super().__init__()
        self._server_s = server_s

    def create_connection(self, *address: Any, **options: Any) -> Any:
        return super().create_connection(*address, **options | {"timeout": self._server_s})

    def select(self, readable: Any, writable: Any, _: Any, timeout_s: float) -> Any:
        poll = select.poll()
        for sockets, event in ((readable, select.POLLIN), (writable, select.POLLOUT)):
            for each in sockets:
                poll.register(each, event)
        ready = {descriptor for descriptor, _ in poll.poll(math.ceil(timeout_s * 1000))}
        return *([each for each in some if each.fileno() in ready] for some in (readable, writable)), []

    @property
    def running(self) -> bool:
        return False  # what AsyncResult asks to learn whether its callbacks go through a queue

    def start(self) -> None:
        return

    def stop(self) -> None:
        return

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)


class KazooBridge:
    """One kazoo client. `arrive` is called on `loop` with everything that comes from it.

    `server_s`: how long it tries to connect to one server before it goes on to the next.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float,
        server_s: float,
        credential: tuple[str, str] | None,
        loop: asyncio.AbstractEventLoop,
        arrive: Callable[[Arrival], None],
    ) -> None:
        self._loop = loop
        self._arrive = arrive
        self._arrivals: deque[Arrival] = deque()
        self._woken = False
        self._is_refused = False
        handler = _DirectHandler(server_s)
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_s,
            handler=handler,
            default_acl=CREATOR_ALL_ACL if credential else OPEN_ACL_UNSAFE,
            auth_data=[credential] if credential else None,
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, max_delay=RECONNECT_PAUSE_MAX_S, sleep_func=handler.sleep_func
            ),
            logger=_kazoo_log,
        )
        retry = self._client._conn_retry.copy()
        self._client._connection = KazooConnection(
            self._client, retry, server_s=server_s, on_end=self._on_end, logger=_kazoo_log
        )
        self._client.add_listener(self._on_state)

    def start(self) -> None:
        self._client.start_async()

    def submit(self, call: Any, request: Callable[[KazooClient], AsyncResult]) -> None:
        """Send; one Answered with `call` will arrive."""
        request(self._client).rawlink(lambda result: self._push(_answer(call, result)))

    async def stop(self, wait_s: float) -> None:
        """End the session. Returns when ZooKeeper has confirmed it, or after `wait_s` seconds.

        kazoo's thread ends by itself, at the latest once it has given up the server that it is about to connect to.
        """
        stopped = self._loop.create_future()
        self._client.handler.spawn(self._stop, stopped)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(stopped), wait_s)

    def on_event(self, event: WatchedEvent) -> None:
        """The watch function of every watch: kazoo keeps one per path, however often the path is watched."""
        if event.path is not None:
            self._push(NodeEvent(event.path, event.type == "CHILD", event.type == "DELETED"))

    # ---- in kazoo's threads

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._push(Connected(self._client._session_id))
        else:
            self._is_refused |= self._client.client_state == KeeperState.AUTH_FAILED
            self._push(Disconnected(refused=self._is_refused))

    def _on_end(self) -> None:
        if not self._is_refused:  # which was reported, and says more
            self._push(Disconnected(has_ended=True))

    def _stop(self, stopped: asyncio.Future[None]) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            _kazoo_log.warning("the connection to ZooKeeper did not end in time: %r", error)
            raise
        finally:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_finish, stopped)

    def _push(self, arrival: Arrival) -> None:
        self._arrivals.append(arrival)
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens there any more
                self._loop.call_soon_threadsafe(self._drain)

    # ---- on the loop

    def _drain(self) -> None:
        # Cleared first: what is pushed after the last look below wakes the loop again.
        self._woken = False
        while self._arrivals:
            self._arrive(self._arrivals.popleft())


def _answer(call: Any, result: AsyncResult) -> Answered:
    error = result.exception
    return Answered(call, result.value, error if isinstance(error, Exception) else None)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
