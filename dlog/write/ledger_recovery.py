"""Recovery of a log's ledgers, in parallel, and the facts that are recorded of each afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dlog.format.entry import decode_envelope
from dlog.model import MessageId, SealFacts
from ledger.client import LedgerClient
from ledger.errors import CorruptionError, LedgerNotFoundError, NotFoundError, UnavailableError
from ledger.model import LedgerId
from ledger.reading.read_handle import ReadHandle

NOT_COUNTED = -1
UNKNOWN_TIME_US = 0

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RecoveredLedgers:
    """Fenced and sealed: no earlier writer's append can be acknowledged in any of these ledgers any more."""

    seals: dict[LedgerId, SealFacts]
    missing: list[LedgerId]
    needs_ledger: bool = True
    """False if the writer of these ledgers is being closed, and no append waits for a new one."""


async def recover_ledgers(
    ledgers: LedgerClient,
    ledger_ids: Iterable[LedgerId],
    known: Mapping[LedgerId, SealFacts],
    password: bytes,
) -> RecoveredLedgers:
    """Recover all of these ledgers, in parallel. A missing ledger is reported in the result; any other error is raised.

    `known`: facts that the record holds already; they never change, so nothing is read for them.
    Source: docs/log-semantics.md#rule-20.
    """
    ids = list(ledger_ids)
    facts = await _all(_recover_one(ledgers, one, known.get(one), password) for one in ids)
    found = dict(zip(ids, facts, strict=True))
    return RecoveredLedgers(
        {one: seal for one, seal in found.items() if seal is not None},
        [one for one, seal in found.items() if seal is None],
    )


async def _recover_one(
    ledgers: LedgerClient, ledger_id: LedgerId, known: SealFacts | None, password: bytes
) -> SealFacts | None:
    try:
        handle = await ledgers.open_with_recovery(ledger_id, password)
    except LedgerNotFoundError:
        return None
    try:
        return known or await seal_facts(handle)
    finally:
        await handle.close()


async def seal_facts(handle: ReadHandle) -> SealFacts:
    """Facts of a closed ledger: the times of its first and last entry; its messages are not counted."""
    last_entry = handle.last_readable
    if last_entry < 0:
        return SealFacts(last_entry=-1, message_count=0, byte_count=0)
    first_us, last_us = await _all((_append_time(handle, 0), _append_time(handle, last_entry)))
    return SealFacts(
        last_entry=last_entry,
        message_count=NOT_COUNTED,
        byte_count=handle.metadata.length,
        first_append_us=first_us,
        last_append_us=last_us,
    )


async def last_message(ledgers: LedgerClient, ledger_id: LedgerId, password: bytes) -> MessageId:
    """The last message of a closed ledger that has any."""
    handle = await ledgers.open(ledger_id, password)
    try:
        [entry] = await handle.read(handle.last_readable, handle.last_readable)
        return MessageId(ledger_id, handle.last_readable, decode_envelope(entry.payload)[0].count - 1)
    finally:
        await handle.close()


async def _append_time(handle: ReadHandle, entry_id: int) -> int:
    """The entry's append time; unknown if the entry is lost, damaged or unreadable now.

    That must not block the log's next writer, whose first append time may then be below this entry's.
    """
    try:
        [entry] = await handle.read(entry_id, entry_id)
        envelope, _ = decode_envelope(entry.payload)
    except (NotFoundError, CorruptionError, UnavailableError):
        return UNKNOWN_TIME_US
    return envelope.append_time_us


async def _all(works: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """The results in order; the first error cancels the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
