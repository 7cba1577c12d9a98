"""Marks ledgers of which a member lacks confirmed entries, so that the workers of repair copy them to it.

A writer sends again only what is not confirmed. What a member missed before is in the middle of its fragment, where a
check of the first and the last entry does not look; and once the writer ends no process knows of it. So the ledger is
marked while it is written (docs/pitfalls.md#hole-behind-a-returned-member).

Best effort: no writer waits for a mark, and none fails because of it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import islice

from ledger.environment import Environment
from ledger.errors import LogStoreError, OutcomeUnknownError, UnavailableError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, LedgerId
from ledger.tasks import start_task

_AGAIN_S = 5.0
"""Pause while the metadata store is unavailable."""
_AT_ONCE = 32
"""A mark takes some requests one after the other, and a process may have thousands of ledgers."""
_QUIET_S = 1.0
"""The end of a client waits no longer for a mark: the store is away, or hangs."""
_CLOSE_S = 10.0
"""How long it waits for all of them."""

_log = logging.getLogger(__name__)


class MissedCopies:
    """Some ledgers are marked at a time: after the restart of a bookie all writers report, and marks may take long."""

    def __init__(self, store: MetadataStore, environment: Environment) -> None:
        self._store = store
        self._environment = environment
        self.unmarked: dict[LedgerId, set[BookieId]] = {}
        """What is reported, until it is marked. It is lost with the process."""
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._hurries = False

    def report(self, ledger_id: LedgerId, bookie_id: BookieId) -> None:
        """The bookie is a member of the ledger, and lacks entries of it."""
        self.unmarked.setdefault(ledger_id, set()).add(bookie_id)
        if self._task is None or self._task.done():
            self._task = start_task(self._run())

    async def settle(self) -> None:
        """Wait for what is not marked yet: up to 10 s, and no longer than 1 s for a mark. Not after `hurry`."""
        if not self._hurries:
            await self._wait(_CLOSE_S)

    async def _wait(self, limit_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self.unmarked:
                    self._settled.clear()
                    async with asyncio.timeout(_QUIET_S):
                        await self._settled.wait()

    def hurry(self) -> None:
        """From now on only `close` waits, 1 s at most: the client was cancelled, or has waited before."""
        self._hurries = True

    async def close(self) -> None:
        """Wait a limited time for what is not marked yet; log the rest."""
        task = self._task
        if task is None:
            return
        try:
            await self._wait(_QUIET_S if self._hurries else _CLOSE_S)
        finally:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if self.unmarked:
            _log.warning(
                "%s entries on some bookies and could not be marked for repair before the client was closed; "
                "the auditor's weekly check, or `bookie check-copies --full --mark`, finds what is missing",
                "1 ledger lacks" if len(self.unmarked) == 1 else f"{len(self.unmarked):,} ledgers lack",
            )

    async def _run(self) -> None:
        while self.unmarked:
            settled = await asyncio.gather(*map(self._mark, list(islice(self.unmarked, _AT_ONCE))))
            if not all(settled):
                await asyncio.sleep(_AGAIN_S)

    async def _mark(self, ledger_id: LedgerId) -> bool:
        """False if the store is away."""
        reported = self.unmarked[ledger_id]
        missing = set(reported)
        try:
            await self._store.repair.mark(ledger_id, sorted(missing), self._environment.wall_us() // 1000)
        except (UnavailableError, OutcomeUnknownError):
            return False
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
        self._settled.set()
        return True
