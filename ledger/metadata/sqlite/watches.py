"""Which watches to fire after a change. Belongs to the engine: only its thread touches it.

A watch remembers what it has seen (versions, and for ranges also which sessions lived). Our own commits name
the keys they changed; after another process's commit every watch is compared with the file again.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from ledger.metadata.errors import MetadataStoreDamagedError
from ledger.metadata.sqlite.errors import is_damage
from ledger.metadata.sqlite.transaction import SqliteTransaction
from ledger.metadata.store import Watch

Seen = tuple[object, ...]
_UNKNOWN, _DAMAGED = object(), object()

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
    """Thousands of keys may be watched: only what has changed, or may have ended, is looked at."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Watcher, None]] = {}
        self._ranges: dict[Watcher, None] = {}
        self._urgent = 0

    @property
    def interval_s(self) -> float | None:
        """How long a change by another process may stay unnoticed; None when nobody watches."""
        if not self._by_key and not self._ranges:
            return None
        return URGENT_INTERVAL_S if self._urgent else IDLE_INTERVAL_S

    def add(self, watcher: Watcher, tx: SqliteTransaction | None) -> None:
        """`tx`: None while the file cannot be read. Then the next look counts as a change, also if it finds nothing."""
        watchers = self._ranges if watcher.is_range else self._by_key.setdefault(watcher.key, {})
        if watcher not in watchers:  # a lock of another process lets the engine add it again
            watchers[watcher] = None
            self._urgent += watcher.urgent
        if tx is None:
            self.forget([watcher])
        else:
            _look(watcher, tx)

    def remove(self, watcher: Watcher) -> None:
        watchers = self._ranges if watcher.is_range else self._by_key.get(watcher.key, {})
        if watcher not in watchers:
            return
        del watchers[watcher]
        self._urgent -= watcher.urgent
        if not watcher.is_range and not watchers:
            del self._by_key[watcher.key]

    def changed_by_us(self, keys: Iterable[str], tx: SqliteTransaction) -> list[Watcher]:
        """If it raises, nothing must be committed."""
        changed = sorted(keys)
        hit = [watcher for key in changed for watcher in self._by_key.get(key, ())]
        hit += [watcher for watcher in self._ranges if any(watcher.matches(key) for key in changed)]
        try:
            for watcher in hit:
                _look(watcher, tx)
        except sqlite3.Error:
            self.forget(hit)
            raise
        return hit

    def forget(self, watchers: Iterable[Watcher]) -> None:
        """What these saw was not committed, or they saw nothing: let the next look count as a change."""
        for watcher in watchers:
            watcher.seen = (_UNKNOWN,)

    def changed_by_others(self, tx: SqliteTransaction, hit: list[Watcher]) -> None:
        """Add those to fire to `hit`, each as soon as it has seen its change: if this raises, they must fire too."""
        versions = tx.versions(self._by_key)
        for key, watchers in self._by_key.items():
            seen = (versions[key],) if key in versions else ()
            for watcher in watchers:
                if watcher.seen != seen:
                    watcher.seen = seen
                    hit.append(watcher)
        for watcher in self._ranges:
            if _look(watcher, tx):
                hit.append(watcher)

    def ended_sessions(self, tx: SqliteTransaction, hit: list[Watcher]) -> None:
        """As `changed_by_others`."""
        for watcher in self._ranges:
            if not all(tx.is_alive(session) for session in watcher.sessions):
                _look(watcher, tx)
                hit.append(watcher)


def _look(watcher: Watcher, tx: SqliteTransaction) -> bool:
    """Take in the present state; whether it differs from what was seen before. Damage is a state: reads report it, and
    other watches go on.
    """
    before = watcher.seen, watcher.sessions
    try:
        _take_in(watcher, tx)
    except (MetadataStoreDamagedError, UnicodeDecodeError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and not is_damage(error):
            raise
        watcher.seen, watcher.sessions = (_DAMAGED,), frozenset()
    return (watcher.seen, watcher.sessions) != before


def _take_in(watcher: Watcher, tx: SqliteTransaction) -> None:
    if watcher.is_range:
        nodes = tx.nodes(watcher.key)
        sessions = {node.session for _, node in nodes if node.session is not None}
        watcher.seen = tuple((key, node.version, node.session) for key, node in nodes)
        watcher.sessions = frozenset(session for session in sessions if tx.is_alive(session))
    else:
        node = tx.get(watcher.key)
        watcher.seen = () if node is None else (node.version,)
