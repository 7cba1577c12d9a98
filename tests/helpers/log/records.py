"""Log records that several tests start from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dlog.model import (
    ListedLedger,
    LogMetadata,
    LogState,
    MessageId,
    Owner,
    PageRef,
    PendingDelete,
    SealFacts,
    SinkMark,
)
from ledger.model import LedgerId

ALICE = Owner(instance="alice", name="first", host="host-a", process_id=11, started_us=1_700_000_000_000_000)
BOB = Owner(instance="bob", name="second", host="host-b", process_id=22, started_us=1_700_000_100_000_000)


def seal(last_entry: int) -> SealFacts:
    return SealFacts(
        last_entry=last_entry,
        message_count=(last_entry + 1) * 3,
        byte_count=(last_entry + 1) * 100,
        first_append_us=1_700_000_000_000_100 if last_entry >= 0 else 0,
        last_append_us=1_700_000_000_000_900 if last_entry >= 0 else 0,
    )


def listed(ledger_id: int, last_entry: int | None = None, *, epoch: int = 1) -> ListedLedger:
    return ListedLedger(
        ledger_id=LedgerId(ledger_id),
        epoch=epoch,
        created_us=1_700_000_000_000_000 + ledger_id,
        seal=None if last_entry is None else seal(last_entry),
    )


def record(
    *ledgers: ListedLedger, epoch: int = 1, owner: Owner | None = ALICE, nonce: int = 1
) -> LogMetadata:
    """A record whose high-water mark is its last ledger."""
    return LogMetadata(
        log_uuid="uuid-1",
        instance_id="cluster-1",
        epoch=epoch,
        owner=owner,
        ledgers=tuple(ledgers),
        last_ledger_id=max((one.ledger_id for one in ledgers), default=-1),
        nonce=nonce,
    )


def ids(ledgers: Iterable[ListedLedger]) -> list[int]:
    return [one.ledger_id for one in ledgers]


FULL = LogMetadata(
    log_uuid="8a6f0f2e-1111-4222-8333-944444444444",
    instance_id="7b6f0f2e-1111-4222-8333-944444444444",
    epoch=7,
    owner=ALICE,
    ledgers=(listed(3, 41, epoch=6), listed(9, 0, epoch=7), listed(300)),
    last_ledger_id=70_000,
    trim_before=MessageId(3, 5, 2),
    trimmed_end=MessageId(2, 8, 0),
    pending_delete=(
        PendingDelete(ledger_id=LedgerId(1), not_before_us=0),
        PendingDelete(ledger_id=LedgerId(2), not_before_us=1_700_000_500_000_000),
    ),
    sinks=(SinkMark(writer_id="spark-1", batch=12, time_us=1_700_000_000_000_000),),
    state=LogState.ACTIVE,
    nonce=2**62 + 5,
    grace_us=86_400_000_000,
)

PAGES = (
    PageRef(
        name="1-5-17-1a2b",
        level=1,
        first_id=5,
        last_id=100,
        ledgers=40,
        message_count=4_000,
        uncounted=3,
        byte_count=1_000_000,
        last_append_us=1_700_000_000_000_500,
    ),
    PageRef(
        name="0-120-33-3c4d",
        level=0,
        first_id=120,
        last_id=140,
        ledgers=10,
        message_count=0,
        uncounted=10,
        byte_count=2**40,
        last_append_us=0,
    ),
)
PAGED = replace(
    FULL,
    ledgers=(listed(203, 41, epoch=6), replace(listed(209, 0, epoch=7), location="somewhere"), listed(300)),
    trim_before=MessageId(131, 5, 2),
    trimmed_end=MessageId(124, 8, 0),
    pages=PAGES,
    first_id=130,
    deleted_below=60,
)
"""A record of the newest version with everything that one can have."""
