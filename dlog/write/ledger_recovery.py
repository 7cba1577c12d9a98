"""Recovery of a log's ledgers, in parallel, and the facts that are recorded of each afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dlog.format.entry import Envelope, decode_envelope
from dlog.metadata.fresh_record import is_lost_ledger
from dlog.model import MessageId, SealFacts
from ledger.client import LedgerClient
from ledger.errors import (
    CorruptionError,
    LedgerNotFoundError,
    LedgerRecoveryError,
    MetadataFormatError,
    NotFoundError,
    UnavailableError,
)
from ledger.model import LedgerId
from ledger.reading.read_handle import ReadHandle
from ledger.tasks import start_task

_log = logging.getLogger(__name__)

NOT_COUNTED = -1
UNKNOWN_TIME_US = 0

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    facts: SealFacts
    last: Envelope | None
    """Of the last entry, if it was read."""


@dataclass(frozen=True, slots=True)
class RecoveredLedgers:
    """Fenced and sealed: no earlier writer's append can be acknowledged in any of these ledgers any more."""

    seals: dict[LedgerId, SealFacts]
    missing: list[LedgerId]
    """Those of unknown end."""
    lost: list[LedgerId]
    """Those whose seal was known, but which cannot be opened: their metadata is missing or damaged."""
    last_envelopes: dict[LedgerId, Envelope]
    """Of the last entry of those that have one, as far as it was read."""
    needs_ledger: bool = True
    """False if the writer of these ledgers is being closed, and no append waits for a new one."""


async def recover_ledgers(
    ledgers: LedgerClient,
    ledger_ids: Iterable[LedgerId],
    known: Mapping[LedgerId, SealFacts],
    password: bytes,
    on_marked: Callable[[], None] | None = None,
    *,
    unless_recovered: Collection[LedgerId] = (),
) -> RecoveredLedgers:
    """Recover all of these ledgers, in parallel. One whose metadata is missing or damaged is reported in the result.

    Any other error is raised. `unless_recovered`: ledgers of which one counts as missing if too few bookies respond, or
    entries are damaged on all of them; those bookies that do respond have fenced it.

    `known`: facts that the record holds already; they never change, so nothing is read for them. Such a ledger was
    closed, so one that is lost needs no fence. `on_marked`: called each time that the recovery of one of them begins to
    wait for bookies, and not for the metadata store.
    Source: docs/log-semantics.md#rule-20.
    """
    ids = list(ledger_ids)
    ends = await _all(
        _recover_one(ledgers, one, known.get(one), password, on_marked, given_up=one in unless_recovered)
        for one in ids
    )
    found = dict(zip(ids, ends, strict=True))
    return RecoveredLedgers(
        {one: end.facts for one, end in found.items() if end is not None},
        [one for one, end in found.items() if end is None and one not in known],
        [one for one, end in found.items() if end is None and one in known],
        {one: end.last for one, end in found.items() if end is not None and end.last is not None},
    )


async def _recover_one(
    ledgers: LedgerClient,
    ledger_id: LedgerId,
    known: SealFacts | None,
    password: bytes,
    on_marked: Callable[[], None] | None,
    *,
    given_up: bool,
) -> LedgerEnd | None:
    try:
        handle = await ledgers.open_with_recovery(ledger_id, password, read_first=True, on_marked=on_marked)
    except LedgerNotFoundError:
        return None
    except MetadataFormatError as error:
        if not is_lost_ledger(error):
            raise
        return None
    except LedgerRecoveryError as error:
        if not given_up:
            raise
        _log.warning("ledger %d is given up: %s", ledger_id, error)
        return None
    try:
        return await end_of_closed(handle) if known is None else LedgerEnd(known, None)
    finally:
        await handle.close()


async def end_of_closed(handle: ReadHandle) -> LedgerEnd:
    """Facts of a closed ledger, from its first and its last entry.

    Its messages are not counted if the last entry cannot be read, or is of a release that did not count them. Its bytes
    are those that the last entry's header says: a recovery that could not read it has closed the ledger with the length
    that a bookie claimed.
    """
    last_entry = handle.last_readable
    if last_entry < 0:
        return LedgerEnd(SealFacts(last_entry=-1, message_count=0, byte_count=0), None)
    found = await _all(_entry(handle, entry_id) for entry_id in sorted({0, last_entry}))
    (first, _), (last, length) = found[0], found[-1]
    facts = SealFacts(
        last_entry=last_entry,
        message_count=_messages_through(last),
        byte_count=handle.metadata.length if length is None else length,
        first_append_us=UNKNOWN_TIME_US if first is None else first.append_time_us,
        last_append_us=UNKNOWN_TIME_US if last is None else last.append_time_us,
    )
    return LedgerEnd(facts, last)


def _messages_through(last: Envelope | None) -> int:
    if last is None or last.messages_before is None:
        return NOT_COUNTED
    return last.messages_before + last.count


async def last_message(ledgers: LedgerClient, ledger_id: LedgerId, password: bytes) -> MessageId:
    """The last message of a closed ledger that has any."""
    handle = await ledgers.open(ledger_id, password)
    try:
        [entry] = await handle.read(handle.last_readable, handle.last_readable)
        return MessageId(ledger_id, handle.last_readable, decode_envelope(entry.payload)[0].count - 1)
    finally:
        await handle.close()


async def _entry(handle: ReadHandle, entry_id: int) -> tuple[Envelope | None, int | None]:
    """The entry's envelope, and the ledger's length through it; None if the entry is lost, damaged or unreadable now.

    That must not block the log's next writer, whose first append time may then be below this entry's.
    """
    length: int | None = None
    try:
        [entry] = await handle.read(entry_id, entry_id)
        length = entry.length
        return decode_envelope(entry.payload)[0], length
    except (NotFoundError, CorruptionError, UnavailableError):
        return None, length


async def _all(works: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """The results in order; the first error cancels the others."""
    tasks = [start_task(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
