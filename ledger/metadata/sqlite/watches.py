"""Which watches to fire after a change. Belongs to the engine: only its thread touches it.

A watch remembers what it has seen (versions, and for ranges also which sessions lived). Our own commits name
the keys they changed; after another process's commit every watch is compared with the file again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from ledger.metadata.store import Watch
from ledger.metadata.transactions.key_value import Transaction

Seen = tuple[object, ...]
_UNKNOWN = object()

URGENT_INTERVAL_S = 0.005
"""While somebody waits for a change. A look takes 6 us; waking up for it 200 times a second some 2 % of a core."""
IDLE_INTERVAL_S = 0.1


@dataclass(eq=False, slots=True)
class Watcher:
    """One watch. `loop` is where `watch` is called, in the context of whoever set it."""

    loop: asyncio.AbstractEventLoop
    watch: Watch
    key: str
    is_range: bool = False
    urgent: bool = False
    active: bool = True
    seen: Seen = ()
    sessions: frozenset[str] = field(default_factory=frozenset)
    context: Context = field(default_factory=copy_context)

    def matches(self, key: str) -> bool:
        return key.startswith(self.key) if self.is_range else key == self.key


class WatchTable:
    def __init__(self) -> None:
        self._watchers: dict[Watcher, None] = {}

    @property
    def interval_s(self) -> float | None:
        """How long a change by another process may stay unnoticed; None when nobody watches."""
        if not self._watchers:
            return None
        urgent = any(watcher.urgent for watcher in self._watchers)
        return URGENT_INTERVAL_S if urgent else IDLE_INTERVAL_S

    def add(self, watcher: Watcher, tx: Transaction | None) -> None:
        self._watchers[watcher] = None
        if tx is not None:
            _look(watcher, tx)

    def remove(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def changed_by_us(self, keys: Iterable[str], tx: Transaction) -> list[Watcher]:
        hit = [watcher for watcher in self._watchers if any(watcher.matches(key) for key in keys)]
        for watcher in hit:
            _look(watcher, tx)
        return hit

    def forget(self, watchers: Iterable[Watcher]) -> None:
        """What these saw was not committed: let the next look count as a change."""
        for watcher in watchers:
            watcher.seen = (_UNKNOWN,)

    def changed_by_others(self, tx: Transaction) -> list[Watcher]:
        return [watcher for watcher in self._watchers if _look(watcher, tx)]

    def ended_sessions(self, tx: Transaction) -> list[Watcher]:
        hit = [
            watcher
            for watcher in self._watchers
            if not all(tx.is_alive(session) for session in watcher.sessions)
        ]
        for watcher in hit:
            _look(watcher, tx)
        return hit


def _look(watcher: Watcher, tx: Transaction) -> bool:
    """Take in the present state; whether it differs from what was seen before."""
    before = watcher.seen, watcher.sessions
    if watcher.is_range:
        nodes = tx.nodes(watcher.key)
        sessions = {node.session for _, node in nodes if node.session is not None}
        watcher.seen = tuple((key, node.version, node.session) for key, node in nodes)
        watcher.sessions = frozenset(session for session in sessions if tx.is_alive(session))
    else:
        node = tx.get(watcher.key)
        watcher.seen = () if node is None else (node.version,)
    return (watcher.seen, watcher.sessions) != before
