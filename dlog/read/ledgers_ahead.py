"""Reads the beginnings of the sealed ledgers that a reader comes to next, while it returns those before.

A log of many small ledgers would cost a reader two round trips each. Only ledgers whose seal the record holds are read
ahead, and only what fits the reader's byte limit with what is fetched already, and the limit of all readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dlog.model import ListedLedger, SealFacts
from dlog.read.config import ReaderConfig
from ledger.buggify import buggify
from ledger.client import LedgerClient
from ledger.model import LedgerId
from ledger.reading.closed_ledgers import Beginning

_LEDGERS_MAX = 128
"""Asked for together: enough that requests to a bookie share a write, few enough to be decoded in some milliseconds."""
_ENTRY_OVERHEAD_BYTES = 100

SealedAhead = Callable[[int], Iterator[ListedLedger]]
"""Ledgers that will be read next, in order, with ids above the given one."""


class LedgersAhead:
    """Call `ask_from` and then `take` for each ledger in turn, and `close` in any case."""

    def __init__(
        self, ledgers: LedgerClient, password: bytes, config: ReaderConfig, upcoming: SealedAhead
    ) -> None:
        self._upcoming = upcoming
        self._config = config
        self._entries_max = 1 if buggify("reader.small-fetch") else config.fetch_entries_max
        self._closed_ledgers = ledgers.closed_ledgers(
            password, entries_max=self._entries_max, bytes_max=config.fetch_bytes
        )
        self._expected: dict[int, int] = {}
        """Ledgers asked for and not taken yet, in order, with the bytes that they may bring."""
        self.asked_bytes = 0
        """What all of these may bring."""

    def ask_from(self, ledger_id: int, bytes_used: int, bytes_free: int) -> None:
        """Begin to read this ledger and those after it, unless more than half of what was asked for is left.

        `bytes_used`: of the reader's limit. `bytes_free`: of the limit of all readers.
        """
        while (first := next(iter(self._expected), ledger_id)) < ledger_id:
            self.asked_bytes -= self._expected.pop(first)  # trimmed since it was asked for
            self._closed_ledgers.drop(LedgerId(first))
        if len(self._expected) <= _LEDGERS_MAX // 2:
            self._ask(
                ledger_id, min(bytes_free, self._config.read_ahead_bytes - bytes_used - self.asked_bytes)
            )

    async def take(self, ledger_id: int) -> Beginning | None:
        """The beginning of the ledger if it was read ahead; None if it must be opened."""
        if ledger_id not in self._expected:
            return None
        found = await self._closed_ledgers.take(LedgerId(ledger_id))
        self.asked_bytes -= self._expected.pop(ledger_id)
        return found

    def close(self) -> None:
        self._expected.clear()
        self.asked_bytes = 0
        self._closed_ledgers.close()

    def _ask(self, ledger_id: int, left: int) -> None:
        wanted: dict[int, int] = {}
        for listed in self._upcoming(max(self._expected, default=ledger_id - 1)):
            assert listed.seal is not None
            expected = self._bytes_of(listed.seal)
            if expected > left or len(wanted) == _LEDGERS_MAX:
                break
            wanted[listed.ledger_id] = expected
            left -= expected
        if len(wanted) > 1 or (wanted and self._expected):
            self._expected.update(wanted)
            self.asked_bytes += sum(wanted.values())
            self._closed_ledgers.ask([LedgerId(each) for each in wanted])

    def _bytes_of(self, seal: SealFacts) -> int:
        whole = seal.byte_count + _ENTRY_OVERHEAD_BYTES * (seal.last_entry + 1)
        return min(whole, self._config.fetch_bytes)
