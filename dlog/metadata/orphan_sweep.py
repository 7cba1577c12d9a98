"""Deletes orphaned ledgers: crashed takeovers and rotations created them, no log lists them and none ever can.

Invariant: only an empty ledger of a writer is ever deleted here. Nothing is submitted to it before the record lists it,
so an orphan is empty; recovery proves it, and a ledger with entries is kept, whatever the log metadata says. So log
metadata that was lost, or restored from an older backup, costs no acknowledged message.

A sink writes its ledgers before they are listed. One is deleted, with its entries, once its batch was published with
other ledgers, or after a grace of its own (dlog/core/orphans.py, `is_abandoned`), and never while it can be listed.
"""

from __future__ import annotations

import logging

from dlog.core.metadata_changes import with_orphan_barred
from dlog.core.metadata_update import Applied
from dlog.core.orphans import Origin, Verdict, absence_is_final, is_abandoned, origin_of, verdict_of
from dlog.errors import HistoryPageError, LogNotFoundError
from dlog.metadata.deletion import CHANGE_S_MAX
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata
from ledger.client import LedgerClient
from ledger.errors import (
    ContendedError,
    CorruptionError,
    LayoutMismatchError,
    LedgerNotFoundError,
    LedgerRecoveryError,
    NotEnoughBookiesError,
    ReadError,
    UnauthorizedError,
)
from ledger.metadata.rounds import Rounds
from ledger.model import LedgerId

_log = logging.getLogger(__name__)


class OrphanSweep:
    """One sweep over all ledgers of the cluster, for the logs under one root."""

    def __init__(
        self, logs: LogMetadataStore, ledgers: LedgerClient, *, age_s: float, staging_age_s: float
    ) -> None:
        """`age_s`: younger ledgers are left alone. It decides only when to try, never whether it is safe.

        `staging_age_s`: the same for a sink's ledgers whose batch was not published.
        """
        self._logs = logs
        self._ledgers = ledgers
        self._environment = ledgers.environment
        self._age_us = age_s * 1e6
        self._staging_age_us = round(staging_age_s * 1e6)
        self._lost_pages: set[str] = set()
        """Keys of those already reported: each has many ledgers."""

    async def run(self) -> list[LedgerId]:
        """Delete orphans; return their ids. What cannot be decided now is skipped with a warning.

        Raises:
            MetadataUnavailableError: the metadata store cannot be reached.
            MetadataOutcomeUnknownError: the answer to a change was lost.
        """
        deleted = []
        async for ledger_id in self._ledgers.store.ledger_ids():
            try:
                if await self._sweep(ledger_id):
                    deleted.append(ledger_id)
            except LedgerNotFoundError:
                continue
            except HistoryPageError as error:
                if error.key not in self._lost_pages:
                    self._lost_pages.add(error.key)
                    _log.warning("ledgers of log %s are left alone: %s", error.log, error)
            except LayoutMismatchError as error:
                if error.log is None:
                    raise  # of the store, not of this record
                _log.warning("ledger %d is left alone: %s", ledger_id, error)
            except (
                CorruptionError,
                ContendedError,
                LedgerRecoveryError,
                NotEnoughBookiesError,
                ReadError,
                UnauthorizedError,
            ) as error:
                _log.warning("ledger %d is left alone: %s", ledger_id, error)
        return deleted

    async def _sweep(self, ledger_id: LedgerId) -> bool:
        metadata = (await self._ledgers.store.read_ledger(ledger_id)).value
        origin = origin_of(metadata)
        if origin is None or origin.root not in (None, self._logs.root) or self._is_young(origin):
            return False
        if not await self._is_orphan(origin, ledger_id):
            return False
        if origin.staged is not None:
            await self._ledgers.delete(ledger_id)
            return True
        return await self._delete_if_empty(ledger_id, metadata.password)

    def _is_young(self, origin: Origin) -> bool:
        return self._environment.wall_us() - origin.created_us < self._age_us

    def _is_abandoned(self, origin: Origin, record: LogMetadata) -> bool:
        return origin.staged is None or is_abandoned(
            origin, record, now_us=self._environment.wall_us(), grace_us=self._staging_age_us
        )

    async def _is_orphan(self, origin: Origin, ledger_id: LedgerId) -> bool:
        """Whether the log that the ledger's tags name can never list it.

        One newer than all listed ones is barred first. A paused candidate's compare-and-set then fails, and a live
        owner takes another ledger.
        """
        ref = LogRef(origin.log, origin.log_uuid, self._logs.root)
        rounds = Rounds(self._environment, f"the record of log {ref}")
        while True:
            try:
                read = await self._logs.read(ref)
            except LogNotFoundError:
                name = await self._logs.read_name(origin.log)
                return absence_is_final(origin, None if name is None else name.value)
            try:
                in_page = await self._logs.ledger_list(ref, read.value).is_in_page(ledger_id)
            except HistoryPageError as error:
                await self._logs.raise_unless_changed(ref, read.version, error)
                await rounds.again(error)
                continue
            verdict = verdict_of(read.value, ledger_id, in_page=in_page)
            if verdict is Verdict.KNOWN or not self._is_abandoned(origin, read.value):
                return False
            match verdict:
                case Verdict.NEVER_LISTED:
                    return True
                case Verdict.BAR_FIRST:
                    barred = with_orphan_barred(read.value, ledger_id, self._environment.token())
                    answer = await self._logs.compare_and_set(ref, barred, read.version, limit_s=CHANGE_S_MAX)
                    if not isinstance(answer, Applied):
                        await rounds.again()

    async def _delete_if_empty(self, ledger_id: LedgerId, password: bytes) -> bool:
        handle = await self._ledgers.open_with_recovery(ledger_id, password)
        await handle.close()
        if handle.last_readable >= 0:
            _log.warning(
                "ledger %d is left alone: no record lists it and it holds %d entries, as if records had been lost "
                "or restored from an older backup",
                ledger_id,
                handle.last_readable + 1,
            )
            return False
        await self._ledgers.delete(ledger_id)
        return True
