"""Marks ledgers of which a member lacks confirmed entries, so that the workers of repair copy them to it.

A writer sends again only what is not confirmed. What a member missed before is in the middle of its fragment, where a
check of the first and the last entry does not look; and once the writer ends no process knows of it. So the ledger is
marked while it is written (docs/pitfalls.md#hole-behind-a-returned-member).

Best effort: no writer waits for a mark, and none fails because of it.
"""

from __future__ import annotations

import asyncio
import logging

from ledger.environment import Environment
from ledger.errors import LogStoreError, OutcomeUnknownError, UnavailableError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, LedgerId

_AGAIN_S = 5.0
"""Pause while the metadata store is unavailable."""
_CLOSE_S = 1.0
"""How long the end of a client waits for marks."""

_log = logging.getLogger(__name__)


class MissedCopies:
    """One ledger is marked at a time: after the restart of a bookie all writers report, and marks may take a while."""

    def __init__(self, store: MetadataStore, environment: Environment) -> None:
        self._store = store
        self._environment = environment
        self.unmarked: dict[LedgerId, set[BookieId]] = {}
        """What is reported, until it is marked. It is lost with the process."""
        self._task: asyncio.Task[None] | None = None

    def report(self, ledger_id: LedgerId, bookie_id: BookieId) -> None:
        """The bookie is a member of the ledger, and lacks entries of it."""
        self.unmarked.setdefault(ledger_id, set()).add(bookie_id)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        task = self._task
        if task is None:
            return
        try:
            await asyncio.wait([task], timeout=_CLOSE_S)
        finally:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while self.unmarked:
            ledger_id, reported = next(iter(self.unmarked.items()))
            missing = set(reported)
            try:
                await self._store.repair.mark(ledger_id, sorted(missing), self._environment.wall_us() // 1000)
            except (UnavailableError, OutcomeUnknownError):
                await asyncio.sleep(_AGAIN_S)
                continue
            except LogStoreError as error:
                _log.warning(
                    "ledger %s lacks copies on %s and cannot be marked for repair: %s",
                    ledger_id,
                    ", ".join(sorted(missing)),
                    error,
                )
            reported -= missing
            if not reported:
                del self.unmarked[ledger_id]
