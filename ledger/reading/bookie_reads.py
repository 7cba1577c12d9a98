"""Reads of one entry or one batch from one bookie: send, wait with a timeout, verify.

The result has three values; what several answers mean together is not decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ledger.errors import BookieUnavailableError, DigestMismatchError, ProtocolError
from ledger.model import EntryId, LedgerId
from ledger.transport.entry_connection import EntryConnection, ReadAnswer
from ledger.transport.v2_connection import V2Connection
from ledger.wire.constants import (
    BATCH_READ_HEADER,
    BATCH_READ_REQUEST,
    ENTRY_SIZE,
)
from ledger.wire.digest import Digester
from ledger.wire.entry import Buffer
from ledger.wire.status import Answer, Status, answer_of

_SMALL_ENTRY_BYTES = 4096
"""Below this a copy of the block is paid for by cheaper slices; above it every byte is copied once less."""

_new: Any = tuple.__new__  # what Entry's constructor calls, after a Python frame of its own


class Entry(NamedTuple):
    """One entry as the writer submitted it. `length` is the ledger's length up to and including it.

    A tuple, because a reader makes one for every entry, and a frozen dataclass costs five times as much.
    """

    entry_id: EntryId
    lac: int
    length: int
    payload: Buffer


@dataclass(frozen=True, slots=True)
class BookieAnswer:
    """The result of one bookie's answer. `reason`: why nothing is known."""

    answer: Answer
    entries: tuple[Entry, ...] = ()
    status: Status | None = None
    reason: Exception | None = None


async def read_entry(
    connection: EntryConnection, ledger_id: LedgerId, entry_id: int, digester: Digester, timeout_s: float
) -> BookieAnswer:
    pending = connection.read(ledger_id, entry_id, timeout_s)
    return await _ask(connection, pending, ledger_id, entry_id, digester, timeout_s)


async def fence_read_entry(
    connection: EntryConnection,
    ledger_id: LedgerId,
    entry_id: int,
    key: bytes,
    priority: bool,
    digester: Digester,
    timeout_s: float,
) -> BookieAnswer:
    """A read that fences first; `entry_id` -1 reads the last entry held."""
    pending = connection.read(ledger_id, entry_id, timeout_s, fence_key=key, priority=priority)
    return await _ask(connection, pending, ledger_id, entry_id, digester, timeout_s)


