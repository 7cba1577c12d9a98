"""A cursor as one reader holds it. It only moves forward, and one change of it is under way at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from dlog.format.properties import checked_properties
from dlog.metadata.cursor_store import CursorStore
from dlog.metadata.log_ref import LogRef
from dlog.model import Cursor, MessageId, StoredCursor
from ledger.environment import Environment
from ledger.model import Versioned


class HeldCursor:
    """Taken over by `CursorStore.take`; belongs to one reader."""

    def __init__(
        self, cursors: CursorStore, ref: LogRef, taken: Versioned[StoredCursor], environment: Environment
    ) -> None:
        self._cursors = cursors
        self._ref = ref
        self._stored = taken
        self._environment = environment
        self._wanted = self.value.position
        self._changing = asyncio.Lock()

    @property
    def value(self) -> Cursor:
        """As it was last seen in the store."""
        cursor = self._stored.value.cursor
        assert cursor is not None, "a removed cursor is not held"
        return cursor

    async def ack(self, position: MessageId, properties: Mapping[str, str] | None) -> None:
        """Move it to `position`, unless it is there or beyond already; `properties` replace those that it has.

        Acknowledgements that come while one is on its way to the store are made by one change. A cancelled one may be
        made.

        Raises:
            The errors of `CursorStore.move`.
            ConfigurationError: the properties are no texts, too many or too long.
        """
        wanted = None if properties is None else checked_properties(properties)
        self._wanted = max(self._wanted, position)
        async with self._changing:
            now = self.value
            if now.position >= position and wanted in (None, now.properties):
                return
            changed = replace(
                now,
                position=self._wanted,
                properties=now.properties if wanted is None else wanted,
                updated_us=self._environment.wall_us(),
            )
            self._stored = await self._cursors.move(self._ref, changed, self._stored)
