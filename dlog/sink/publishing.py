"""The end of a sink's batch: one compare-and-set lists its ledgers, or they are deleted.

Invariant (docs/log-semantics.md#rule-37): what was published is never deleted here, whatever answer was lost, since a
ledger is deleted only once a record shows that it is not listed and never can be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence

from dlog.client import LogClient
from dlog.core.metadata_changes import with_orphan_barred
from dlog.core.metadata_update import Applied
from dlog.core.publication import (
    Barred,
    NoRoom,
    NotOwner,
    Publish,
    Published,
    SinkBatch,
    StagedLedger,
    Verdict,
    named_in,
    publication,
)
from dlog.core.takeover import describe_loss
from dlog.errors import (
    HistoryPageError,
    LogNotFoundError,
    StagingBarredError,
    TooManySinksError,
    WriterDeposedError,
)
from dlog.format.log_metadata import SINKS_MAX
from dlog.log_retention import LogRetention
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, LogState
from dlog.sink.epoch import SinkEpoch
from dlog.together import each
from ledger.errors import LogStoreError, MetadataOutcomeUnknownError, UnavailableError
from ledger.metadata.rounds import Rounds
from ledger.model import LedgerId, Versioned

_log = logging.getLogger(__name__)

_TIDY_S_MAX = 10.0


async def publish(
    client: LogClient, epoch: SinkEpoch, batch: SinkBatch | None, staged: Sequence[StagedLedger]
) -> bool:
    """List these closed ledgers, which must be all of the batch. False if the log has the batch already.

    On return readers see all of it. Ledgers of a batch that the log has already are deleted. Repeating a call whose
    outcome is unknown gives its outcome.

    Raises:
        WriterDeposedError: another client took the log over, or it was sealed or deleted; nothing was published.
        StagingBarredError: the log accepts the ledgers' ids no longer; nothing was published.
        TooManySinksError: the log has marks of as many other sinks as it can have; nothing was published.
        RecordTooLargeError, ContendedError, MetadataUnavailableError: nothing was published.
        MetadataOutcomeUnknownError: it may have been published.

    Source: docs/log-semantics.md#rule-10, #rule-37.
    """
    if not staged:
        return True
    rounds = Rounds(client.ledgers.environment, f"the record of log {epoch.ref}")
    in_doubt = False
    while True:
        try:
            read, verdict = await _look(client, epoch, batch, staged)
            if isinstance(verdict, Publish):
                answer = await client.logs.compare_and_set(
                    epoch.ref, verdict.record, read.version, limit_s=client.config.takeover_timeout_s
                )
                if isinstance(answer, Applied):
                    return True
                # Refused, or applied and changed since: a fresh record decides.
                in_doubt = in_doubt or not answer.definite
                await rounds.again()
                continue
        except UnavailableError as error:
            if in_doubt:
                raise _in_doubt(epoch, error) from error
            raise
        match verdict:
            case Published(listed):
                left = [one.ledger_id for one in staged if one.ledger_id not in listed]
                if left:
                    await discard(client, epoch.ref, left)
                return bool(listed)
            case refused:
                refusal = _refusal(epoch, batch, refused, read.value)
                if in_doubt and batch is None:
                    # Without a number no mark is left of a batch that was listed and then trimmed.
                    raise _in_doubt(epoch, refusal) from refusal
                raise refusal


async def tidy(client: LogClient, ref: LogRef) -> None:
    """What an owner does after a rotation (docs/log-semantics.md#rule-34), after a batch: trim, and delete ledgers.

    An error is logged: what is left is tried again after the next batch.
    """
    ledgers = client.ledgers
    retention = LogRetention(ledgers.store, client.logs, client.admin, ledgers.environment)
    try:
        async with asyncio.timeout(_TIDY_S_MAX):
            await retention.tidy(ref, (await client.logs.read(ref)).value)
    except (LogStoreError, TimeoutError) as error:
        _log.warning(
            "log %s: could not trim it or delete ledgers; will try after the next batch: %s", ref, error
        )


async def discard(client: LogClient, ref: LogRef, ledger_ids: Collection[LedgerId]) -> list[LedgerId]:
    """Delete those of these ledgers that the log does not list; returns them. Afterwards it can list none of them.

    A change that would list them may still be under way: the record is changed first, so that it is refused.

    Raises:
        ContendedError: the record kept changing; nothing was deleted.
        MetadataUnavailableError, MetadataOutcomeUnknownError: as the metadata store raises them.
    """
    environment = client.ledgers.environment
    rounds = Rounds(environment, f"the record of log {ref}")
    while True:
        try:
            read = await client.logs.read(ref)
        except LogNotFoundError:
            return []  # the sweep decides by the log's name
        named = named_in(read.value, ledger_ids)
        left = [
            one
            for one in sorted(ledger_ids)
            if one not in named and not await _in_page(client, ref, read, one)
        ]
        if not left:
            return []
        if left[-1] <= read.value.last_ledger_id:
            break
        barred = with_orphan_barred(read.value, left[-1], environment.token())
        answer = await client.logs.compare_and_set(
            ref, barred, read.version, limit_s=client.config.takeover_timeout_s
        )
        if not isinstance(answer, Applied):
            await rounds.again()
    await each(left, client.ledgers.delete)
    return left


# ---- parts


async def _look(
    client: LogClient, epoch: SinkEpoch, batch: SinkBatch | None, staged: Sequence[StagedLedger]
) -> tuple[Versioned[LogMetadata], Verdict]:
    try:
        read = await client.logs.read(epoch.ref)
    except LogNotFoundError as error:
        raise WriterDeposedError(
            f"log {epoch.ref} was deleted, and the batch is not in it: create it again or use another log, then write "
            "the batch again",
            log=str(epoch.ref),
        ) from error
    environment = client.ledgers.environment
    verdict = publication(
        read.value,
        epoch.ownership,
        batch,
        staged,
        append_time_us=epoch.append_time_us,
        now_us=environment.wall_us(),
        nonce=environment.token(),
    )
    if isinstance(verdict, NotOwner | Barred) and await _in_pages(client, epoch.ref, read, staged):
        verdict = Published(frozenset(one.ledger_id for one in staged))
    return read, verdict


async def _in_pages(
    client: LogClient, ref: LogRef, read: Versioned[LogMetadata], staged: Sequence[StagedLedger]
) -> bool:
    """Whether pages of the list have the batch; all of it, since one change has listed all of it."""
    return await _in_page(client, ref, read, min(one.ledger_id for one in staged))


async def _in_page(client: LogClient, ref: LogRef, read: Versioned[LogMetadata], ledger_id: LedgerId) -> bool:
    rounds = Rounds(client.ledgers.environment, f"the ledger list of log {ref}")
    while True:
        try:
            return await client.logs.ledger_list(ref, read.value).is_in_page(ledger_id)
        except HistoryPageError as error:
            await client.logs.raise_unless_changed(ref, read.version, error)
            await rounds.again(error)
            read = await client.logs.read(ref)


def _in_doubt(epoch: SinkEpoch, cause: LogStoreError) -> MetadataOutcomeUnknownError:
    return MetadataOutcomeUnknownError(
        f"it is not known whether log {epoch.ref} has the batch: the answer to its publication was lost, and now "
        f"{cause}; run it again, which publishes nothing twice if it is numbered",
        log=str(epoch.ref),
    )


def _refusal(
    epoch: SinkEpoch, batch: SinkBatch | None, verdict: Verdict, record: LogMetadata
) -> LogStoreError:
    log = str(epoch.ref)
    what = "the batch" if batch is None else f"batch {batch.number} of {batch.writer_id}"
    match verdict:
        case NotOwner():
            way_out = "stop the other writer, then write it again"
            if record.state is not LogState.ACTIVE:
                way_out = "write it to another log"
            return WriterDeposedError(
                f"log {log} {describe_loss(record)}, after this sink had it in epoch {epoch.epoch}: {what} is not "
                f"published; {way_out}",
                log=log,
                epoch=record.epoch,
                owner=record.owner,
            )
        case Barred():
            return StagingBarredError(
                f"log {log} accepts only ledgers above {record.last_ledger_id} now, {what} has older ones and is not "
                "published: write it again",
                log=log,
                batch=None if batch is None else batch.number,
            )
        case NoRoom():
            return TooManySinksError(
                f"log {log} remembers the last batches of {SINKS_MAX} sinks, the limit, none of them older than 30 "
                f"days: {what} is not published; use another log, or, with a number above its last one, the writer id "
                "of an earlier sink",
                log=log,
                limit=SINKS_MAX,
            )
    raise AssertionError("no refusal")
