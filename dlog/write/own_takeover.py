"""A writer whose ledger has failed takes its own log over, as any candidate would (docs/log-semantics.md#rule-19).

What differs from a candidate: the recovery of its ledgers decides the appends in flight in them, and it is tried again
until it succeeds or the log is another client's.

Pitfall: docs/pitfalls.md#append-sent-again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from dlog.config import LogConfig
from dlog.core.commands import Depose
from dlog.core.rotation import Rotation
from dlog.core.takeover import OwnLog
from dlog.errors import DataLossError, LogNotFoundError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.write.active_ledger import ActiveLedger
from dlog.write.append_queue import AppendQueue
from dlog.write.ledger_recovery import RecoveredLedgers, recover_ledgers
from dlog.write.takeover_runner import TakeoverResult, TakeoverRunner
from ledger.client import LedgerClient
from ledger.errors import ConfigurationError, LedgerNotFoundError, LogStoreError
from ledger.model import LedgerId, LedgerMetadata


class OwnTakeover:
    """One use for one failure."""

    def __init__(
        self,
        ref: LogRef,
        rotation: Rotation,
        queue: AppendQueue,
        active_ledgers: Mapping[LedgerId, ActiveLedger],
        *,
        logs: LogMetadataStore,
        ledgers: LedgerClient,
        config: LogConfig,
        pause_s: Callable[[int], float],
        on_delay: Callable[[str, LogStoreError], None],
    ) -> None:
        """`pause_s` gives the pause after so many attempts; `on_delay` gets the reason why one did not succeed."""
        self._ref = ref
        self._rotation = rotation
        self._queue = queue
        self._active_ledgers = active_ledgers
        self._logs = logs
        self._ledgers = ledgers
        self._config = config
        self._pause_s = pause_s
        self._on_delay = on_delay

    async def run(self, *, fenced: bool) -> TakeoverResult | Depose | None:
        """The new ledger, or the record of the client that owns the log now. None if the writer has ended.

        Raises:
            ConfigurationError: the bookies or the store refuse this client.
            DataLossError: an own ledger does not exist, and the log still names us as its owner.
        """
        attempt = 0
        while not self._rotation.over:
            takeover = self._takeover(fenced=fenced)
            try:
                return await takeover.attempt()
            except LogNotFoundError:
                return Depose(None)
            except (ConfigurationError, DataLossError):
                raise
            except LogStoreError as error:
                self._on_delay("its last ledger could not be recovered and replaced", error)
                fenced = fenced and not takeover.waited
                attempt += 1
                await asyncio.sleep(self._pause_s(attempt))
        return None

    def _takeover(self, *, fenced: bool) -> TakeoverRunner:
        record = self._rotation.record
        assert record.owner is not None
        return TakeoverRunner(
            self._ref,
            record.owner,
            logs=self._logs,
            ledgers=self._ledgers,
            config=self._config,
            own=OwnLog(record, self._rotation.seals, fenced),
            recover=self._recover,
        )

    async def _recover(self, ledger_ids: tuple[LedgerId, ...]) -> RecoveredLedgers:
        """Recover own ledgers in list order; only then decide the appends that were in flight in them."""
        own = [self._active_ledgers[one] for one in ledger_ids if one in self._active_ledgers]
        for active_ledger in own:
            # First, so that our own fence is not taken for another client's takeover.
            active_ledger.detach(
                LogStoreError(f"ledger {active_ledger.ledger_id} is being recovered by its own writer")
            )
        ends: list[tuple[ActiveLedger, LedgerMetadata]] = []
        # Without an active ledger: listed by an earlier attempt whose outcome was unknown, and certainly empty.
        others = [one for one in ledger_ids if one not in self._active_ledgers]
        fenced = await recover_ledgers(self._ledgers, others, {}, self._config.password)
        for active_ledger in own:
            try:
                handle = await self._ledgers.open_with_recovery(
                    active_ledger.ledger_id, self._config.password
                )
            except LedgerNotFoundError:
                fenced.missing.append(active_ledger.ledger_id)
            else:
                ends.append((active_ledger, handle.metadata))
        if not fenced.missing and not self._rotation.over:
            self._decide(ends, fenced)
        rotation = self._rotation
        needed = not rotation.over and (not rotation.closing or self._queue.holding)
        return replace(fenced, needs_ledger=needed)

    def _decide(self, ends: list[tuple[ActiveLedger, LedgerMetadata]], fenced: RecoveredLedgers) -> None:
        left = []
        for active_ledger, metadata in ends:
            self._queue.on_acked(*active_ledger.deliver(metadata.last_entry))
            left += active_ledger.take_back()
            fenced.seals[active_ledger.ledger_id] = active_ledger.seal_facts(metadata)
        self._queue.take_back(left)
        self._rotation.on_sealed(fenced.seals)
