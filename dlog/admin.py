"""Administration of logs without owning them: describe, shrink, seal, delete, collect garbage.

Invariant (docs/log-semantics.md#rule-25, #rule-33, #rule-34b, #crash-windows): every change is one compare-and-set at
the version that was read. Ledgers are deleted only afterwards, and only if they can never be listed again. What was
interrupted can be finished by any later call. Seal and Delete are takeovers. Only the owner rotates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from dlog.config import LogConfig
from dlog.core import metadata_changes
from dlog.core.metadata_update import Applied
from dlog.errors import HistoryPageError, LogNotFoundError, LogSealedError, ShrinkRefusedError
from dlog.ledger_list.trim_cut import TrimCut
from dlog.metadata.deletion import CHANGE_S_MAX, Deletion
from dlog.metadata.left_records import left_records
from dlog.metadata.log_ref import LogRef
from dlog.metadata.orphan_sweep import OrphanSweep
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata, LogName, LogState, MessageId
from dlog.read.entry_count import message_count
from dlog.read.tail import is_beyond, tail_of
from dlog.write.takeover_runner import TakeoverResult, TakeoverRunner, new_owner
from ledger.client import LedgerClient
from ledger.errors import (
    ContendedError,
    CorruptionError,
    EntryNotFoundError,
    LedgerNotFoundError,
    LogStoreError,
    NotFoundError,
    ReadError,
    UnauthorizedError,
    UnavailableError,
)
from ledger.metadata.rounds import Rounds
from ledger.model import LedgerId

ORPHAN_AGE_S = 600.0
"""A younger unlisted ledger probably belongs to a takeover or rotation in progress. No rule depends on it."""

STAGING_AGE_S = 7 * 86_400.0
"""A week, for unpublished ledgers of a sink: longer than any batch, and time to restart a query after a weekend."""

_log = logging.getLogger(__name__)

_INVISIBLE = "since later messages would be invisible"
_COUNT_S_MAX = 5.0
"""A trim is for freeing disks: it does not wait longer than this for bookies that do not respond."""


@dataclass(frozen=True, slots=True)
class LogInfo:
    """A log as its record describes it: identity, record, and the version at which the record was read."""

    ref: LogRef
    record: LogMetadata
    version: int


class LogAdmin:
    """Administrative operations on the logs of one cluster. `LogClient` offers them by name of the log."""

    def __init__(self, logs: LogMetadataStore, ledgers: LedgerClient, config: LogConfig) -> None:
        self._logs = logs
        self._ledgers = ledgers
        self._config = config
        self._environment = ledgers.environment
        self._deletion = Deletion(logs, ledgers)

    async def describe(self, log: LogName) -> LogInfo:
        """The record, read linearizably.

        Raises:
            LogNotFoundError: no such log.
        """
        ref = await self._logs.find(log)
        read = await self._logs.read(ref)
        return LogInfo(ref, read.value, read.version)

    # ---- shrink

    async def shrink(self, log: LogName, before: MessageId) -> LogMetadata:
        """Make every message below `before` invisible for good, and drop the ledgers completely below it from the list.

        Bookies are asked for two things only: an id in an unsealed ledger is checked against its last add confirmed,
        and the messages of the last entry that is dropped are counted. If counting fails, the entry goes uncounted
        (`metadata_changes.shrunk`).

        Raises:
            ShrinkRefusedError: `before` is above the tail, and so would make later appends invisible.
            ReadError: too few bookies respond to determine the tail.
            LogNotFoundError: no such log, or it is being deleted.
            ContendedError: the record changed during every attempt; try again.
            MetadataOutcomeUnknownError: the trim may have been made.

        Source: docs/log-semantics.md#rule-33.
        """
        shrunk = await self.shrink_ref(await self._logs.find(log), before)
        assert shrunk is not None, "nothing keeps it from trimming"
        return shrunk

    async def shrink_ref(
        self, ref: LogRef, before: MessageId, is_allowed: Callable[[], Awaitable[bool]] | None = None
    ) -> LogMetadata | None:
        """As `shrink`, for this incarnation.

        `is_allowed` is called directly before each CAS. Once it returns false nothing is changed, and None is returned.
        """
        log = ref.name
        rounds = Rounds(self._environment, f"the record of log {log}")
        while True:
            read = await self._logs.read(ref)
            if read.value.state is LogState.DELETING:
                raise LogNotFoundError(f"log {log} is being deleted", log=str(log))
            is_trimmed = before <= read.value.trim_before
            if not is_trimmed:
                await self._check_limit(ref, read.value, before)
            try:
                cut = await self._logs.ledger_list(ref, read.value).trim_cut(before)
            except HistoryPageError as error:
                await self._logs.raise_unless_changed(ref, read.version, error)
                await rounds.again(error)
                continue
            if is_trimmed and cut is None:
                return read.value
            changed = metadata_changes.shrunk(
                read.value,
                before,
                cut,
                self._environment.token(),
                last_count=await self._count_last(cut),
            )
            if is_allowed is not None and not await is_allowed():
                return None
            answer = await self._logs.compare_and_set(ref, changed, read.version, limit_s=CHANGE_S_MAX)
            if isinstance(answer, Applied):
                return answer.record
            if answer.found is None:
                raise LogNotFoundError(
                    f"log {log} was deleted by another client during this call", log=str(log)
                )
            await rounds.again()

    async def _count_last(self, cut: TrimCut | None) -> int | None:
        """Number of messages in the last entry that the trim drops; None if there is none or it cannot be read.

        Who collects the garbage of many logs need not have the passwords of their ledgers.
        """
        if cut is None or cut.end is None:
            return None
        end = cut.end
        try:
            async with asyncio.timeout(_COUNT_S_MAX):
                handle = await self._ledgers.open(LedgerId(end.ledger_id), self._config.password)
                try:
                    return await message_count(handle, end.entry_id)
                finally:
                    await handle.close()
        except (UnavailableError, NotFoundError, CorruptionError, UnauthorizedError, TimeoutError):
            return None

    async def _check_limit(self, ref: LogRef, record: LogMetadata, before: MessageId) -> None:
        limit = metadata_changes.shrink_limit(record)
        if before <= limit:
            return
        if not record.ledgers:
            raise _refused(before, limit, _INVISIBLE)
        try:
            tail = await tail_of(self._logs, ref, self._ledgers, self._config.password)
            if not await is_beyond(before, tail, self._ledgers, self._config.password):
                return
        except ReadError as error:
            why = f"cannot shrink to {before}: it is above {limit}, and the tail cannot be determined now: {error}"
            raise ReadError(why, **error.facts) from error
        except (LedgerNotFoundError, EntryNotFoundError) as error:
            raise _refused(before, limit, f"since the tail cannot be determined: {error}") from error
        raise _refused(before, max(limit, tail), _INVISIBLE)

    # ---- seal and delete

    async def seal(self, log: LogName) -> LogMetadata:
        """Fence the writer and end the log: it stays readable and takes no appends. A sealed log is left as it is.

        Raises:
            LogNotFoundError: no such log.
            LogSealedError: the log is being deleted.
            The errors of a takeover (`TakeoverRunner.run`).

        Source: docs/log-semantics.md#rule-34b.
        """
        info = await self.describe(log)
        if info.record.state is LogState.SEALED:
            return info.record
        try:
            return (await self._end(info.ref, LogState.SEALED)).record
        except LogSealedError as error:
            if error.state is not LogState.SEALED:
                raise
            return (await self._logs.read(info.ref)).value  # another client has sealed it in the meantime

    async def delete(self, log: LogName, given_up: Collection[LedgerId] = ()) -> bool:
        """Fence the writer, then delete the log and its ledgers. Call again to resume what was interrupted.

        `given_up`: listed ledgers that need not be fenced if that fails (docs/log-semantics.md#rule-23).

        False if ledgers must outlive the log for a while, because a paused writer might still add to them
        (docs/log-semantics.md#rule-25). The name is free once a later call, or `collect`, has deleted them.

        Raises:
            LogNotFoundError: no such log.
            HistoryPageError: a later release has written a part of the ledger list; delete with that release.
            The errors of a takeover (`TakeoverRunner.run`).
        """
        info = await self.describe(log)
        if info.record.state is not LogState.DELETING:
            with suppress(LogSealedError):  # another client has begun to delete it in the meantime
                await self._end(info.ref, LogState.DELETING, given_up)
        return await self._finish_delete(info.ref)

    async def _finish_delete(self, ref: LogRef) -> bool:
        record = await self._deletion.delete_due(ref)
        if record is not None and metadata_changes.has_deletable(record):
            return False
        await self._logs.end_name(ref)
        await self._remove_record(ref)
        return True

    async def _remove_record(self, ref: LogRef) -> None:
        """Of a log whose name has ended: that it is deleted does not depend on this any more."""
        try:
            await self._logs.remove_record(ref)
        except LogStoreError as error:
            _log.warning(
                "log %s is deleted, and a part of its metadata is left, which `dlog gc` or `sweep` removes: %s",
                ref,
                error,
            )

    async def _end(self, ref: LogRef, state: LogState, given_up: Collection[LedgerId] = ()) -> TakeoverResult:
        owner = new_owner(self._environment, self._config.owner_name)
        runner = TakeoverRunner(
            ref,
            owner,
            logs=self._logs,
            ledgers=self._ledgers,
            config=self._config,
            end=state,
            given_up=given_up,
        )
        return await runner.run()

    # ---- garbage

    async def collect(self, log: LogName) -> LogMetadata | None:
        """Delete the log's ledgers whose grace has passed, and finish its deletion. None once it is completely deleted.

        Raises:
            LogNotFoundError: no such log.
            ContendedError: the record kept changing; what was deleted stays deleted.
        """
        ref = await self._logs.find(log)
        return await self.collect_ref(ref)

    async def collect_ref(self, ref: LogRef) -> LogMetadata | None:
        """As `collect`, for this incarnation. None if its record no longer exists."""
        record = await self._deletion.delete_due(ref)
        if record is None or record.state is not LogState.DELETING or metadata_changes.has_deletable(record):
            return record
        await self._finish_delete(ref)
        return None

    async def sweep(
        self, *, age_s: float = ORPHAN_AGE_S, staging_age_s: float = STAGING_AGE_S
    ) -> list[LedgerId]:
        """Delete what crashed takeovers, rotations and sinks of any log under this root left behind (orphan_sweep.py).

        Ledgers younger than `age_s` seconds are left alone, and so are those of a sink that are younger than
        `staging_age_s`, unless their batch was published with others. Returns the ids of the deleted ones.

        Source: docs/log-semantics.md#orphan-sweep.
        """
        return await OrphanSweep(self._logs, self._ledgers, age_s=age_s, staging_age_s=staging_age_s).run()

    async def remove_left_records(self) -> None:
        """Remove what interrupted deletions of logs under this root have left after the logs' names had ended.

        What cannot be removed now is skipped with a warning.

        Raises:
            MetadataUnavailableError: the metadata store cannot be reached.

        Source: docs/log-semantics.md#crash-windows.
        """
        for ref in await left_records(self._logs):
            try:
                record = await self._deletion.delete_due(ref)
            except (ContendedError, CorruptionError) as error:
                _log.warning("what is left of log %s (%s) stays: %s", ref, ref.log_uuid, error)
                continue
            if record is None or not metadata_changes.has_deletable(record):
                await self._remove_record(ref)


def _refused(before: MessageId, limit: MessageId, reason: str) -> ShrinkRefusedError:
    return ShrinkRefusedError(
        f"cannot shrink to {before}: the highest id allowed now is {limit}, {reason}",
        requested=before,
        limit=limit,
    )
