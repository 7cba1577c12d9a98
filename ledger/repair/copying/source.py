"""The giving side of a copy: entries of a closed fragment, from whichever member has an intact copy.

Entries are given away as they are stored, so that the copy is the same byte for byte. Each is verified against its
digest before, so that no damage is copied (docs/pitfalls.md#copy-of-a-damaged-replica). An entry that no member gives
is an error; it is left out only if the caller asks for that, and gets the error.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from dataclasses import dataclass

from ledger.config import LedgerClientConfig
from ledger.core.distribution import write_set
from ledger.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    LogStoreError,
    ProtocolError,
    ReadError,
)
from ledger.model import BookieId, BookieSet, LedgerId, LedgerMetadata
from ledger.reading.bookie_reads import ask_batch, refusal, timed_out
from ledger.repair.copying.intact_entries import intact_entries
from ledger.repair.copying.together import together
from ledger.repair.core.fragments import ClosedFragment
from ledger.transport.pool import ConnectionPool
from ledger.transport.v2_connection import V2Connection
from ledger.wire.digest import make_digester
from ledger.wire.entry import Buffer
from ledger.wire.status import Status

_SINGLE_READS_AT_ONCE = 32
_SKIPPED_MAX = 1000
"""Entries left out of one copy: some damaged blocks. Each costs a request to all members."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some entries, as they are stored: header, digest and payload."""

    entry_ids: Sequence[int]
    entries: Sequence[Buffer]


class Source:
    def __init__(
        self,
        pool: ConnectionPool,
        bookies: BookieSet,
        ledger_id: LedgerId,
        metadata: LedgerMetadata,
        fragment: ClosedFragment,
        config: LedgerClientConfig,
        avoid: Collection[BookieId],
        *,
        skips: bool = False,
    ) -> None:
        """`avoid`: the bookie that is to be written to. Members that are not registered are not asked.

        `skips`: leave out entries that no member gives, up to a limit. A member that does not answer is not asked again
        then, or each entry that only that one has would cost a timeout.
        """
        self._pool = pool
        self._ledger_id = ledger_id
        self._fragment = fragment
        self._config = config
        self._digester = make_digester(metadata.digest_type, metadata.password)
        self._usable = {
            each for each in fragment.ensemble if each not in avoid and bookies.find(each) is not None
        }
        self._first: BookieId | None = None
        """The member that answered last, asked first the next time."""
        self._skips = skips
        self._silent: set[BookieId] = set()
        self.skipped: dict[int, LogStoreError] = {}
        """Entries that were left out, each with the reason."""

    async def read(self, entry_ids: Sequence[int]) -> AsyncGenerator[Part, None]:
        """These entries, ascending, in parts of about a read window.

        Raises:
            ReadError: no usable member has an intact copy of one of them, or none answers; of too many with `skips`.
            DigestMismatchError: the only copies are damaged; as above.
        """
        quorum = self._fragment.quorum
        if quorum.ensemble != quorum.write:
            # The next entry is on other members: a request for each.
            for at in range(0, len(entry_ids), _SINGLE_READS_AT_ONCE):
                some = entry_ids[at : at + _SINGLE_READS_AT_ONCE]
                batches = await together(self._batch(each, 1) for each in some)
                found = [each for each in some if each not in self.skipped]
                if found:
                    yield Part(found, [entry for batch in batches for entry in batch])
            return
        for run in in_runs(entry_ids):
            while run:
                entries = await self._batch(run.start, len(run))
                if entries:
                    yield Part(run[: len(entries)], entries)
                run = run[max(1, len(entries)) :]

    async def _batch(self, first: int, count: int) -> list[Buffer]:
        """At least one entry, from the first member that has it intact; none if it is left out."""
        failures: list[LogStoreError] = []
        for bookie_id in self._members(first):
            try:
                entries = await self._ask(bookie_id, first, count)
            except (BookieUnavailableError, DigestMismatchError, ProtocolError) as error:
                failures.append(error)
            else:
                self._first = bookie_id
                return entries
        reason = self._unreadable(first, failures)
        if not self._skips or len(self.skipped) >= _SKIPPED_MAX:
            raise reason
        self.skipped[first] = reason
        return []

    def _members(self, entry_id: int) -> list[BookieId]:
        members = [self._fragment.ensemble[at] for at in write_set(entry_id, self._fragment.quorum)]
        usable = [each for each in members if each in self._usable and each not in self._silent]
        return sorted(usable, key=lambda each: each != self._first)

    async def _ask(self, bookie_id: BookieId, first: int, count: int) -> list[Buffer]:
        """At least one entry, up to the first damaged one."""
        try:
            connection = await self._pool.entries(bookie_id)
        except BookieUnavailableError:
            self._note_silent(bookie_id)
            raise
        assert isinstance(connection, V2Connection), "the connections of a copier speak version 2"
        window, timeout_s = self._config.read_window_bytes, self._config.read_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                status, body = await ask_batch(connection, self._ledger_id, first, count, window, timeout_s)
        except TimeoutError:
            self._note_silent(bookie_id)
            raise timed_out(connection, timeout_s) from None
        if status is not Status.EOK:
            raise refusal(connection, status, self._ledger_id, first)
        return intact_entries(body, self._ledger_id, first, count, self._digester)

    def _note_silent(self, bookie_id: BookieId) -> None:
        if self._skips:
            self._silent.add(bookie_id)

    def _unreadable(self, entry_id: int, failures: list[LogStoreError]) -> LogStoreError:
        details = "; ".join(dict.fromkeys(map(str, failures))) or "no bookie that has it is running"
        damaged = any(isinstance(error, DigestMismatchError) for error in failures)
        what = f"entry {entry_id} of ledger {self._ledger_id}"
        if damaged:
            return DigestMismatchError(
                f"{what} has no intact copy on the bookies that run: {details}",
                ledger_id=self._ledger_id,
                entry_id=entry_id,
            )
        return ReadError(f"{what} cannot be copied: {details}", ledger_id=self._ledger_id, entry_id=entry_id)


def in_runs(entry_ids: Sequence[int]) -> Iterator[range]:
    """Consecutive ones together; few steps for each run, however long it is."""
    at = 0
    while at < len(entry_ids):
        first = entry_ids[at]
        # They ascend, so how far an entry is ahead of its index never falls, and rises at each gap.
        end = bisect_right(
            range(len(entry_ids)), first - at, lo=at, key=lambda number: entry_ids[number] - number
        )
        yield range(first, first + end - at)
        at = end
