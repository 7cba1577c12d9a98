"""Which ledgers a reader reads ahead, and how many bytes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from dlog.model import ListedLedger, SealFacts
from dlog.read.config import ReaderConfig
from dlog.read.ledgers_ahead import LedgersAhead
from ledger.client import LedgerClient
from ledger.model import LedgerId


class Asked:
    """In place of the ledger client: records what it is asked for, and finds a text for each."""

    def __init__(self) -> None:
        self.asks: list[list[int]] = []
        self.dropped: list[int] = []

    def closed_ledgers(self, password: bytes, *, entries_max: int, bytes_max: int) -> Asked:
        return self

    def ask(self, ledger_ids: Sequence[int]) -> None:
        self.asks.append(list(ledger_ids))

    async def take(self, ledger_id: int) -> Any:
        return f"beginning of {ledger_id}"

    def drop(self, ledger_id: int) -> None:
        self.dropped.append(ledger_id)

    def close(self) -> None:
        """There is nothing."""


def listed(ledger_id: int, byte_count: int = 0) -> ListedLedger:
    seal = SealFacts(last_entry=0, message_count=1, byte_count=byte_count)
    return ListedLedger(ledger_id=LedgerId(ledger_id), epoch=1, created_us=0, seal=seal)


def ahead(ledgers: list[ListedLedger], config: ReaderConfig | None = None) -> tuple[LedgersAhead, Asked]:
    def upcoming(above: int) -> Iterator[ListedLedger]:
        return (each for each in ledgers if each.ledger_id > above)

    asked = Asked()
    return LedgersAhead(cast(LedgerClient, asked), b"", config or ReaderConfig(), upcoming), asked


async def take(reads: LedgersAhead, ledger_id: int, bytes_used: int, bytes_free: int = 1 << 40) -> Any:
    reads.ask_from(ledger_id, bytes_used, bytes_free)
    return await reads.take(ledger_id)


async def test_more_is_asked_for_when_half_was_taken() -> None:
    reads, asked = ahead([listed(number) for number in range(1, 401)])
    for ledger_id in range(1, 401):
        assert await take(reads, ledger_id, 0) == f"beginning of {ledger_id}"
    assert [len(each) for each in asked.asks] == [128, 128, 128, 16]
    assert [each for ask in asked.asks for each in ask] == list(range(1, 401))


async def test_a_single_ledger_is_opened_as_usual() -> None:
    reads, asked = ahead([listed(1)])
    assert await take(reads, 1, 0) is None
    assert asked.asks == []


async def test_what_is_asked_for_fits_the_limit_with_what_is_fetched() -> None:
    config = ReaderConfig(read_ahead_bytes=10_000, fetch_bytes=4_000)
    ledgers = [listed(number, byte_count=1_900) for number in range(1, 20)]
    reads, asked = ahead(ledgers, config)
    await take(reads, 1, 3_900)
    assert asked.asks == [[1, 2, 3]], "2,000 bytes each with the overhead of an entry"
    await take(reads, 2, 7_900)
    assert asked.asks == [[1, 2, 3]], "4,000 bytes are asked for and 7,900 fetched"
    await take(reads, 3, 0)
    assert asked.asks == [[1, 2, 3], [4, 5, 6, 7]]


async def test_what_is_asked_for_fits_the_limit_of_all_readers() -> None:
    reads, asked = ahead([listed(number, byte_count=1_900) for number in range(1, 20)])
    assert await take(reads, 1, 0, 3_999) is None, "a single ledger is opened as usual"
    assert asked.asks == []
    assert await take(reads, 2, 0, 6_000)
    assert asked.asks == [[2, 3, 4]]
    assert reads.asked_bytes == 4_000
    assert await take(reads, 3, 0, 1_999)
    reads.close()
    assert (asked.asks, reads.asked_bytes) == ([[2, 3, 4]], 0)


async def test_of_a_long_ledger_one_fetch_counts() -> None:
    config = ReaderConfig(read_ahead_bytes=10_000, fetch_bytes=4_000)
    reads, asked = ahead([listed(number, byte_count=10**9) for number in range(1, 5)], config)
    await take(reads, 1, 0)
    assert asked.asks == [[1, 2]]


async def test_what_was_trimmed_in_between_is_dropped() -> None:
    reads, asked = ahead([listed(number) for number in range(1, 5)])
    assert await take(reads, 1, 0)
    assert await take(reads, 4, 0) == "beginning of 4"
    assert asked.dropped == [2, 3]
