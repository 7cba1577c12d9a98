"""A client's side of the simulated metadata store: requests with a timeout, watches, a session kept alive.

Everything here runs in the context in which the handle was opened, so with the node that opened it. When that
node is killed its heartbeats end, and the server ends the session after the timeout; one that is paused or cut
off for too long loses its session too, hears of it when it is back, and connects anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Protocol

from dlog.testing.kernel.notes import Span
from dlog.testing.metadata.timing import MetadataTiming
from ledger.errors import LogStoreError, MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.store import Unwatch, Watch
from ledger.metadata.transactions.key_value import Job, T


@dataclass(eq=False, slots=True)
class Watcher:
    """One watch. It counts from the first request that the server gets after it was set."""

    session: Session
    watch: Watch
    fire_on: str
    is_range: bool
    active: bool = True
    context: Context = field(default_factory=copy_context)

    def matches(self, key: str) -> bool:
        return key.startswith(self.fire_on) if self.is_range else key == self.fire_on


@dataclass(eq=False, slots=True)
class Request:
    """A job under way. The client takes the first answer; later ones, and the job's effect, may still come."""

    session: Session
    job: Job[Any]
    changes: bool
    watchers: list[Watcher]
    answer: asyncio.Future[tuple[Any, LogStoreError | None]]
    late: bool = False
    in_order: bool = False
    """Whether it is never applied after a later request of its session, however long it was on its way."""

    def settle(self, value: Any, error: LogStoreError | None) -> None:
        """Nobody waits any more if the call was cancelled or given up."""
        if not self.answer.done():
            self.answer.set_result((value, error))

    def give_up(self, why: str) -> None:
        """The client will not hear of this request."""
        uri = self.session.uri
        if self.changes:
            error: LogStoreError = MetadataOutcomeUnknownError(
                f"{uri}: {why}; the change may have been made or may yet be: read again"
            )
        else:
            error = MetadataUnavailableError(f"{uri}: {why}; try again")
        self.settle(None, error)


@dataclass(slots=True)
class ServerSide:
    """What the server knows of a session."""

    alive: bool = True
    heard_at: float = 0.0
    is_checked: bool = False
    """Whether a look at `heard_at` is under way."""
    watchers: list[Watcher] = field(default_factory=list)


class Server(Protocol):
    """The metadata store's server as a session knows it."""

    timing: MetadataTiming

    def send(self, request: Request) -> None:
        """On its way, unless the node is cut off; `settle` or `give_up` ends it."""

    def forget(self, watcher: Watcher) -> None:
        """Nobody waits for it any more."""

    def is_cut_off(self, node: str) -> bool: ...

    def beat(self, session: Session) -> None:
        """The session lives."""

    def welcome(self, session: Session, watchers: list[Watcher]) -> None:
        """The session is there again, and so are its watches."""

    def goodbye(self, session: Session) -> Job[None]:
        """What ends the session in good order."""

    def draw(self, span: Span) -> float: ...


class Session:
    """One open handle: the Backend under a SimulatedStore."""

    def __init__(self, server: Server, node: str, name: str, uri: str) -> None:
        self.node = node
        self.name = name
        self.server_side = ServerSide()
        self.context = copy_context()
        self.on_reconnected: Callable[[], None] = lambda: None
        """Called when the session had been lost and is there again, without its registrations."""
        self._server = server
        self._uri = uri
        self._watchers: list[Watcher] = []
        self._unsent: list[Watcher] = []
        self._open = True
        self._reconnecting = False
        self._loop = asyncio.get_running_loop()
        self._heartbeat: asyncio.TimerHandle | None = None
        self._beat()

    @property
    def uri(self) -> str:
        return self._uri

    # ---- requests

    async def read(self, job: Job[T]) -> T:
        return await self._request(job, changes=False)

    async def write(self, job: Job[T]) -> T:
        return await self._request(job, changes=True)

    async def write_in_order(self, job: Job[T]) -> T:
        """As `write`, of what belongs to the session itself: stores apply that in the order of the calls."""
        return await self._request(job, changes=True, in_order=True)

    async def create(self, job: Job[T]) -> T:
        return await self._request(job, changes=True)

    async def session(self) -> str:
        return self.name

    async def _request(self, job: Job[T], *, changes: bool, in_order: bool = False) -> T:
        self._check_open()
        request = Request(self, job, changes, self._unsent, self._loop.create_future())
        request.in_order = in_order
        self._unsent = []
        timeout_s = self._server.timing.request_timeout_s
        timer = self._loop.call_later(timeout_s, request.give_up, f"no answer within {timeout_s} s")
        self._server.send(request)
        try:
            value, error = await request.answer
        finally:
            timer.cancel()
        if error is not None:
            try:
                raise error
            finally:
                del error, request  # a cycle with the error, whose traceback holds this frame
        result: T = value
        return result

    def not_heard(self, watchers: list[Watcher]) -> None:
        """The request that was to bring these to the server is lost: the next one takes them."""
        self._unsent += watchers

    # ---- watches

    def watch_key(self, key: str, watch: Watch, *, urgent: bool) -> Unwatch:
        return self._add(Watcher(self, watch, key, is_range=False))

    def watch_range(self, prefix: str, watch: Watch) -> Unwatch:
        return self._add(Watcher(self, watch, prefix, is_range=True))

    def _add(self, watcher: Watcher) -> Unwatch:
        self._check_open()
        self._watchers.append(watcher)
        self._unsent.append(watcher)
        return lambda: self._remove(watcher)

    def _remove(self, watcher: Watcher) -> None:
        if watcher.active:
            watcher.active = False
            self._watchers.remove(watcher)
            self._server.forget(watcher)

    def deliver(self, watcher: Watcher) -> None:
        """Something may have changed. The server calls this on our node."""
        if watcher.active and not self._server.is_cut_off(self.node):
            watcher.context.run(watcher.watch)

    # ---- staying alive

    def _beat(self) -> None:
        self._server.beat(self)
        self._heartbeat = self._loop.call_later(self._server.timing.session_timeout_s / 3, self._beat)

    def lost_connection(self) -> None:
        """Connect anew, to whatever the server still knows of us.

        Then all watches are called: they may have missed something.
        """
        if self._open and not self._reconnecting:
            self._reconnecting = True
            self._loop.call_later(self._server.draw(self._server.timing.reconnect_s), self._reconnect)

    def _reconnect(self) -> None:
        self._reconnecting = False
        if not self._open:
            return
        if self._server.is_cut_off(self.node):
            self.lost_connection()
            return
        was_alive = self.server_side.alive
        self._server.welcome(self, list(self._watchers))
        self._unsent.clear()
        for watcher in list(self._watchers):
            self._loop.call_soon(self.deliver, watcher)
        if not was_alive:
            self.on_reconnected()

    async def close(self) -> None:
        """The server hears of it, or finds out after the session timeout."""
        if not self._open:
            return
        for watcher in list(self._watchers):
            self._remove(watcher)
        assert self._heartbeat is not None
        self._heartbeat.cancel()
        try:
            await self.write(self._server.goodbye(self))
        except (MetadataUnavailableError, MetadataOutcomeUnknownError):
            return
        finally:
            self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise MetadataUnavailableError(f"the metadata store {self._uri} is closed on this handle")
