"""Jobs of background work in the storage worker, each between two checkpoints, and what their errors mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bookie_server.disk.disk import DiskWorker
from bookie_server.errors import DiskFullError, StorageError
from ledger.errors import LogStoreError

T = TypeVar("T")


class StorageJobs:
    """A failed read changes nothing, and neither does a full disk; any other error ends the storage."""

    def __init__(
        self,
        worker: DiskWorker,
        *,
        failure: Callable[[], Exception | None],
        fail: Callable[[Exception], None],
    ) -> None:
        """`fail` hears of what ends the storage; `failure` returns what has ended it."""
        self._worker = worker
        self._failure = failure
        self._fail = fail

    async def run(self, work: Callable[[], T]) -> T:
        """LogStoreError. `fail` hears of it also when the caller was cancelled."""
        if (failure := self._failure()) is not None:
            raise failure
        return await self._worker.run(work, self._on_error)

    def submit(self, work: Callable[[], None]) -> None:
        """After what was begun before, also if the storage has failed."""
        self._worker.submit(work, self._on_done)

    def _on_error(self, error: LogStoreError) -> None:
        if not isinstance(error, (DiskFullError, StorageError)):
            self._fail(error)

    def _on_done(self, _result: None, error: LogStoreError | None) -> None:
        if error is not None:
            self._on_error(error)
