"""A ledger as running bookies store it, entry by entry. Diagnostic only.

Every entry is asked of the members of its write set in turn until one has it whole. A closed ledger is read to
its end; of an open one what bookies hold is shown, and part of that may not be confirmed. Fences nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from bookie_server.tools.admin_connection import AdminConnection, linked
from ledger.core.distribution import write_set
from ledger.errors import (
    BookieUnavailableError,
    ConfigurationError,
    DigestMismatchError,
    LedgerNotFoundError,
    ReadError,
)
from ledger.metadata.store import MetadataStore
from ledger.model import FRAME_BYTES_MAX, BookieId, BookieSet, LedgerId, LedgerMetadata
from ledger.printing import Row
from ledger.wire.digest import make_digester
from ledger.wire.messages import Operation, V3ReadRequest, V3ReadResponse
from ledger.wire.status import Answer, Status, answer_of


class LiveLedger:
    """`only`: ask this bookie and no other."""

    def __init__(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, bookies: BookieSet, only: BookieId | None
    ) -> None:
        self._ledger_id = ledger_id
        self._metadata = metadata
        self._bookies = bookies
        self._only = only
        self._digester = make_digester(metadata.digest_type, metadata.password)
        self._links: dict[BookieId, AdminConnection] = {}
        self._unavailable: set[BookieId] = set()
        """Did not answer, and is asked after the others: a hung bookie costs one time limit, not one an entry."""
        self._stack = AsyncExitStack()

    async def rows(self, first: int, last: int) -> AsyncGenerator[Row, None]:
        """One for each entry. ReadError where none of the bookies can give what must be there."""
        end = min(last, self._metadata.last_entry) if self._metadata.closed else last
        # One bookie of a larger ensemble lacks some entries; an open ledger ends where it lacks all in a row.
        gap_max = 1 if self._only is None else self._metadata.quorum.ensemble
        gap = 0
        async with self._stack:
            for entry_id in range(first, end + 1):
                row = await self._row(entry_id)
                gap = gap + 1 if row is None else 0
                if row is not None:
                    yield row
                elif gap == gap_max and not self._metadata.closed:
                    return

    async def _row(self, entry_id: int) -> Row | None:
        """None if every bookie asked says that it does not have the entry."""
        reasons: list[str] = []
        missing = 0
        for bookie_id in sorted(self._holders(entry_id), key=self._unavailable.__contains__):
            try:
                found = await self._read(bookie_id, entry_id)
            except (BookieUnavailableError, DigestMismatchError) as error:
                if isinstance(error, BookieUnavailableError):
                    self._unavailable.add(bookie_id)
                reasons.append(str(error))
                continue
            if isinstance(found, Status):
                missing += answer_of(found) is Answer.PROVED_NO
                reasons.append(f"bookie {bookie_id} answered {found.name}")
                continue
            return found
        if missing == len(reasons) and (not self._metadata.closed or self._only is not None):
            return None
        raise ReadError(f"cannot read entry {entry_id} of ledger {self._ledger_id}: {'; '.join(reasons)}")

    def _holders(self, entry_id: int) -> list[BookieId]:
        if self._only is not None:
            return [self._only]
        ensemble = self._metadata.fragment_of(entry_id).ensemble
        return [ensemble[position] for position in write_set(entry_id, self._metadata.quorum)]

    async def _read(self, bookie_id: BookieId, entry_id: int) -> Row | Status:
        request = V3ReadRequest(ledger_id=self._ledger_id, entry_id=entry_id)
        link = await self._link(bookie_id)
        try:
            status, answer = await link.ask(Operation.READ_ENTRY, request, V3ReadResponse)
        except BookieUnavailableError:
            del self._links[bookie_id]
            raise
        if status is not Status.EOK or answer is None or answer.entry is None:
            return status
        header = self._digester.verify(answer.entry, self._ledger_id, entry_id)
        return {
            "ledger": self._ledger_id,
            "entry": entry_id,
            "lac": header.lac,
            "length": header.length,
            "bytes": len(answer.entry),
            "bookie": bookie_id,
            "payload": answer.entry[self._digester.overhead_bytes :].hex(),
        }

    async def _link(self, bookie_id: BookieId) -> AdminConnection:
        if bookie_id not in self._links:
            info = self._bookies.find(bookie_id)
            if info is None:
                raise BookieUnavailableError(f"bookie {bookie_id} is not registered", bookie_id=bookie_id)
            link = linked(info.host, info.port, FRAME_BYTES_MAX)
            self._links[bookie_id] = await self._stack.enter_async_context(link)
        return self._links[bookie_id]


async def live_rows(
    store: MetadataStore, ledger_id: LedgerId, only: str | None, first: int, last: int
) -> AsyncGenerator[Row, None]:
    """One row for each entry of the ledger, as its bookies, or `only` this one, hold it."""
    try:
        metadata = (await store.read_ledger(ledger_id)).value
    except LedgerNotFoundError as error:
        raise LedgerNotFoundError(
            f"ledger {ledger_id} does not exist at {store.uri}", ledger_id=ledger_id
        ) from error
    members = list(dict.fromkeys(metadata.members()))
    if only is not None and only not in members:
        raise ConfigurationError(
            f"bookie {only} has no entries of ledger {ledger_id}: its bookies are {', '.join(members)}"
        )
    ledger = LiveLedger(ledger_id, metadata, await store.bookies(), None if only is None else BookieId(only))
    async with aclosing(ledger.rows(first, last)) as rows:
        async for row in rows:
            yield row
