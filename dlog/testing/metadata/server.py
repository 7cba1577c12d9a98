"""The twin of a metadata store: one linearizable server, far enough away that everything can go wrong in between.

A request decides at one instant on the server, a drawn time after the call and before the answer. What the jobs
do is what the memory and SQLite drivers do (ledger/metadata/*_jobs.py). The faults are those that the rules of
`ledger/metadata/store.py` allow, see faults.MetadataFault; besides them sessions end and nodes are cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from dlog.testing.kernel.faults import Faults, MetadataFault
from dlog.testing.kernel.nodes import NODE
from dlog.testing.kernel.notes import Notes, Span, Streams
from dlog.testing.metadata.history import RegisterHistory
from dlog.testing.metadata.session import Request, Session, Watcher
from dlog.testing.metadata.store import SimulatedStore
from dlog.testing.metadata.timing import MetadataTiming
from ledger.environment import Environment, SystemEnvironment
from ledger.errors import (
    ConfigurationError,
    LedgerNotFoundError,
    LogStoreError,
    MetadataUnavailableError,
    RecordNotFoundError,
)
from ledger.metadata.drivers import register_driver
from ledger.metadata.format.ledger import decode_ledger_metadata
from ledger.metadata.memory import MemoryCluster, MemoryTransaction
from ledger.metadata.store import MetadataStore
from ledger.metadata.transactions import ledgers, records, sessions
from ledger.metadata.transactions.cluster import COOKIE_PREFIX
from ledger.metadata.transactions.key_value import Job, Node, Transaction
from ledger.metadata.uri import MetadataUri
from ledger.model import BookieId, LedgerId, LedgerMetadata

SCHEME = "simulated"


class SimulatedMetadata:
    """The server. Made within the context it shall run in; what it does survives the nodes that ask for it.

    `simulated:NAME` opens a handle on it, for the node that the environment's host name tells.
    """

    def __init__(
        self, stream: Streams, notes: Notes, name: str = "cluster", *, timing: MetadataTiming | None = None
    ) -> None:
        self.name = name
        self.uri = f"{SCHEME}:{name}"
        self.timing = timing or MetadataTiming()
        self.faults: Faults[MetadataFault] = Faults(stream("metadata.faults"), notes, "metadata")
        self.history = RegisterHistory()
        self.on_change: list[Callable[[str, str, Node | None], None]] = []
        """Each is called with who changed which key, and what it holds then."""
        self.on_change_sent: Callable[[str], None] = lambda _: None
        """Called with the node's name when it sends a request that is to change something."""
        self._chance = stream("metadata.timing")
        self._notes = notes
        self._context = copy_context()
        self._cluster = MemoryCluster()
        self._sessions: list[Session] = []
        self._cut_off: dict[str, None] = {}
        self._held: list[Request] = []
        _servers[name] = self
        register_driver(SCHEME, _open)

    def connect(self, node: str, environment: Environment, *, query: str = "") -> MetadataStore:
        """A handle for the node, in whose context this is called."""
        uri = f"{self.uri}?{query}" if query else self.uri
        session = Session(self, node, environment.new_uuid(), uri)
        self.welcome(session, [])
        return SimulatedStore(session, environment, self.history)

    # ---- facts

    def ledger(self, ledger_id: int) -> LedgerMetadata | None:
        """As the server holds it at this instant; None if there is none."""
        try:
            node = ledgers.read(MemoryTransaction(self._cluster), ledger_id)
        except LedgerNotFoundError:
            return None
        return decode_ledger_metadata(node.value)

    def ledger_ids(self) -> list[LedgerId]:
        """Likewise, rising."""
        return ledgers.page(MemoryTransaction(self._cluster), 0, len(self._cluster.nodes))

    def cookie(self, bookie_id: BookieId) -> bytes | None:
        """Likewise."""
        try:
            return records.read(MemoryTransaction(self._cluster), COOKIE_PREFIX, bookie_id).value
        except RecordNotFoundError:
            return None

    # ---- steering

    def partition(self, node: str) -> None:
        """Nothing passes between the node and the server until `heal`; sessions that time out until then end."""
        self.faults.note("metadata_partition", node)
        self._cut_off[node] = None

    def heal(self, node: str) -> None:
        """The node's handles notice that they had lost the connection. Requests on the way arrive now, or never."""
        self._cut_off.pop(node, None)
        self._notes.note("metadata.heal", node, "")
        held, self._held = self._held, []
        for request in held:
            if request.session.node != node:
                self._held.append(request)
            elif not request.in_order and self.faults.chance.random() < 0.5:
                request.late = True
                self._later(self.timing.request_s, self._receive, request)
        for session in self._sessions_of(node):
            self._send(session, (0.0, 0.0), session.lost_connection)

    def expire(self, node: str) -> None:
        """End the node's sessions although it lives: registrations vanish; the node hears of it later."""
        for session in self._sessions_of(node):
            self._end(session, "expired by order")

    @property
    def cut_off(self) -> list[str]:
        """The nodes that cannot reach the server, in the order in which that happened."""
        return list(self._cut_off)

    def is_cut_off(self, node: str) -> bool:
        return node in self._cut_off

    def draw(self, span: Span) -> float:
        return self._chance.uniform(*span)

    def replace_record(self, key: str, value: bytes | None) -> bytes | None:
        """Put `value` where the record is, or nothing, as no client asked for; returns what was there."""
        return self._replace(records.PREFIX + key, value)

    def replace_ledger(self, ledger_id: int, value: bytes | None) -> bytes | None:
        """The same with the metadata of a ledger."""
        return self._replace(ledgers.watch_key(ledger_id), value)

    def _replace(self, key: str, value: bytes | None) -> bytes | None:
        def replace(tx: Transaction) -> bytes | None:
            found = tx.get(key)
            if found is None:
                if value is not None:
                    tx.create(key, value)
                return None
            if value is None:
                tx.remove(key, found.version)
            else:
                tx.update(key, value, found.version)
            return found.value

        self.faults.note("lost_value", key)
        was: bytes | None = self._run(replace, self.name)
        return was

    # ---- requests

    def send(self, request: Request) -> None:
        """Take a request from its client. It has a way to go, and so has the answer."""
        node, faults, timing = request.session.node, self.faults, self.timing
        if request.changes:
            self.on_change_sent(node)
        if self.is_cut_off(node):
            self._held.append(request)
        elif faults.strikes("metadata_unavailable", node):
            error = MetadataUnavailableError(f"{self.uri} cannot be reached: try again")
            self._lose_watchers(request)
            self._answer(request, None, error)
        elif faults.strikes("metadata_request_lost", node):
            self._lose_watchers(request)
            self._send(request.session, timing.reconnect_s, request.give_up, "the connection broke")
        elif not request.in_order and faults.strikes("metadata_request_late", node):
            request.late = True
            gone_s = self.draw(timing.reconnect_s)
            self._send(request.session, (gone_s, gone_s), request.give_up, "the connection broke")
            spans = (timing.late_s, timing.just_late_s)
            late_s = gone_s + self.draw(self.faults.chance.choice(spans))
            self._later((late_s, late_s), self._receive, request)
        else:
            self._later(timing.request_s, self._receive, request)

    def _lose_watchers(self, request: Request) -> None:
        request.session.not_heard(request.watchers)

    def _receive(self, request: Request) -> None:
        """The instant that decides."""
        session = request.session
        if not session.server_side.alive:
            # As a server does whose session has ended: the request has no effect, and the client connects anew.
            self._lose_watchers(request)
            self._answer(
                request, None, MetadataUnavailableError(f"the session at {self.uri} has ended: try again")
            )
            self._send(session, self.timing.answer_s, session.lost_connection)
            return
        self._hear(session)
        session.server_side.watchers += [watcher for watcher in request.watchers if watcher.active]
        value, error = None, None
        try:
            value = self._run(request.job, session.node)
        except LogStoreError as refused:
            error = refused.with_traceback(None)  # the client sees nothing of where it came from
        if request.late:
            return
        if self.faults.strikes("metadata_answer_lost", session.node):
            self._send(session, self.timing.reconnect_s, request.give_up, "the connection broke")
        else:
            self._answer(request, value, error)

    def _answer(self, request: Request, value: Any, error: LogStoreError | None) -> None:
        self._send(request.session, self.timing.answer_s, self._arrive, request, value, error)

    def _arrive(self, request: Request, value: Any, error: LogStoreError | None) -> None:
        if not self.is_cut_off(request.session.node):  # otherwise the client waits until it gives up
            request.settle(value, error)

    def _run(self, job: Callable[[Transaction], Any], node: str) -> Any:
        tx = MemoryTransaction(self._cluster)
        result = job(tx)
        for key in sorted(tx.changed):  # a set: its own order is another in each process
            self._notes.note("metadata.change", self.name, key)
            for changed in self.on_change:
                changed(node, key, tx.get(key))
            self._fire(key)
        return result

    # ---- watches

    def _fire(self, key: str) -> None:
        for session in self._sessions:
            for watcher in session.server_side.watchers:
                if watcher.matches(key):
                    self._notify(watcher)
                elif self.faults.strikes("watch_spurious", watcher.fire_on):
                    self._send(session, self.timing.watch_s, session.deliver, watcher)

    def _notify(self, watcher: Watcher) -> None:
        session = watcher.session
        if self.faults.strikes("watch_lost", watcher.fire_on):
            self._send(session, self.timing.late_s, session.lost_connection)
        else:
            late = self.faults.strikes("watch_late", watcher.fire_on)
            span = self.timing.late_s if late else self.timing.watch_s
            self._send(session, span, session.deliver, watcher)

    def forget(self, watcher: Watcher) -> None:
        watchers = watcher.session.server_side.watchers
        if watcher in watchers:
            watchers.remove(watcher)

    # ---- sessions

    def welcome(self, session: Session, watchers: list[Watcher]) -> None:
        """A session begins, or goes on over a new connection with these watches."""
        session.server_side.watchers = watchers
        session.server_side.alive = True
        self._hear(session)
        self._cluster.sessions.add(session.name)
        if session not in self._sessions:
            self._sessions.append(session)
        if not session.server_side.is_checked:
            session.server_side.is_checked = True
            self._check(session)

    def beat(self, session: Session) -> None:
        """The client says that it lives."""
        if not self.is_cut_off(session.node):
            self._later(self.timing.request_s, self._hear_beat, session)

    def _hear_beat(self, session: Session) -> None:
        if session.server_side.alive:
            self._hear(session)
        else:
            self._send(session, self.timing.answer_s, session.lost_connection)

    def _hear(self, session: Session) -> None:
        session.server_side.heard_at = asyncio.get_running_loop().time()

    def _check(self, session: Session) -> None:
        """End the session when its time is over, else look again when it may be."""
        if session not in self._sessions:
            session.server_side.is_checked = False
            return
        due = session.server_side.heard_at + self.timing.session_timeout_s
        wait_s = due - asyncio.get_running_loop().time()
        if wait_s > 0:
            self._later((wait_s, wait_s), self._check, session)
        else:
            session.server_side.is_checked = False
            self._end(session, "timed out")

    def _end(self, session: Session, why: str) -> None:
        if _owner_lives(session):
            self.faults.note("session_loss", f"{session.node}: {why}")
        self._leave(session)
        self._run(partial(sessions.end_session, session=session.name), session.node)

    def goodbye(self, session: Session) -> Job[None]:
        """The job that ends a session in good order."""

        def end(tx: Transaction) -> None:
            self._leave(session)
            sessions.end_session(tx, session.name)

        return end

    def _leave(self, session: Session) -> None:
        session.server_side.alive = False
        session.server_side.watchers = []
        self._cluster.sessions.discard(session.name)
        if session in self._sessions:
            self._sessions.remove(session)

    def _sessions_of(self, node: str) -> list[Session]:
        return [session for session in self._sessions if session.node == node]

    # ---- time and place

    def _later(self, span: Span, work: Callable[..., None], *arguments: Any) -> None:
        """On the server: no end of any client's process prevents it."""
        loop = asyncio.get_running_loop()
        loop.call_later(self.draw(span), work, *arguments, context=self._context)

    def _send(self, session: Session, span: Span, work: Callable[..., None], *arguments: Any) -> None:
        """On the client's node, if that still runs then."""
        loop = asyncio.get_running_loop()
        loop.call_later(self.draw(span), work, *arguments, context=session.context)


def _owner_lives(session: Session) -> bool:
    """Whether anybody loses something when the session ends."""
    node = session.context.get(NODE)
    return node is None or node.alive


_servers: WeakValueDictionary[str, SimulatedMetadata] = WeakValueDictionary()
"""The last server of each name."""


async def _open(uri: MetadataUri, environment: Environment) -> MetadataStore:
    server = _servers.get(uri.rest)
    if server is None:
        raise ConfigurationError(f"no simulated metadata store is named {uri.rest!r}: make one first")
    if type(environment) is SystemEnvironment:  # its clock and randomness are not the seed's
        raise ConfigurationError(
            "a simulated cluster is reached from its simulation only: use cluster.client(), or connect with "
            "environment=cluster.environment(); a test of the blocking API needs real processes, as dlog_cluster has"
        )
    return server.connect(environment.host_name(), environment, query=uri.query)
