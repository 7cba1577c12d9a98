"""What an administrator does to a log beside its owner: describe, shrink, seal, delete, collect garbage.

Law (log semantics, rules 25, 33, 34b and the crash windows): every change is one compare-and-set at the version
that was read; ledgers are deleted only afterwards, only if they can never be listed again, and whoever comes
later can finish what was interrupted. Seal and Delete are takeovers. Only the owner rotates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from dlog.config import LogConfig
from dlog.core import record_changes, record_keys
from dlog.core.record_update import Applied
from dlog.errors import LogNotFoundError, ShrinkRefusedError
from dlog.log_store import LogRef, LogStore
from dlog.model import LogName, LogRecord, LogState, MessageId
from dlog.tail_position import tail_of
from dlog.takeover_runner import Claim, TakeoverRunner, new_owner
from ledger.client import LedgerClient
from ledger.errors import (
    CorruptionError,
    EntryNotFoundError,
    InvalidNameError,
    LedgerNotFoundError,
    ReadError,
)
from ledger.model import LedgerId, LedgerMetadata

_log = logging.getLogger(__name__)

ORPHAN_AGE_S = 600.0
"""A younger unlisted ledger probably belongs to a takeover or rotation under way; no rule depends on it."""


@dataclass(frozen=True, slots=True)
class LogInfo:
    """A log as its record describes it."""

    ref: LogRef
    record: LogRecord
    version: int


class LogAdmin:
    """Administrative operations on the logs of one cluster."""

    def __init__(self, logs: LogStore, ledgers: LedgerClient, config: LogConfig) -> None:
        self._logs = logs
        self._ledgers = ledgers
        self._config = config
        self._environment = ledgers.environment

    async def describe(self, log: LogName) -> LogInfo:
        """The record, read linearizably. LogNotFoundError."""
        ref = await self._logs.find(log)
        read = await self._logs.read(ref)
        return LogInfo(ref, read.value, read.version)

    # ---- shrink

    async def shrink(self, log: LogName, before: MessageId) -> LogRecord:
        """Make every message below `before` invisible for good, and drop the ledgers wholly below it.

        Metadata only, except that an id in an unsealed ledger is checked against its last add confirmed.
        ShrinkRefusedError for an id above the tail: it would make later appends invisible.
        """
        ref = await self._logs.find(log)
        while True:
            read = await self._logs.read(ref)
            if read.value.state is LogState.DELETING:
                raise LogNotFoundError(f"log {log} is being deleted", log=str(log))
            if before <= read.value.trim_before:
                return read.value
            await self._check_limit(ref, read.value, before)
            changed = record_changes.shrunk(read.value, before, self._environment.token())
            answer = await self._logs.compare_and_set(ref, changed, read.version)
            if isinstance(answer, Applied):
                return answer.record
            if answer.found is None:
                raise LogNotFoundError(f"log {log} was deleted meanwhile", log=str(log))

    async def _check_limit(self, ref: LogRef, record: LogRecord, before: MessageId) -> None:
        limit = record_changes.shrink_limit(record)
        if before <= limit:
            return
        try:
            limit = max(limit, await tail_of(self._logs, ref, self._ledgers, self._config.password))
        except (ReadError, LedgerNotFoundError, EntryNotFoundError) as error:
            raise _refused(before, limit, "and the tail cannot be proved while bookies are away") from error
        if before > limit:
            raise _refused(before, limit, "and it would hide messages yet to come")

    # ---- seal and delete

    async def seal(self, log: LogName) -> LogRecord:
        """End the log: whoever writes it is fenced, and it takes no appends any more. Once sealed, nothing."""
        info = await self.describe(log)
        if info.record.state is LogState.SEALED:
            return info.record
        return (await self._end(info.ref, LogState.SEALED)).record

    async def delete(self, log: LogName) -> bool:
        """Fence the writer, then delete the log and its ledgers. Call again to resume what was interrupted.

        False if ledgers must outlive the log for a while, because a sleeping writer might still write them
        (rule 25); then the name is free once a later call, or `collect`, has deleted them.
        """
        info = await self.describe(log)
        if info.record.state is not LogState.DELETING:
            await self._end(info.ref, LogState.DELETING)
        return await self._finish_delete(info.ref)

    async def _finish_delete(self, ref: LogRef) -> bool:
        record = await self._delete_due(ref)
        if record is not None and record.pending_delete:
            return False
        await self._logs.end_name(ref)
        await self._logs.remove_record(ref)
        return True

    async def _end(self, ref: LogRef, state: LogState) -> Claim:
        owner = new_owner(self._environment, self._config.owner_name)
        runner = TakeoverRunner(
            ref, owner, logs=self._logs, ledgers=self._ledgers, config=self._config, end=state
        )
        return await runner.run()

    # ---- garbage

    async def collect(self, log: LogName) -> LogRecord | None:
        """Delete the log's ledgers whose time has come; finish its deletion. None once it is gone."""
        ref = await self._logs.find(log)
        return await self.collect_ref(ref)

    async def collect_ref(self, ref: LogRef) -> LogRecord | None:
        record = await self._delete_due(ref)
        if record is None or record.state is not LogState.DELETING or record.pending_delete:
            return record
        await self._finish_delete(ref)
        return None

    async def _delete_due(self, ref: LogRef) -> LogRecord | None:
        """Delete what is due, then forget it. Deleting is idempotent, so a crash between costs nothing."""
        while True:
            try:
                read = await self._logs.read(ref)
            except LogNotFoundError:
                return None
            due = record_changes.due_for_deletion(read.value, self._environment.wall_us())
            if not due:
                return read.value
            await self._delete_ledgers(due)
            changed = record_changes.without_deleted(read.value, due, self._environment.token())
            await self._logs.compare_and_set(ref, changed, read.version)

    async def _delete_ledgers(self, ledger_ids: Iterable[LedgerId]) -> None:
        for ledger_id in ledger_ids:
            await self._ledgers.delete(ledger_id)

    async def sweep(self, *, age_s: float = ORPHAN_AGE_S) -> list[LedgerId]:
        """Delete ledgers that carry a log's tag and are in no list, once they can never get into one.

        Age decides only when to try. A ledger newer than all listed ones is first barred by one
        compare-and-set, which makes a sleeping candidate's fail (crash windows, first row). What is damaged is
        left alone, with a warning, and bars nothing else.
        """
        deleted = []
        async for ledger_id in self._ledgers.store.ledger_ids():
            try:
                orphaned = await self._is_orphan(ledger_id, age_s)
            except LedgerNotFoundError:
                continue
            except CorruptionError as error:
                _log.warning("ledger %d is left alone: %s", ledger_id, error)
                continue
            if orphaned:
                await self._ledgers.delete(ledger_id)
                deleted.append(ledger_id)
        return deleted

    async def _is_orphan(self, ledger_id: LedgerId, age_s: float) -> bool:
        metadata = (await self._ledgers.store.read_ledger(ledger_id)).value
        ref = _tagged(metadata)
        if ref is None or self._is_young(metadata, age_s):
            return False
        return await self._may_delete(ref, ledger_id)

    def _is_young(self, metadata: LedgerMetadata, age_s: float) -> bool:
        created = metadata.custom_value(record_keys.TAG_CREATED_US) or b""
        return created.isdigit() and self._environment.wall_us() - int(created) < age_s * 1e6

    async def _may_delete(self, ref: LogRef, ledger_id: LedgerId) -> bool:
        """Whether the ledger is an orphan that can never be listed."""
        while True:
            try:
                read = await self._logs.read(ref)
            except LogNotFoundError:
                return True  # a record is written before its log's first ledger, and removed after its last
            record = read.value
            if record.find(ledger_id) or any(one.ledger_id == ledger_id for one in record.pending_delete):
                return False
            if ledger_id <= record.last_ledger_id:
                return True
            barred = record_changes.with_orphan_barred(
                record, ledger_id, self._environment.wall_us(), self._environment.token()
            )
            if isinstance(await self._logs.compare_and_set(ref, barred, read.version), Applied):
                return False  # it is pending now: whoever collects next deletes it


def _tagged(metadata: LedgerMetadata) -> LogRef | None:
    """The log whose tag the ledger carries. None for other programs' ledgers, and for a sink's staging ones."""
    uuid = metadata.custom_value(record_keys.TAG_LOG_UUID)
    name = metadata.custom_value(record_keys.TAG_LOG_NAME)
    if not uuid or not name or metadata.custom_value(record_keys.TAG_KIND) is not None:
        return None
    try:
        namespace, _, log = name.decode().partition("/")
        return LogRef(LogName(namespace=namespace, name=log), uuid.decode())
    except (UnicodeDecodeError, InvalidNameError):
        return None


def _refused(before: MessageId, limit: MessageId, reason: str) -> ShrinkRefusedError:
    return ShrinkRefusedError(
        f"cannot shrink to {before}: the highest id that may be given now is {limit}, {reason}",
        requested=before,
        limit=limit,
    )
