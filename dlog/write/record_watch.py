"""The record as its owner follows it: read again after every change that another client makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dlog.core.metadata_update import same_ownership
from dlog.errors import LogNotFoundError
from dlog.metadata.grace import EpochGuard
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata
from dlog.write.task_scope import TaskScope
from ledger.errors import MetadataUnavailableError
from ledger.model import Versioned


class RecordWatch:
    """Reports the record that was read; each read that shows the own epoch confirms it. One read at a time."""

    def __init__(
        self,
        logs: LogMetadataStore,
        ref: LogRef,
        guard: EpochGuard,
        tasks: TaskScope,
        *,
        ours: Callable[[], LogMetadata],
        pause_s: Callable[[int], float],
        on_seen: Callable[[Versioned[LogMetadata] | None], None],
        on_confirmed: Callable[[], None],
    ) -> None:
        """`on_seen` gets None if the record does not exist. `on_confirmed`: acks may be delivered again."""
        self._logs = logs
        self._ref = ref
        self._guard = guard
        self._tasks = tasks
        self._ours = ours
        self._pause_s = pause_s
        self._on_seen = on_seen
        self._on_confirmed = on_confirmed
        self._reading = False
        self._read_again = False
        self._stopped = False
        self._unwatch = logs.watch(ref, self.read_again)

    def read_again(self) -> None:
        self._read_again = True
        if not self._reading and not self._stopped:
            self._reading = True
            self._tasks.spawn(self._run())

    def stop(self) -> None:
        self._stopped = True
        self._unwatch()

    async def _run(self) -> None:
        while self._read_again and not self._stopped:
            self._read_again = False
            self._on_seen(await self._read())
        self._reading = False
        self._on_confirmed()

    async def _read(self) -> Versioned[LogMetadata] | None:
        """However long it takes."""
        attempt = 0
        while True:
            asked_at = self._guard.now()
            try:
                read = await self._logs.read(self._ref)
            except LogNotFoundError:
                return None
            except MetadataUnavailableError:
                attempt += 1
                await asyncio.sleep(self._pause_s(attempt))
                continue
            if same_ownership(self._ours(), read.value):
                self._guard.confirm(asked_at)
            return read
