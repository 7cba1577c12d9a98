"""Watches that stay: ZooKeeper's fire once and end with the connection, so each is set again by itself.

Invariant: a watcher is told after the request that sets the watch again was made, and requests reach the server in
order. So whatever it reads once it was told, a change after that is told again. After a connection was lost
everybody is told once, as nothing is known about the time between. An early watcher is told before any answer that
knows of the change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kazoo.exceptions import NoNodeError, UnimplementedError

from ledger.errors import LogStoreError
from ledger.metadata.store import Unwatch, Watch
from ledger.metadata.zookeeper.session.kazoo_bridge import NodeEvent
from ledger.metadata.zookeeper.session.session import ZooKeeperSession

UNWATCHED_MAX = 256
"""Watches that are kept although nothing needs them: the next one who watches the node need not set one."""
_AGAIN_S = 1.0
"""Pause before a watch is set again that the server refused for another reason than the connection."""


@dataclass(eq=False, slots=True)
class _Watcher:
    """`context` is that of whoever watches: a change is made by somebody else."""

    watch: Watch
    is_early: bool
    active: bool = True
    context: Context = field(default_factory=copy_context)


@dataclass(slots=True)
class _Kind:
    """All watches on nodes, or all on their children. `ask` sets one at the server; `is_set` has those that are."""

    ask: Callable[[str], asyncio.Future[Any]]
    watchers: dict[str, dict[_Watcher, None]] = field(default_factory=dict)
    is_set: set[str] = field(default_factory=set)


class Watches:
    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._nodes = _Kind(session.watch_node)
        self._children = _Kind(session.watch_children)
        self._unwatched: dict[str, None] = {}
        """Nodes with a watch at the server that nothing needs any more, the first one to end first."""
        self._can_end = True
        """Until a server does not know how: one before ZooKeeper 3.5, which then also closes the connection."""
        self._in_place: set[str] = set()
        """Nodes that were missing when their children were to be watched. Their coming is reported to all who watch
        these, also while another request for the children is under way."""
        session.listeners.node_event.append(self._on_event)
        session.listeners.connected.append(self._on_connected)

    def watch_node(self, path: str, watch: Watch, *, early: bool = False) -> Unwatch:
        """Be called when the node comes, goes or gets another value."""
        return self._add(self._nodes, path, watch, early)

    def watch_children(self, path: str, watch: Watch, *, early: bool = False) -> Unwatch:
        """Be called when the node gets or loses children; it may come later itself."""
        return self._add(self._children, path, watch, early)

    def _add(self, kind: _Kind, path: str, watch: Watch, early: bool) -> Unwatch:
        self._session.check_usable()
        watcher = _Watcher(watch, early)
        kind.watchers.setdefault(path, {})[watcher] = None
        if kind is self._nodes:
            self._unwatched.pop(path, None)
        self._set(kind, path)
        return partial(self._remove, kind, path, watcher)

    def _remove(self, kind: _Kind, path: str, watcher: _Watcher) -> None:
        watcher.active = False
        watchers = kind.watchers.get(path, {})
        watchers.pop(watcher, None)
        if watchers or path not in kind.watchers:
            return
        del kind.watchers[path]
        if kind is self._nodes and path in kind.is_set:
            self._unwatched[path] = None
            if len(self._unwatched) > UNWATCHED_MAX:
                self._end_oldest()

    def _end_oldest(self) -> None:
        """Have the server forget a watch: a tail passes any number of ledgers, and closed ones do not change."""
        path = next(iter(self._unwatched))
        self._unwatched.pop(path)
        self._nodes.is_set.discard(path)
        if self._can_end and self._session.is_connected and path not in self._in_place:
            self._session.end_watch(path).add_done_callback(self._on_ended)

    def _on_ended(self, asked: asyncio.Future[bool]) -> None:
        # Any other error: the watch has ended with its event, or with the connection.
        if not asked.cancelled() and isinstance(asked.exception(), UnimplementedError):
            self._can_end = False

    def _on_event(self, event: NodeEvent) -> None:
        if event.of_children or event.deleted:
            self._on_change(self._children, event.path)
        if not event.of_children:
            self._on_change(self._nodes, event.path)
            if event.path in self._in_place or event.path not in self._children.is_set:
                self._in_place.discard(event.path)
                self._on_change(self._children, event.path)

    def _on_connected(self, _is_new: bool) -> None:
        self._in_place.clear()
        self._unwatched.clear()
        for kind in (self._nodes, self._children):
            kind.is_set.clear()
            for path in tuple(kind.watchers):
                self._on_change(kind, path)

    def _on_change(self, kind: _Kind, path: str) -> None:
        kind.is_set.discard(path)
        if kind is self._nodes:
            self._unwatched.pop(path, None)
        self._set(kind, path)
        for watcher in tuple(kind.watchers.get(path, ())):
            if watcher.is_early:
                _call(watcher)
            else:
                self._loop.call_soon(_call, watcher, context=watcher.context)

    def _set(self, kind: _Kind, path: str) -> None:
        # Without a connection there is nothing to do: all are set once there is one.
        if path in kind.watchers and path not in kind.is_set and self._session.is_connected:
            kind.is_set.add(path)
            kind.ask(path).add_done_callback(partial(self._on_set, kind, path))

    def _on_set(self, kind: _Kind, path: str, asked: asyncio.Future[object]) -> None:
        error = None if asked.cancelled() else asked.exception()
        if isinstance(error, NoNodeError):
            self._set_in_place(kind, path)
        elif error is not None:
            self._set_later(kind, path, error)

    def _set_later(self, kind: _Kind, path: str, error: BaseException) -> None:
        """Without a connection nothing is due: all are set when there is one."""
        if not isinstance(error, LogStoreError):
            raise error
        kind.is_set.discard(path)
        if self._session.is_connected:
            self._loop.call_later(_AGAIN_S, self._on_change, kind, path)

    def _set_in_place(self, kind: _Kind, path: str) -> None:
        """Watch for the coming of a node whose children are to be watched."""
        # Before it is asked: the event that the node has come may arrive with the answer, and be heard before it.
        kind.is_set.discard(path)
        self._in_place.add(path)

        def on_set(asked: asyncio.Future[object]) -> None:
            if asked.cancelled():
                return
            if (error := asked.exception()) is not None:
                self._in_place.discard(path)
                self._set_later(kind, path, error)
            elif asked.result() is not None:
                self._in_place.discard(path)
                self._on_change(kind, path)

        self._session.watch_node(path).add_done_callback(on_set)


def _call(watcher: _Watcher) -> None:
    if watcher.active:
        watcher.watch()
