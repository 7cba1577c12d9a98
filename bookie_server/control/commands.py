"""What each request makes the bookie do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from bookie_server.control.messages import Command, Request, compacted_result, files_result
from bookie_server.disk.disk_watch import writability_of
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.scrub.scrubber import Scrubber
from ledger.errors import UnavailableError


class BookieControl:
    def __init__(
        self,
        storage: LedgerStorage,
        scrubber: Scrubber | None,
        repair_status: Callable[[], dict[str, Any] | None],
    ) -> None:
        """`repair_status`: of the worker in this process, None without one."""
        self._storage = storage
        self._scrubber = scrubber
        self._repair_status = repair_status

    async def perform(self, request: Request) -> Any:
        """The result for `Answer.result`. LogStoreError: not done."""
        match request.command:
            case Command.SPACE:
                return files_result(await self._storage.space())
            case Command.COMPACT:
                return compacted_result(await self._storage.compact(request.threshold))
            case Command.SCRUB:
                return await self._scrub()
            case Command.REBUILD_INDEX:
                return asdict(await self._storage.rebuild_index())
            case Command.STATUS:
                return self._status()

    def _status(self) -> dict[str, Any]:
        failed = list(self._storage.failed_directories)
        ledgers = self._storage.ledger_usage()
        return {
            "in_limbo": self._storage.limbo,
            "read_only": not writability_of(self._storage).adds,
            "ledger_dirs": [str(each.directory) for each in ledgers if each.directory not in failed],
            "failed_ledger_dirs": [str(each) for each in failed],
            "repair": self._repair_status(),
        }

    async def _scrub(self) -> dict[str, object]:
        if self._scrubber is None:
            raise UnavailableError(
                "the bookie has no scrubber (scrub_interval_s is 0): stop it, and repeat the command"
            )
        return asdict(await self._scrubber.scrub_now())
