"""Deletes the ledgers that have left a log's list, when no paused writer can add to them any more.

Invariant (docs/log-semantics.md#rule-25, #i13): a listed ledger is never deleted. A ledger is deleted first and removed
from the record afterwards; so what was interrupted anywhere is found again, and deleting once more does no harm.

A lost page of which nothing is listed any more is passed over (docs/log-semantics.md#pages): the ledgers within its
bounds that were created for this log wait for their deletion in the record then, one by one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from dlog.core import metadata_changes
from dlog.core.metadata_update import Applied
from dlog.core.orphans import origin_of
from dlog.errors import HistoryPageError, LogNotFoundError
from dlog.metadata.grace import deletions_are_durable
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata
from ledger.client import LedgerClient
from ledger.errors import CorruptionError, LedgerNotFoundError, LogStoreError
from ledger.metadata.rounds import Rounds
from ledger.model import LedgerId

_log = logging.getLogger(__name__)

CHANGE_S_MAX = 60.0
"""How long an administrator waits for a lost answer to a change; after that it may have been made."""

_NOTED_AT_ONCE = 1024
"""Ledgers in pages whose deletion is one change of the record."""
_IN_PARALLEL = 16


class Deletion:
    """The deletions of any log."""

    def __init__(self, logs: LogMetadataStore, ledgers: LedgerClient) -> None:
        self._logs = logs
        self._ledgers = ledgers
        self._environment = ledgers.environment

    async def delete_due(self, ref: LogRef) -> LogMetadata | None:
        """Delete what is due; returns the record afterwards, None if the log no longer exists.

        Raises:
            ContendedError: the record kept changing; what was deleted stays deleted.
            HistoryPageError: a page that lists ledgers, too, is lost, or a later release has written it.
        """
        what = f"the record of log {ref}"
        rounds = Rounds(self._environment, what)
        while True:
            try:
                read = await self._logs.read(ref)
                lost = None
                try:
                    changed = await self._delete_some(ref, read.value)
                except HistoryPageError as error:
                    if (await self._logs.read(ref)).version != read.version:
                        await rounds.again(error)
                        continue
                    lost, changed = error, await self._without_page(ref, read.value, error)
            except LogNotFoundError:
                return None
            if changed is None:
                return read.value
            answer = await self._logs.compare_and_set(ref, changed, read.version, limit_s=CHANGE_S_MAX)
            if not isinstance(answer, Applied):
                await rounds.again()
                continue
            # A long history takes thousands of changes, and some of them meet those of other clients.
            rounds = Rounds(self._environment, what)
            if lost is not None and changed.deleted_below > lost.last:
                _log.warning(
                    "log %s: page %s with ledgers %d to %d is missing or damaged, and none of them is listed any more: "
                    "those that have the log's tags are deleted",
                    ref,
                    lost.key,
                    lost.first,
                    lost.last,
                )
            if len(changed.pages) < len(read.value.pages):
                await self._logs.remove_unused_pages(ref, answer.record, answer.version)

    async def _delete_some(self, ref: LogRef, record: LogMetadata) -> LogMetadata | None:
        """The record without what was deleted; None if nothing was due."""
        nonce = self._environment.token()
        due = await self._due(record)
        if due:
            await self._delete_all(ref, due)
            return metadata_changes.without_deleted(record, due, nonce)
        deleted_below = await self._delete_some_in_pages(ref, record)
        if deleted_below <= record.deleted_below:
            return None
        return metadata_changes.without_deleted_pages(record, deleted_below, nonce)

    async def _due(self, record: LogMetadata) -> list[LedgerId]:
        now_us = self._environment.wall_us()
        due = metadata_changes.due_for_deletion(record, now_us)
        for ledger_id in metadata_changes.waiting_for_deletion(record, now_us):
            if await self._needs_no_grace(ledger_id):
                due.append(ledger_id)
        return due

    async def _delete_some_in_pages(self, ref: LogRef, record: LogMetadata) -> int:
        """Delete ledgers in pages, oldest first, up to one whose time has not come.

        Returns the id below which all of them are deleted now.
        """
        if not record.pages:
            return record.deleted_below
        now_us = self._environment.wall_us()
        some: list[LedgerId] = []
        end: int = record.first_id
        try:
            async for listed in self._logs.ledger_list(ref, record).walk_deletable():
                waits = listed.keep_until_us > now_us and not await self._needs_no_grace(listed.ledger_id)
                if waits or len(some) == _NOTED_AT_ONCE:
                    end = listed.ledger_id
                    break
                some.append(listed.ledger_id)
        except HistoryPageError as error:
            if not some:
                raise
            end = error.first
        await self._delete_all(ref, some)
        return end

    async def _without_page(
        self, ref: LogRef, record: LogMetadata, lost: HistoryPageError
    ) -> LogMetadata | None:
        """The record with the ledgers of a lost page pending, and without the page if that are all; None if it is full.

        Those that are left are found again once the first ones are deleted.
        """
        if lost.last >= record.first_id or lost.newer_version is not None:
            raise lost
        pending = {one.ledger_id for one in record.pending_delete}
        capacity = max(0, self._logs.list_sizes.pending_max - len(pending))
        found: list[LedgerId] = []
        async for ledger_id in self._ledgers.store.ledger_ids():
            if ledger_id > lost.last or len(found) > capacity:
                break
            if (
                ledger_id >= max(lost.first, record.deleted_below)
                and ledger_id not in pending
                and await self._was_listed(ref, record, ledger_id)
            ):
                found.append(ledger_id)
        nonce, now_us = self._environment.token(), self._environment.wall_us()
        if len(found) > capacity:
            if not capacity:
                return None
            return metadata_changes.with_found_pending(record, found[:capacity], now_us=now_us, nonce=nonce)
        noted = metadata_changes.with_found_pending(record, found, now_us=now_us, nonce=nonce)
        return metadata_changes.without_deleted_pages(noted, lost.last + 1, nonce)

    async def _was_listed(self, ref: LogRef, record: LogMetadata, ledger_id: LedgerId) -> bool:
        """Whether a lost page may have listed it: a ledger that a writer of this log created.

        Left to the orphan sweep are those of a sink, which takes one of its ledgers that is pending for published, and
        those of a later epoch than the record's, whose entries a record may have listed that was lost.
        """
        try:
            origin = origin_of((await self._ledgers.store.read_ledger(ledger_id)).value)
        except (LedgerNotFoundError, CorruptionError):
            return False
        return (
            origin is not None
            and (origin.root, origin.log_uuid) == (self._logs.root, ref.log_uuid)
            and origin.staged is None
            and origin.epoch <= record.epoch
        )

    async def _delete_all(self, ref: LogRef, ledger_ids: Sequence[LedgerId]) -> None:
        for at in range(0, len(ledger_ids), _IN_PARALLEL):
            some = ledger_ids[at : at + _IN_PARALLEL]
            for error in await asyncio.gather(*(self._try(ref, each) for each in some)):
                if error is not None:
                    raise error

    async def _try(self, ref: LogRef, ledger_id: LedgerId) -> LogStoreError | None:
        """Delete it, or return why that failed: the others of its group are not interrupted."""
        try:
            await self._delete(ref, ledger_id)
        except LogStoreError as error:
            return error
        return None

    async def _delete(self, ref: LogRef, ledger_id: LedgerId) -> None:
        """Delete a ledger that is due by the record of `ref`, unless its own tags name another log, or none."""
        try:
            metadata = (await self._ledgers.store.read_ledger(ledger_id)).value
        except LedgerNotFoundError:
            return
        except CorruptionError:
            metadata = None  # ids are never given twice, so the record alone is enough
        origin = None if metadata is None else origin_of(metadata)
        if metadata is not None and (origin is None or origin.log_uuid != ref.log_uuid):
            _log.warning(
                "log %s: ledger %d is not deleted: by its tags it is not of this log", ref, ledger_id
            )
            return
        await self._ledgers.delete(ledger_id)

    async def _needs_no_grace(self, ledger_id: LedgerId) -> bool:
        """Whether all its bookies permanently refuse adds to the deleted ledger (docs/log-semantics.md#rule-25)."""
        if not deletions_are_durable((), self._ledgers.bookies()):
            return False
        try:
            metadata = (await self._ledgers.store.read_ledger(ledger_id)).value
        except LedgerNotFoundError:
            return True
        except CorruptionError:
            return False
        return deletions_are_durable([metadata], self._ledgers.bookies())
