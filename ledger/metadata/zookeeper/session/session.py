"""A ZooKeeper session as the loop sees it: requests in order, each with a deadline, and what their failure means.

Laws:
- Requests reach the server in the order in which they were made, so that a watch set before a read counts for
  it; a fresh read comes a turn of the loop later. No more than `_UNDER_WAY_MAX` are under way at a time.
- While there is no connection nothing is sent. A request waits for one until its deadline, and then certainly
  did nothing.
- A change that was sent and not answered is never sent again: MetadataOutcomeUnknownError. A read is harmless:
  MetadataUnavailableError.
- That a node is there or missing, at another version or not empty comes out as kazoo's own error.
- A server that serves only clients that authenticate otherwise closes the connection on the first request, whatever
  it is: that and those behind it certainly did nothing. Then nothing is sent for a while, and each request fails
  with the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoNodeError, SessionClosedRequireSaslError, SessionExpiredError
from kazoo.exceptions import ConnectionLoss as ConnectionLostError
from kazoo.handlers.utils import AsyncResult
from kazoo.protocol.serialization import Delete, SetData

from ledger.environment import Environment
from ledger.errors import ConfigurationError, LogStoreError, MetadataUnavailableError
from ledger.metadata.zookeeper.address import ZooKeeperAddress
from ledger.metadata.zookeeper.session.failures import ENDED_SESSION, Failures
from ledger.metadata.zookeeper.session.kazoo_bridge import (
    Answered,
    Arrival,
    Connected,
    Disconnected,
    KazooBridge,
    NodeEvent,
)
from ledger.metadata.zookeeper.session.kazoo_connection import OtherSessionError, call_within
from ledger.metadata.zookeeper.session.multi_read import MultiRead, Read
from ledger.metadata.zookeeper.session.watch_removal import WatchRemoval

_UNDER_WAY_MAX = 256
_REQUEST_BYTES_MAX = 1024 * 1024 - 256
"""ZooKeeper drops a connection on which a larger request comes (jute.maxbuffer, with room for its header)."""

_VERSION_MAX = 2**31 - 1
_TURNED_AWAY_S = 5.0
"""Pause after a server has closed the connection because we must authenticate: it would do so each time."""

STOP_S = 5.0
"""How long closing waits for the server's answer if nodes end with the session, for which others wait; after that
ZooKeeper ends the session by its timeout."""
LEAVE_S = 1.0
"""The same without such nodes: no other client sees the end of this session."""

_log = logging.getLogger(__name__)

Request = Callable[[KazooClient], AsyncResult]


@dataclass(eq=False, slots=True)
class _Call:
    request: Request
    is_change: bool
    future: asyncio.Future[Any]
    within: int | None = None
    """The only session in which it may be sent."""
    is_sent: bool = False
    connection: int = 0
    """The number of the connection that was in use when it was sent."""
    deadline: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class Listeners:
    """Who hears of what on the loop. `connected` says whether the session is a new one."""

    connected: list[Callable[[bool], None]] = field(default_factory=list)
    node_event: list[Callable[[NodeEvent], None]] = field(default_factory=list)


class ZooKeeperSession:
    """Goes on by itself: after a loss kazoo connects again, with the same session or, if it expired, a new one."""

    def __init__(
        self, address: ZooKeeperAddress, credential: tuple[str, str] | None, environment: Environment
    ) -> None:
        self.uri = address.uri
        self.listeners = Listeners()
        self.session_id = 0
        self.timeout_s = address.session_timeout_ms / 1000
        self.failures = Failures(address)
        self._servers = ", ".join(address.servers)
        self._root = address.root
        self._request_timeout_s = address.request_timeout_ms / 1000
        self.environment = environment
        self._process_id = environment.process_id()
        self._loop = asyncio.get_running_loop()
        self._waiting: OrderedDict[_Call, None] = OrderedDict()
        self._sent: set[_Call] = set()
        self._is_connected = False
        self._connections = 0
        """Made so far."""
        self._loss_is_logged = False
        """Of this connection: kazoo reports the loss again when the session has expired."""
        self._is_closed = False
        self._has_died = False
        """kazoo's thread has ended by a fault: nothing connects again."""
        self._linked: int | None = None
        """The session of kazoo's connection, if it has one. It is not used while we are turned away."""
        self._is_refusing = False
        """Whether the server has turned this connection away; until there is another one."""
        self._turned_away: asyncio.TimerHandle | None = None
        """Until when nothing is sent."""
        self._is_served: bool | None = None
        """Whether the last connection that was used was not turned away; None before the first answer."""
        self._keeps_nodes = False
        self._is_silent = False
        """Whether a request was not answered in its time, and none since."""
        self._first_state: asyncio.Future[bool] = self._loop.create_future()
        self._next_proof: asyncio.Future[asyncio.Future[Any]] | None = None
        # So that all of them were tried before a session expires, or what waits for a connection gives up.
        server_s = min(self.timeout_s, self._request_timeout_s) / len(address.servers)
        self._bridge = KazooBridge(
            ",".join(address.servers), self.timeout_s, server_s, credential, self._loop, self._on_arrival
        )

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    async def open(self) -> None:
        """Returns once there is a session; MetadataUnavailableError when no server answers in time."""
        try:
            self._bridge.start()
        except OSError as error:
            self._is_closed = True
            raise MetadataUnavailableError(
                f"cannot connect to ZooKeeper at {self._servers}: {error.strerror}"
            ) from error
        try:
            async with asyncio.timeout(self._request_timeout_s):
                accepted = await asyncio.shield(self._first_state)
        except asyncio.CancelledError:
            await self.close()  # its thread would go on connecting
            raise
        except TimeoutError:
            await self.close()
            raise MetadataUnavailableError(
                f"no ZooKeeper answered at {self._servers} within {self._request_timeout_s:g} s: "
                f"start it, or correct the metadata address {self.uri}"
            ) from None
        if not accepted:
            await self.close()
            raise self.failures.refused()

    async def close(self) -> None:
        """End the session and what lives with it. Returns once others can see that.

        Without a connection, or while the server does not answer, there is nothing to wait for: ZooKeeper ends the
        session by its timeout, if there is one.
        """
        if self._is_closed:
            return
        self._check_process()  # a forked child has neither the threads nor the loop that would end it
        self._is_closed = True
        self._is_connected = False
        for call in (*self._waiting, *self._sent):
            self._fail(call, "was closed")
        self._waiting.clear()
        if self._turned_away is not None:
            self._turned_away.cancel()
        if self._linked is None or self._is_silent:
            await self._bridge.stop(0.0)
        else:
            await self._bridge.stop(STOP_S if self._keeps_nodes else LEAVE_S)

    # ---- requests; each is made at once, and the answer is what is awaited

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        is_kept: bool = True,
    ) -> asyncio.Future[str]:
        """The path made, with its number when in sequence.

        `is_kept`: an ephemeral node means something to others, so that they see when the session ends.
        """
        _check_size(path, value)
        self._keeps_nodes |= ephemeral and is_kept
        return self._ask(
            lambda client: client.create_async(path, value, ephemeral=ephemeral, sequence=sequence),
            change=True,
        )

    def set(
        self, path: str, value: bytes, version: int = -1, *, within: int | None = None
    ) -> asyncio.Future[Any]:
        """The node's new stat. `version` and `within`: as of `delete`."""
        _check_size(path, value)
        if version > _VERSION_MAX:
            return self._refused(BadVersionError())
        return self._ask(
            lambda client: call_within(client, SetData(path, value, version), within),
            change=True,
            within=within,
        )

    def delete(self, path: str, version: int = -1, *, within: int | None = None) -> asyncio.Future[Any]:
        """`version`: -1 for any. BadVersionError, also for one that no node can have.

        `within`: the session that it belongs to. Once another one has begun, nothing is sent.
        """
        if version > _VERSION_MAX:
            return self._refused(BadVersionError())
        return self._ask(
            lambda client: call_within(client, Delete(path, version), within),
            change=True,
            within=within,
        )

    def get(self, path: str) -> asyncio.Future[Any]:
        """(data, stat), as the server knows it that we are connected to: it may lag behind the others."""
        return self._ask(lambda client: client.get_async(path), change=False)

    def get_many(self, paths: Sequence[str]) -> asyncio.Future[list[Read]]:
        """As `get` of up to PATHS_MAX nodes, by one request. UnimplementedError from servers before ZooKeeper 3.6."""

        def request(client: KazooClient) -> AsyncResult:
            answer = client.handler.async_result()
            client._call(MultiRead(paths), answer)
            return answer

        return self._ask(request, change=False)

    async def get_fresh(self, path: str) -> Any:
        """(data, stat), not older than what any server had confirmed to any client before this call."""
        return await self._fresh(lambda: self.get(path))

    async def children_fresh(self, path: str) -> list[str]:
        """The names of the children, as fresh as `get_fresh`. NoNodeError as there."""
        names: list[str] = await self._fresh(lambda: self.children(path))
        return names

    async def _fresh(self, read: Callable[[], asyncio.Future[Any]]) -> Any:
        """On return `session_id` is the session of the proof."""
        while True:
            # The proof may be shared, its waiters may be cancelled: hence the shields.
            proof = await asyncio.shield(self._next_proof or self._prepare_proof())
            session_id = self.session_id
            found = read()
            self.forget(found)  # unless the proof comes first
            [answer] = await asyncio.shield(proof)
            # That there is no cluster's root is agreed on in the same way.
            if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
                raise self.failures.of_answer(answer, is_change=False)
            await asyncio.wait([found])
            # Within a session no server answers that knows less than an earlier one; a new one may begin anywhere.
            if self.session_id == session_id:
                return found.result()

    def _prepare_proof(self) -> asyncio.Future[asyncio.Future[Any]]:
        """That our server has what any server had confirmed before it was asked: one for all that ask in this turn
        of the loop, and sent after it, so that it is later than each of them.

        A transaction that changes nothing, because a quorum has to accept it. It looks at the cluster's root, which
        this client may read; others may have closed that of ZooKeeper to it. `sync` would not do: a leader answers
        it alone, and one that hung while the others elected another does not know what they have confirmed.
        """
        self.check_usable()
        prepared = self._next_proof = self._loop.create_future()
        self._loop.call_soon(self._ask_for_proof, prepared)
        return prepared

    def _ask_for_proof(self, prepared: asyncio.Future[asyncio.Future[Any]]) -> None:
        self._next_proof = None

        def request(client: KazooClient) -> AsyncResult:
            transaction = client.transaction()
            transaction.check(self._root, -1)
            return transaction.commit_async()

        try:
            proof = self._ask(request, change=False)
        except LogStoreError as error:
            prepared.set_exception(error)
            self.forget(prepared)
        else:
            prepared.set_result(proof)
            self.forget(proof)

    def exists(self, path: str) -> asyncio.Future[Any]:
        """The node's stat, or None."""
        return self._ask(lambda client: client.exists_async(path), change=False)

    def children(self, path: str) -> asyncio.Future[list[str]]:
        return self._ask(lambda client: client.get_children_async(path), change=False)

    def commit(self, changes: Sequence[tuple[str, str, bytes]]) -> asyncio.Future[list[Any]]:
        """All of (`create` or `delete`, path, data), or none: then the results hold the errors."""

        def request(client: KazooClient) -> AsyncResult:
            transaction = client.transaction()
            for kind, path, data in changes:
                if kind == "create":
                    transaction.create(path, data)
                else:
                    transaction.delete(path)
            return transaction.commit_async()

        return self._ask(request, change=True)

    def watch_node(self, path: str) -> asyncio.Future[Any]:
        """Have the next change of the node, its coming and going too, told to the listeners."""
        return self._ask(lambda client: client.exists_async(path, self._bridge.on_event), change=False)

    def watch_children(self, path: str) -> asyncio.Future[list[str]]:
        """As `watch_node` for the names of the children. NoNodeError: then nothing is watched."""
        return self._ask(lambda client: client.get_children_async(path, self._bridge.on_event), change=False)

    def end_watch(self, path: str) -> asyncio.Future[bool]:
        """Have changes of the node reported no more. UnimplementedError from servers before ZooKeeper 3.5."""

        def request(client: KazooClient) -> AsyncResult:
            answer = client.handler.async_result()
            # When it comes, so that kazoo keeps the watch of a later request, and that of an earlier one is there.
            answer.rawlink(lambda _: client._data_watchers.pop(path, None))
            client._call(WatchRemoval(path), answer)
            return answer

        return self._ask(request, change=False)

    def forget(self, future: asyncio.Future[Any]) -> None:
        """Nobody waits for this one; what becomes of it matters to nobody."""
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    # ---- how they are carried out

    def check_usable(self) -> None:
        if self._is_closed:
            raise MetadataUnavailableError(f"the metadata store {self.uri} is closed on this handle")
        self._check_process()
        if self._has_died:
            raise self.failures.died()

    def _check_process(self) -> None:
        if self.environment.process_id() != self._process_id:
            raise ConfigurationError(
                f"{self.uri} was opened before this process was forked: open it again in the child"
            )

    def _ask(self, request: Request, *, change: bool, within: int | None = None) -> asyncio.Future[Any]:
        self.check_usable()
        call = _Call(request, change, self._loop.create_future(), within)
        if self._turned_away is not None:
            _settle(call, None, self.failures.must_authenticate())
            return call.future
        self._start_deadline(call)
        self._waiting[call] = None
        self._send()
        return call.future

    def _refused(self, error: Exception) -> asyncio.Future[Any]:
        """The answer of a request that need not be sent."""
        self.check_usable()
        future = self._loop.create_future()
        future.set_exception(error)
        return future

    def _send(self) -> None:
        while self._is_connected and self._waiting and len(self._sent) < _UNDER_WAY_MAX:
            call, _ = self._waiting.popitem(last=False)
            if call.future.done():
                continue  # cancelled or given up before its turn: it is not sent
            if call.within not in (None, self.session_id):
                self._fail(call, ENDED_SESSION)
                continue
            call.is_sent, call.connection = True, self._connections
            self._start_deadline(call)
            self._sent.add(call)
            self._bridge.submit(call, call.request)

    def _start_deadline(self, call: _Call) -> None:
        """One for the way to the server and one for its answer: a long queue is not a slow server."""
        if call.deadline is not None:
            call.deadline.cancel()
        call.deadline = self._loop.call_later(self._request_timeout_s, self._on_deadline, call)

    def _on_deadline(self, call: _Call) -> None:
        self._waiting.pop(call, None)  # without a connection no other step takes it out
        self._is_silent |= call.is_sent
        within = f"within {self._request_timeout_s:g} s"
        was_away = not call.is_sent and not self._is_connected
        self._fail(call, f"could not be reached {within}" if was_away else f"did not answer {within}")

    def _fail(self, call: _Call, what: str) -> None:
        _settle(call, None, self.failures.unanswered(what, is_change=call.is_sent and call.is_change))

    # ---- what comes from kazoo

    def _on_arrival(self, arrival: Arrival) -> None:
        match arrival:
            case Answered(call, value, error):
                self._on_answer(call, value, error)
            case NodeEvent():
                for hear in self.listeners.node_event:
                    hear(arrival)
            case Connected(session_id):
                self._on_connected(session_id)
            case Disconnected(refused, has_ended):
                self._on_disconnected(refused)
                if has_ended and not self._is_closed:
                    self._on_died()

    def _on_answer(self, call: _Call, value: Any, error: Exception | None) -> None:
        self._sent.discard(call)
        if isinstance(error, SessionClosedRequireSaslError):
            self._on_turned_away()
        elif isinstance(error, (ConnectionLostError, SessionExpiredError)):
            # kazoo reports an expired session before its calls, but another loss after them: send nothing between the
            # two. A call that it fails before our thread has asked for the answer is reported by our thread, perhaps
            # after the next connection: that one is not lost.
            if call.connection == self._connections:
                self._is_connected = False
            if self._is_refusing:
                error = SessionClosedRequireSaslError()
        elif not isinstance(error, OtherSessionError):  # otherwise no server has answered
            self._is_silent = False
            if self._is_served is False:
                _log.warning("ZooKeeper at %s serves this client again", self._servers)
            self._is_served = True
        _settle(
            call, value, None if error is None else self.failures.of_answer(error, is_change=call.is_change)
        )
        self._send()

    def _on_turned_away(self) -> None:
        self._is_connected = False
        self._is_refusing = True
        if self._is_served:  # otherwise it is the caller's first request that fails, with this very sentence
            _log.error("%s; trying again every %g s", self.failures.must_authenticate(), _TURNED_AWAY_S)
        self._is_served = False
        if self._turned_away is None:
            self._turned_away = self._loop.call_later(_TURNED_AWAY_S, self._try_again)
        for call in self._waiting:
            _settle(call, None, self.failures.must_authenticate())
        self._waiting.clear()

    def _try_again(self) -> None:
        self._turned_away = None
        if self._linked is not None:
            self._begin(self._linked)

    def _on_connected(self, session_id: int) -> None:
        self._linked = session_id
        self._connections += 1
        self._is_refusing = False
        if not self._first_state.done():
            self._first_state.set_result(True)
        if self._turned_away is None:
            self._begin(session_id)

    def _begin(self, session_id: int) -> None:
        """Use the connection."""
        is_new = session_id != self.session_id
        if self._is_served is False:
            pass  # it may be turned away again; each time would be logged
        elif is_new and self.session_id:
            _log.warning("the ZooKeeper session at %s had expired and a new one has begun", self._servers)
        elif self.session_id:
            _log.warning("the connection to ZooKeeper at %s is back", self._servers)
        self.session_id = session_id
        self._is_silent = self._loss_is_logged = False
        self._is_connected = not self._is_closed
        for hear in self.listeners.connected:
            hear(is_new)
        self._send()

    def _on_disconnected(self, refused: bool) -> None:
        self._is_connected = False
        self._linked = None
        if refused and not self._first_state.done():
            self._first_state.set_result(False)
        if not self._is_closed and self._is_served is not False and not self._loss_is_logged:
            self._loss_is_logged = True
            _log.warning("the connection to ZooKeeper at %s is lost, connecting again", self._servers)

    def _on_died(self) -> None:
        self._has_died = True
        error = self.failures.died()
        _log.error("%s", error)
        for call in self._waiting:
            _settle(call, None, error)
        self._waiting.clear()


def _settle(call: _Call, value: Any, error: Exception | None) -> None:
    if call.deadline is not None:
        call.deadline.cancel()
    if call.future.done():
        return  # cancelled or given up meanwhile; what was done stays done
    if error is not None:
        call.future.set_exception(error)
    else:
        call.future.set_result(value)


def _check_size(path: str, value: bytes) -> None:
    size = len(path.encode()) + len(value)
    if size > _REQUEST_BYTES_MAX:
        raise ConfigurationError(
            f"{path[:100]} and its value have {size} bytes, ZooKeeper takes {_REQUEST_BYTES_MAX}: shorten it"
        )
