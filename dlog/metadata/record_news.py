"""Reads a log's record again after each change of it, while its reader goes on with what it does.

A tail would otherwise deliver nothing during such a read, which a rotation needs only once the ledger is sealed. The
cheapest read will do, since it shows the change that the watch has reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dlog.ledger_list.window import ListWindow
from dlog.model import LogMetadata
from ledger.errors import LogStoreError
from ledger.model import Versioned
from ledger.signal import Signal
from ledger.tasks import start_task

Found: TypeAlias = tuple[Versioned[LogMetadata], ListWindow]
"""The record, and the part of its list that the reader is in."""


class RecordNews:
    """Of one reader. What `take` or `read` returns is never older than what was returned before."""

    def __init__(self, read: Callable[[bool], Awaitable[Found]]) -> None:
        """`read` gets whether the read must be linearizable."""
        self._read_record = read
        self._version = -1
        """Of the record that was returned last."""
        self._has_changed = False
        self._is_reading = False
        self._task: asyncio.Task[Found | LogStoreError] | None = None
        self.arrived = Signal()
        """Set when there may be something for `take`."""

    def changed(self) -> None:
        """The watch on the record fired."""
        self._has_changed = True
        self._look()

    def take(self) -> Found | LogStoreError | None:
        """What was read since the last call, or the error of that read; None if there is nothing new."""
        if not self.arrived.is_set():
            return None
        assert self._task is not None
        found = self._task.result()
        self._drop()
        self._look()
        if isinstance(found, LogStoreError):
            return found
        # In a new session of the store the cheapest read may show an older record.
        return self._returned(found) if found[0].version > self._version else None

    async def read(self) -> Found:
        """The record as of now or later, read linearizably. A read that has begun before is given up.

        Raises:
            The errors of reading the record.
        """
        self._drop()
        self._has_changed = False
        self._is_reading = True
        try:
            return self._returned(await self._read_record(True))
        finally:
            self._is_reading = False
            self._look()

    def close(self) -> None:
        """Read no more."""
        self._is_reading = True
        self._drop()

    def _returned(self, found: Found) -> Found:
        self._version = found[0].version
        return found

    def _look(self) -> None:
        if self._has_changed and not self._is_reading and self._task is None:
            self._has_changed = False
            self._task = start_task(self._outcome())
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Found | LogStoreError]) -> None:
        if task is self._task:
            self.arrived.set()

    def _drop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.arrived.clear()

    async def _outcome(self) -> Found | LogStoreError:
        try:
            return await self._read_record(False)
        except LogStoreError as error:
            return error