async def read_batch(
    connection: V2Connection,
    ledger_id: LedgerId,
    first: int,
    max_entries: int,
    max_bytes: int,
    digester: Digester,
    timeout_s: float,
) -> BookieAnswer:
    """Consecutive entries from `first` on: at least one if the answer is YES, up to the first damaged one.

    Protocol: docs/bookkeeper.md#batch-reads.
    """
    pending = ask_batch(connection, ledger_id, first, max_entries, max_bytes, timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            status, body = await pending
        if status is not Status.EOK:
            return _refused(connection, status, ledger_id, first)
        return BookieAnswer(Answer.YES, _split(body, ledger_id, first, max_entries, digester))
    except (BookieUnavailableError, DigestMismatchError, ProtocolError) as error:
        return BookieAnswer(Answer.UNKNOWN, reason=error)
    except TimeoutError:
        return BookieAnswer(Answer.UNKNOWN, reason=timed_out(connection, timeout_s))


def ask_batch(
    connection: V2Connection,
    ledger_id: LedgerId,
    first: int,
    max_entries: int,
    max_bytes: int,
    timeout_s: float,
) -> asyncio.Future[ReadAnswer]:
    """Send the request of `read_batch`."""
    request_id = connection.next_request_id()
    frame = BATCH_READ_REQUEST.pack(
        BATCH_READ_REQUEST.size - 4, BATCH_READ_HEADER, ledger_id, first, request_id, max_entries, max_bytes
    )
    return connection.batch_read(request_id, frame, timeout_s)


def ask_first(
    connection: V2Connection, ledger_id: LedgerId, entries_max: int, bytes_max: int, timeout_s: float
) -> asyncio.Future[ReadAnswer]:
    """Send a request for the first entries of a ledger, at least one; `first_entries` reads the answer."""
    if entries_max == 1:
        return connection.read(ledger_id, 0, timeout_s)
    return ask_batch(connection, ledger_id, 0, entries_max, bytes_max, timeout_s)


def first_entries(
    answer: ReadAnswer, ledger_id: LedgerId, entries_max: int, digester: Digester
) -> tuple[Entry, ...]:
    """The entries in the answer to `ask_first`; none if the bookie refused.

    Raises:
        DigestMismatchError: the first one is damaged.
        ProtocolError: the answer has another form.
    """
    status, body = answer
    if status is not Status.EOK:
        return ()
    if entries_max == 1:
        return (open_entry(body, ledger_id, 0, digester),)
    return _split(body, ledger_id, 0, entries_max, digester)


async def _ask(
    connection: EntryConnection,
    pending: Awaitable[ReadAnswer],
    ledger_id: LedgerId,
    entry_id: int,
    digester: Digester,
    timeout_s: float,
) -> BookieAnswer:
    try:
        async with asyncio.timeout(timeout_s):
            status, body = await pending
        if status is not Status.EOK:
            return _refused(connection, status, ledger_id, entry_id)
        found = open_entry(body, ledger_id, None if entry_id < 0 else entry_id, digester)
        return BookieAnswer(Answer.YES, (found,))
    except (BookieUnavailableError, DigestMismatchError) as error:
        return BookieAnswer(Answer.UNKNOWN, reason=error)
    except TimeoutError:
        return BookieAnswer(Answer.UNKNOWN, reason=timed_out(connection, timeout_s))


def open_entry(body: memoryview, ledger_id: LedgerId, entry_id: int | None, digester: Digester) -> Entry:
    """Verify what a bookie stored and return the entry; any entry of the ledger if `entry_id` is None.

    Raises:
        DigestMismatchError: the digest, the ledger id or the entry id is wrong.
    """
    header = digester.verify(body, ledger_id, entry_id)
    return Entry(EntryId(header.entry_id), header.lac, header.length, body[digester.overhead_bytes :])


def _split(
    body: memoryview, ledger_id: LedgerId, first: int, max_entries: int, digester: Digester
) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    size_of, keep, position, end = ENTRY_SIZE.unpack_from, entries.append, 0, len(body)
    small = end >= 4 and size_of(body)[0] < _SMALL_ENTRY_BYTES
    open_entry = partial(digester.open_entry, bytes(body)) if small else partial(_open_view, body, digester)
    for entry_id in range(first, first + max_entries):
        if position + 4 > end:
            break
        (size,) = size_of(body, position)
        start = position + 4
        position = start + size
        if size < 0 or position > end:
            raise ProtocolError(f"batch read answer holds an entry of {size} bytes, {end - start} are left")
        try:
            keep(_new(Entry, (entry_id, *open_entry(start, position, ledger_id, entry_id))))
        except DigestMismatchError:
            if not entries:
                raise
            break  # what came before is intact; the next read starts at the damaged one
    if not entries:
        raise ProtocolError("batch read answer with status EOK holds no entry")
    return tuple(entries)


def _open_view(
    body: memoryview, digester: Digester, start: int, end: int, ledger_id: int, entry_id: int
) -> tuple[int, int, memoryview]:
    """As `Digester.open_entry`, without a copy of the payload."""
    entry = body[start:end]
    header = digester.verify(entry, ledger_id, entry_id)
    return header.lac, header.length, entry[digester.overhead_bytes :]


def _refused(connection: EntryConnection, status: Status, ledger_id: LedgerId, entry_id: int) -> BookieAnswer:
    reason = refusal(connection, status, ledger_id, entry_id)
    return BookieAnswer(answer_of(status), status=status, reason=reason)


def refusal(
    connection: EntryConnection, status: Status, ledger_id: LedgerId, entry_id: int
) -> BookieUnavailableError:
    return BookieUnavailableError(
        f"bookie {connection.bookie_id} answered {status.name} for entry {entry_id} of ledger {ledger_id}",
        bookie_id=connection.bookie_id,
    )


def timed_out(connection: EntryConnection, timeout_s: float) -> BookieUnavailableError:
    return BookieUnavailableError(
        f"bookie {connection.bookie_id} did not respond within {timeout_s:g} s",
        bookie_id=connection.bookie_id,
    )
