"""A cursor as one reader holds it. It only moves forward, and one change of it is under way at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

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
        self.ref = ref
        self._stored = taken
        self._environment = environment
        self._wanted = _Wanted(self.value.position, None)
        self._asked = self._made = 0
        """Number of acknowledgements, and of those that a change has made."""
        self._changing = asyncio.Lock()

    @property
    def value(self) -> Cursor:
        """As it was last seen in the store."""
        cursor = self._stored.value.cursor
        assert cursor is not None, "a removed cursor is not held"
        return cursor

    async def ack(self, position: MessageId, properties: Mapping[str, str] | None) -> None:
        """Move it to `position`, unless it is there or beyond already; `properties` replace those that it has.

        Those of a position that it is beyond are left out: they say nothing about where it is.

        Acknowledgements that come while one is on its way to the store are made by one change. One that was cancelled
        or has failed may be made by the next one's.

        Raises:
            The errors of `CursorStore.move`.
            ConfigurationError: the properties are no texts, too many or too long.
        """
        given = None if properties is None else checked_properties(properties)
        if position < self._wanted.position or given is None:
            given = self._wanted.properties
        self._wanted = _Wanted(max(self._wanted.position, position), given)
        self._asked = mine = self._asked + 1
        async with self._changing:
            if self._made >= mine:
                return
            now, wanted, asked = self.value, self._wanted, self._asked
            if wanted.position > now.position or wanted.properties not in (None, now.properties):
                changed = replace(
                    now,
                    position=wanted.position,
                    properties=now.properties if wanted.properties is None else wanted.properties,
                    updated_us=self._environment.wall_us(),
                )
                self._stored = await self._cursors.move(self.ref, changed, self._stored)
            self._made = asked


class _Wanted(NamedTuple):
    """What all acknowledgements so far come to. A position is never stored with the properties of another one."""

    position: MessageId
    properties: tuple[tuple[str, str], ...] | None
    """None: those that it has."""
