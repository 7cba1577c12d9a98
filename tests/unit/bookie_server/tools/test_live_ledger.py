"""A ledger that is read from running bookies, of which one hangs."""

from __future__ import annotations

import pytest

from bookie_server.tools.live_ledger import LiveLedger
from ledger.errors import BookieUnavailableError, ReadError
from ledger.model import BookieId, BookieSet, EntryId, Fragment, LedgerId, LedgerMetadata, QuorumSizes
from ledger.printing import Row
from ledger.wire.status import Status

HUNG = BookieId("hung:3181")
ENSEMBLE = (BookieId("a:3181"), BookieId("b:3181"), HUNG)


class Bookies(LiveLedger):
    """Answers in place of connections."""

    def __init__(self, last_entry: int, intact: set[BookieId]) -> None:
        quorum = QuorumSizes(ensemble=3, write=3, ack=2)
        metadata = LedgerMetadata(quorum=quorum, fragments=(Fragment(EntryId(0), ENSEMBLE),))
        super().__init__(LedgerId(7), metadata.closed_at(EntryId(last_entry), 10), BookieSet(), None)
        self._intact = intact
        self.asked: list[BookieId] = []

    async def _read(self, bookie_id: BookieId, entry_id: int) -> Row | Status:
        self.asked.append(bookie_id)
        if bookie_id == HUNG:
            raise BookieUnavailableError("it does not answer", bookie_id=bookie_id)
        return {"entry": entry_id} if bookie_id in self._intact else Status.ENOENTRY


async def test_a_bookie_that_hangs_costs_one_time_limit_and_not_one_an_entry() -> None:
    bookies = Bookies(99, set(ENSEMBLE))
    assert [row["entry"] async for row in bookies.rows(0, 99)] == list(range(100))
    assert bookies.asked.count(HUNG) == 1


async def test_it_is_asked_again_for_what_the_others_lack() -> None:
    bookies = Bookies(99, set())
    with pytest.raises(ReadError, match=r"entry 0 of ledger 7: .*it does not answer"):
        await anext(bookies.rows(0, 99))
    assert bookies.asked.count(HUNG) == 1
