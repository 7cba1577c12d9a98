"""Append times that fall, and counts, seals and pages that are not what the entries say, are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dlog.ledger_list.page import IndexPage, LedgerPage, ref_to
from dlog.model import ListedLedger, PageRef, SealFacts
from dlog.testing import SimulatedCluster, simulate
from dlog.testing.checks.seal_facts import (
    EntryFacts,
    LedgerFacts,
    c21_append_times_never_fall,
    c21_entries_count_the_messages_before_them,
    c21_pages_say_what_their_seals_say,
    c21_seals_say_what_their_entries_say,
    seals_and_times,
)
from ledger.model import LedgerId

ENTRIES = (EntryFacts(0, 2, 100, 10), EntryFacts(2, 1, 100, 15), EntryFacts(3, 3, 120, 40))
SEAL = SealFacts(last_entry=2, message_count=6, byte_count=40, first_append_us=100, last_append_us=120)


def ledger(
    ledger_id: int = 1, entries: Sequence[EntryFacts] = ENTRIES, seal: SealFacts | None = SEAL
) -> LedgerFacts:
    return LedgerFacts(ListedLedger(ledger_id=LedgerId(ledger_id), epoch=1, created_us=1, seal=seal), entries)


def with_times(*times: int) -> tuple[EntryFacts, ...]:
    return tuple(replace(ENTRIES[0], append_time_us=each) for each in times)


# ---- append times


def test_equal_and_rising_times_are_sound() -> None:
    assert list(c21_append_times_never_fall([ledger(1), ledger(2, with_times(120, 121), None)])) == []


@pytest.mark.parametrize("seal", [SEAL, None, replace(SEAL, last_append_us=0)])
def test_a_time_that_falls_within_a_ledger_is_found(seal: SealFacts | None) -> None:
    assert list(c21_append_times_never_fall([ledger(7, with_times(100, 102, 101, 102), seal)])) == [
        "entry 7:2 has the time 101, an earlier one has 102"
    ]


def test_a_time_below_that_of_an_earlier_ledger_is_found() -> None:
    empty = ledger(2, (), SealFacts(last_entry=-1, message_count=0, byte_count=0))
    assert list(c21_append_times_never_fall([ledger(1), empty, ledger(3, with_times(119), None)])) == [
        "entry 3:0 has the time 119, an earlier one has 120"
    ]


def test_a_time_that_the_seal_lacks_is_no_lower_limit_for_the_next_ledger() -> None:
    unread = ledger(2, with_times(130), replace(SEAL, last_append_us=0))
    assert list(c21_append_times_never_fall([ledger(1), unread, ledger(3, with_times(120), None)])) == []
    assert len(list(c21_append_times_never_fall([ledger(1), unread, ledger(3, with_times(119), None)]))) == 1


# ---- counts


def test_messages_before_an_entry_are_the_sum_of_its_ledger() -> None:
    assert list(c21_entries_count_the_messages_before_them([ledger(1), ledger(2)])) == []
    wrong = (*ENTRIES[:2], replace(ENTRIES[2], messages_before=2))
    assert list(c21_entries_count_the_messages_before_them([ledger(1), ledger(2, wrong)])) == [
        "entry 2:2 counts 2 messages before it, there are 3"
    ]


# ---- seals


@pytest.mark.parametrize(
    "seal", [SEAL, None, replace(SEAL, message_count=-1, first_append_us=0, last_append_us=0)]
)
def test_a_seal_says_what_its_entries_say_or_that_it_does_not_know(seal: SealFacts | None) -> None:
    assert list(c21_seals_say_what_their_entries_say([ledger(seal=seal)])) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"last_entry": 1}, "last entry 1, its entries 2"),
        ({"message_count": 5}, "messages 5, its entries 6"),
        ({"byte_count": 15}, "bytes 15, its entries 40"),
        ({"first_append_us": 120}, "first append time 120, its entries 100"),
        ({"last_append_us": 100}, "last append time 100, its entries 120"),
    ],
)
def test_a_seal_that_says_something_else_is_found(changed: dict[str, Any], sentence: str) -> None:
    wrong = list(c21_seals_say_what_their_entries_say([ledger(seal=replace(SEAL, **changed))]))
    assert wrong == [f"the seal of ledger 1 says {sentence}"]


def test_the_bytes_of_a_seal_that_lacks_the_last_entry_are_only_claimed() -> None:
    seal = replace(SEAL, message_count=-1, last_append_us=0, byte_count=0)
    assert list(c21_seals_say_what_their_entries_say([ledger(seal=seal)])) == []


def test_the_seal_of_an_empty_ledger_says_so() -> None:
    empty = SealFacts(last_entry=-1, message_count=0, byte_count=0)
    assert list(c21_seals_say_what_their_entries_say([ledger(entries=(), seal=empty)])) == []
    assert list(c21_seals_say_what_their_entries_say([ledger(entries=(), seal=replace(empty, byte_count=1))]))


# ---- pages

LISTED = [
    ledger(1).listed,
    ledger(2, seal=replace(SEAL, message_count=-1)).listed,
    ledger(3, seal=replace(SEAL, last_append_us=130)).listed,
]
PAGE = ref_to("0-1-1-a", LedgerPage(tuple(LISTED)))


def of_pages(*pages: PageRef, listed: Sequence[ListedLedger] = LISTED) -> list[str]:
    return list(c21_pages_say_what_their_seals_say(pages, listed))


def test_a_page_says_what_its_seals_say() -> None:
    assert of_pages(PAGE, ref_to("1-1-1-b", IndexPage(1, (PAGE,)))) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"message_count": 11}, "messages 11, its seals 12"),
        ({"uncounted": 0}, "ledgers without a count 0, its seals 1"),
        ({"byte_count": 80}, "bytes 80, its seals 120"),
        ({"last_append_us": 120}, "last append time 120, its seals 130"),
    ],
)
def test_a_page_that_says_something_else_is_found(changed: dict[str, Any], sentence: str) -> None:
    wrong = replace(PAGE, **changed)
    assert of_pages(wrong) == [f"page 0-1-1-a says {sentence}"]
    assert of_pages(wrong, listed=LISTED[1:]) == [], "its first ledger was trimmed"


def test_a_page_with_a_seal_that_has_no_time_has_none() -> None:
    unread = [*LISTED[:2], ledger(3, seal=replace(SEAL, last_append_us=0)).listed]
    page = ref_to("0-1-1-a", LedgerPage(tuple(unread)))
    assert of_pages(page, listed=unread) == []
    assert len(of_pages(replace(page, last_append_us=120), listed=unread)) == 1


# ---- on a cluster


def test_the_ledgers_of_a_log_are_compared_with_their_seals() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer("orders", create=True) as writer:
                await writer.append_many([b"one", b"two"])
                await writer.rotate()
                await writer.append(b"three")
            record = (await client.describe("orders")).record
            first = record.ledgers[0]
            assert first.seal is not None
            assert await seals_and_times(client.ledgers, record.ledgers, record.pages) == []
            wrong = replace(first, seal=replace(first.seal, message_count=1))
            deleted = replace(first, ledger_id=LedgerId(999))
            assert await seals_and_times(client.ledgers, [deleted, wrong], ()) == [
                f"c21_seals_say_what_their_entries_say: the seal of ledger {first.ledger_id} says messages 1, its "
                "entries 2"
            ]

    simulate(main)
