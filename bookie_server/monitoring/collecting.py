"""Collects the facts of the bookie in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bookie_server.config import BookieConfig
from bookie_server.monitoring.facts import (
    BookieFacts,
    ClientFacts,
    GarbageFacts,
    ScrubFacts,
    Stage,
    StorageFacts,
    state_of,
)
from bookie_server.server import BookieServer
from bookie_server.storage.ledger_storage import LedgerStorage


class FactCollector:
    """Of one process."""

    def __init__(
        self,
        config: BookieConfig,
        server: BookieServer,
        repair_status: Callable[[], dict[str, Any] | None],
        version: str,
    ) -> None:
        """`repair_status`: of the worker in this process, None without one."""
        self._stage = Stage.STARTING
        self._config = config
        self._server = server
        self._repair_status = repair_status
        self._version = version
        self._now = asyncio.get_running_loop().time
        self._began = self._now()

    def enter(self, stage: Stage) -> None:
        """The process has reached this stage."""
        self._stage = stage

    def collect(self) -> BookieFacts:
        server, storage = self._server, self._server.storage
        failure = server.failure or (None if storage is None else storage.failed)
        directories = self._config.storage
        return BookieFacts(
            state=state_of(self._stage, storage, failure),
            failure=None if failure is None else str(failure),
            version=self._version,
            uptime_s=round(self._now() - self._began, 3),
            bookie=server.bookie_id,
            cluster=server.instance_id,
            journal_dir=str(directories.journal_directory),
            ledger_dirs=list(map(str, directories.ledger_directories)),
            storage=None if storage is None else _of_storage(storage),
            clients=self._of_clients(),
            garbage=self._of_garbage(),
            scrub=self._of_scrubber(),
            repair=self._repair_status(),
        )

    def _of_clients(self) -> ClientFacts | None:
        connections = self._server.connections
        if connections is None:
            return None
        return ClientFacts(
            connections=len(connections),
            sent_bytes=connections.sent_bytes,
            read_requests=connections.service.read_requests,
            damaged_reads=connections.service.damage.failed_reads,
        )

    def _of_garbage(self) -> GarbageFacts | None:
        garbage = self._server.garbage
        if garbage is None:
            return None
        return GarbageFacts(
            passes=garbage.passes,
            failed_passes=garbage.failed_passes,
            ledgers_waiting=garbage.ledgers_waiting,
        )

    def _of_scrubber(self) -> ScrubFacts | None:
        scrubber = self._server.scrubber
        if scrubber is None:
            return None
        return ScrubFacts(passes=scrubber.passes, current=scrubber.record.current, last=scrubber.record.last)


def _of_storage(storage: LedgerStorage) -> StorageFacts:
    return StorageFacts(
        in_limbo=storage.limbo,
        shortage=None if storage.shortage is None else str(storage.shortage),
        directories=list(storage.usage()),
        failed_directories={str(path): str(error) for path, error in storage.failed_directories.items()},
        missing_files=len(storage.missing_files),
        counts=storage.counts(),
    )
