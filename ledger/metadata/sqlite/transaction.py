"""Transaction over one SQLite connection (key_value.py has the meaning of each call)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from ledger.metadata.sqlite.errors import damaged
from ledger.metadata.transactions.key_value import Node

_COLUMNS = "value, version, session"
_VERSION_MAX = 2**63 - 1
"""SQLite takes no greater number."""
_KEYS_AT_ONCE = 500
"""Below the number of parameters that every build of SQLite takes in a statement, 999."""


class SqliteTransaction:
    """Lives as long as its connection; whoever runs jobs takes `changed` and empties it."""

    def __init__(self, connection: sqlite3.Connection, path: str, is_alive: Callable[[str], bool]) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._path = path
        self._is_alive = is_alive
        self.changed: set[str] = set()

    @property
    def writes(self) -> int:
        """Rows that this connection has changed so far, those included that it changed more than once."""
        return self._connection.total_changes

    def get(self, key: str) -> Node | None:
        row = self._execute(f"SELECT {_COLUMNS} FROM nodes WHERE key = ?", (key,)).fetchone()
        return None if row is None else self._node(*row)

    def versions(self, keys: Iterable[str]) -> dict[str, object]:
        """The versions of those that exist; no int where it is damaged. A fraction of the cost of a `get` for each."""
        found: dict[str, object] = {}
        wanted = list(keys)
        for start in range(0, len(wanted), _KEYS_AT_ONCE):
            some = wanted[start : start + _KEYS_AT_ONCE]
            places = ",".join("?" * len(some))
            found.update(self._execute(f"SELECT key, version FROM nodes WHERE key IN ({places})", some))
        return found

    def keys(self, prefix: str, *, start: str = "", limit: int) -> list[str]:
        rows = self._execute(
            "SELECT key FROM nodes WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
            (max(prefix, start), _end(prefix), limit),
        )
        return [key for (key,) in rows]

    def nodes(self, prefix: str) -> list[tuple[str, Node]]:
        rows = self._execute(
            f"SELECT key, {_COLUMNS} FROM nodes WHERE key >= ? AND key < ? ORDER BY key",
            (prefix, _end(prefix)),
        ).fetchall()  # a statement that a damaged row ends keeps its lock while that error is kept
        return [(key, self._node(*row)) for key, *row in rows]

    def create(self, key: str, value: bytes, session: str | None = None) -> bool:
        return self._change(
            key,
            "INSERT OR IGNORE INTO nodes (key, version, value, session) VALUES (?, 0, ?, ?)",
            value,
            session,
        )

    def update(self, key: str, value: bytes, version: int) -> bool:
        if version > _VERSION_MAX:
            return False
        done = self._execute(
            "UPDATE nodes SET value = ?, version = version + 1 WHERE key = ? AND version = ?",
            (value, key, version),
        )
        return self._note(key, done.rowcount)

    def remove(self, key: str, version: int | None = None) -> bool:
        if version is None:
            done = self._execute("DELETE FROM nodes WHERE key = ?", (key,))
        elif version > _VERSION_MAX:
            return False
        else:
            done = self._execute("DELETE FROM nodes WHERE key = ? AND version = ?", (key, version))
        return self._note(key, done.rowcount)

    def remove_range(self, prefix: str) -> None:
        bounds = (prefix, _end(prefix))
        self.changed.update(
            key for (key,) in self._execute("SELECT key FROM nodes WHERE key >= ? AND key < ?", bounds)
        )
        self._execute("DELETE FROM nodes WHERE key >= ? AND key < ?", bounds)

    def is_alive(self, session: str) -> bool:
        return self._is_alive(session)

    def _node(self, value: object, version: object, session: object) -> Node:
        if isinstance(value, bytes) and isinstance(version, int) and isinstance(session, str | None):
            return Node(value, version, session)
        raise damaged(self._path, "a value has the wrong type")

    def _change(self, key: str, statement: str, value: bytes, session: str | None) -> bool:
        return self._note(key, self._execute(statement, (key, value, session)).rowcount)

    def _note(self, key: str, rows: int) -> bool:
        if rows == 1:
            self.changed.add(key)
        return rows == 1


def _end(prefix: str) -> str:
    """The least string above all that begin with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
