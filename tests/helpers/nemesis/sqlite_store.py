"""The metadata of a nemesis run in a SQLite file, and what happens to it: another process holds its lock."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from tests.helpers.nemesis.chaos import Action, Chaos


class SqliteStore:
    def __init__(self, directory: Path) -> None:
        self._path = directory / "meta.db"

    async def start(self) -> None:
        """The first client creates the file."""

    async def uri_for(self, client: str) -> str:
        return f"sqlite:///{self._path}"

    def actions(self, chaos: Chaos) -> list[tuple[int, Action]]:
        return [(3, lambda: self._lock(chaos))]

    async def heal(self) -> None:
        """A lock ends by itself."""

    async def close(self) -> None:
        """The file goes with its directory."""

    async def _lock(self, chaos: Chaos) -> None:
        connection = sqlite3.connect(self._path, timeout=1.0, isolation_level=None, check_same_thread=False)
        try:
            await asyncio.to_thread(connection.execute, "BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            connection.close()
            return
        chaos.fault("lock the store", str(self._path.name))

        async def unlock() -> None:
            chaos.note("unlock the store")
            connection.close()

        chaos.later(chaos.random.uniform(0.1, 3.0), unlock)
