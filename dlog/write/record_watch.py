"""The record as its owner follows it: read again after every change that another client makes.

The watch reports the owner's own changes, too. The cheapest read shows those for what they are, so that a rotation
costs the store no further transaction.
"""

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
from ledger.errors import LogStoreError, MetadataUnavailableError
from ledger.model import Versioned


class RecordWatch:
    """Reports the record, read linearizably; if it shows the own epoch, that is confirmed. One read at a time."""

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
        self._version = -1
        """Of the record as reported, and as changed by the owner since; no other client has changed it in between."""
        self._reading = False
        self._has_changed = False
        self._read_again = False
        self._stopped = False
        self._unwatch = logs.watch(ref, self._changed)

    def read_again(self) -> None:
        """Read and report the record, changed or not."""
        self._read_again = True
        self._start()

    def own_change(self, before: int, after: int) -> None:
        """The owner has changed the record of version `before`, which is thus known and need not be reported."""
        if self._version == before:
            self._version = after

    def stop(self) -> None:
        self._stopped = True
        self._unwatch()

    def _changed(self) -> None:
        self._has_changed = True
        self._start()

    def _start(self) -> None:
        if not self._reading and not self._stopped:
            self._reading = True
            self._tasks.spawn(self._run())

    async def _run(self) -> None:
        while (self._read_again or self._has_changed) and not self._stopped:
            is_asked, self._read_again, self._has_changed = self._read_again, False, False
            if is_asked or not await self._is_known():
                self._on_seen(await self._read())
        self._reading = False
        self._on_confirmed()

    async def _is_known(self) -> bool:
        """Whether the record is as reported, or as the owner has made it of that. A later change is reported again."""
        try:
            return (await self._logs.read(self._ref, fresh=False)).version == self._version
        except LogStoreError:
            return False  # `_read` decides what it means

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
            self._version = max(self._version, read.version)
            return read
