"""Trims a log and deletes its old ledgers while it is written: once at a time, however often its writer rotates."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata
from dlog.write.task_scope import TaskScope
from ledger.errors import LogStoreError, NotFoundError, OutcomeUnknownError, UnavailableError

_log = logging.getLogger(__name__)

Tidy = Callable[[LogMetadata], Awaitable[None]]
"""Trims and deletes what is no longer needed, as this record says."""


class Tidying:
    """Of one writer."""

    __slots__ = ("_is_running", "_ref", "_tasks", "_tidy", "_wanted")

    def __init__(self, ref: LogRef, tasks: TaskScope, tidy: Tidy) -> None:
        self._ref = ref
        self._tasks = tasks
        self._tidy = tidy
        self._wanted: LogMetadata | None = None
        self._is_running = False

    def start(self, record: LogMetadata) -> None:
        """The deletion of a long history outlasts many rotations: while it runs, the latest record waits."""
        self._wanted = record
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run())

    async def _run(self) -> None:
        """On failure the next rotation, or the next owner, tries again."""
        while (record := self._wanted) is not None:
            self._wanted = None
            try:
                await self._tidy(record)
            except (UnavailableError, OutcomeUnknownError, NotFoundError) as error:
                _log.debug("log %s: nothing was trimmed or deleted: %s", self._ref, error)
            except LogStoreError as error:
                _log.warning("log %s: nothing was trimmed or deleted: %s", self._ref, error)
        self._is_running = False
