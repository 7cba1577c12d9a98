"""The giving side of a copy: entries of a closed fragment, from whichever member has an intact copy.

Every entry is verified against its digest before it is given away, so that no damage is copied
(docs/pitfalls.md#copy-of-a-damaged-replica). An entry that no member gives is an error, never left out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence

from ledger.config import LedgerClientConfig
from ledger.core.distribution import write_set
from ledger.errors import BookieUnavailableError, DigestMismatchError, LogStoreError, ReadError
from ledger.model import BookieId, BookieSet, LedgerId, LedgerMetadata
from ledger.reading.bookie_reads import BookieAnswer, Entry, read_batch, read_entry
from ledger.repair.copying.together import together
from ledger.repair.core.fragments import ClosedFragment
from ledger.transport.pool import ConnectionPool
from ledger.transport.v2_connection import V2Connection
from ledger.wire.digest import make_digester
from ledger.wire.status import Answer

_SINGLE_READS_AT_ONCE = 32


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
    ) -> None:
        """`avoid`: the bookie that is to be written to. Members that are not registered are not asked."""
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

    async def read(self, entry_ids: Sequence[int]) -> AsyncGenerator[list[Entry], None]:
        """These entries, ascending, in parts of about a read window.

        Raises:
            ReadError: no usable member has an intact copy of one of them, or none answers.
            DigestMismatchError: the only copies are damaged.
        """
        quorum = self._fragment.quorum
        if quorum.ensemble != quorum.write:
            # The next entry is on other members: a request for each.
            for at in range(0, len(entry_ids), _SINGLE_READS_AT_ONCE):
                some = entry_ids[at : at + _SINGLE_READS_AT_ONCE]
                yield await together(self._entry(each) for each in some)
            return
        for run in _runs(entry_ids):
            at = run.start
            while at < run.stop:
                found = await self._batch(at, run.stop - at)
                at += len(found)
                yield found

    async def _entry(self, entry_id: int) -> Entry:
        return (await self._batch(entry_id, 1))[0]

    async def _batch(self, first: int, count: int) -> list[Entry]:
        """At least one entry, from the first member that has it intact."""
        failures: list[BookieAnswer] = []
        for bookie_id in self._members(first):
            answer = await self._ask(bookie_id, first, count)
            if answer.answer is Answer.YES:
                self._first = bookie_id
                return list(answer.entries)
            failures.append(answer)
        raise self._unreadable(first, failures)

    def _members(self, entry_id: int) -> list[BookieId]:
        members = [self._fragment.ensemble[at] for at in write_set(entry_id, self._fragment.quorum)]
        usable = [each for each in members if each in self._usable]
        return sorted(usable, key=lambda each: each != self._first)

    async def _ask(self, bookie_id: BookieId, first: int, count: int) -> BookieAnswer:
        try:
            connection = await self._pool.entries(bookie_id)
        except BookieUnavailableError as error:
            return BookieAnswer(Answer.UNKNOWN, reason=error)
        timeout_s = self._config.read_timeout_s
        if count == 1 or not isinstance(connection, V2Connection):
            return await read_entry(connection, self._ledger_id, first, self._digester, timeout_s)
        window = self._config.read_window_bytes
        return await read_batch(connection, self._ledger_id, first, count, window, self._digester, timeout_s)

    def _unreadable(self, entry_id: int, failures: list[BookieAnswer]) -> LogStoreError:
        reasons = [answer.reason for answer in failures if answer.reason is not None]
        details = "; ".join(dict.fromkeys(map(str, reasons))) or "no bookie that has it is running"
        damaged = any(isinstance(reason, DigestMismatchError) for reason in reasons)
        what = f"entry {entry_id} of ledger {self._ledger_id}"
        if damaged:
            return DigestMismatchError(
                f"{what} has no intact copy on the bookies that run: {details}",
                ledger_id=self._ledger_id,
                entry_id=entry_id,
            )
        return ReadError(f"{what} cannot be copied: {details}", ledger_id=self._ledger_id, entry_id=entry_id)


def _runs(entry_ids: Sequence[int]) -> list[range]:
    """Consecutive ones together."""
    runs: list[range] = []
    for entry_id in entry_ids:
        if runs and runs[-1].stop == entry_id:
            runs[-1] = range(runs[-1].start, entry_id + 1)
        else:
            runs.append(range(entry_id, entry_id + 1))
    return runs
