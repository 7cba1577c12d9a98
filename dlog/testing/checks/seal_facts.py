"""C21: append times, counts and seals are what the entries say.

They decide which ledgers retention deletes, where a reader from a time begins, and how much a limit lets through; no
reader returns them, so no history shows that one is wrong.

What a takeover could not read is unknown in the seal, and is not checked, nor are its bytes then, which are those that
a bookie claimed; the next writer may then be behind the last entry's time (docs/log-semantics.md#rule-31).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dlog.format.entry import decode_envelope
from dlog.format.message import Buffer
from dlog.model import ListedLedger, PageRef, SealFacts
from dlog.testing.checks.checks import first_findings
from ledger.client import LedgerClient
from ledger.errors import LedgerNotFoundError

_NOT_COUNTED = -1
_UNKNOWN_TIME_US = 0


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """Of one entry; `length` is that of its ledger up to and including it."""

    messages_before: int | None
    count: int
    append_time_us: int
    length: int


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """A listed ledger, and all its entries in order."""

    listed: ListedLedger
    entries: Sequence[EntryFacts]


def c21_append_times_never_fall(ledgers: Iterable[LedgerFacts]) -> Iterator[str]:
    """Along the log; but where a seal lacks the last time, the next ledger may begin below it."""
    known_us = _UNKNOWN_TIME_US
    for ledger in ledgers:
        last_us = known_us
        for entry_id, entry in enumerate(ledger.entries):
            if entry.append_time_us < last_us:
                yield (
                    f"entry {ledger.listed.ledger_id}:{entry_id} has the time {entry.append_time_us}, an earlier one "
                    f"has {last_us}"
                )
            last_us = max(last_us, entry.append_time_us)
        seal = ledger.listed.seal
        if seal is not None and seal.last_append_us != _UNKNOWN_TIME_US:
            known_us = last_us


def c21_entries_count_the_messages_before_them(ledgers: Iterable[LedgerFacts]) -> Iterator[str]:
    """Of their ledger."""
    for ledger in ledgers:
        messages = 0
        for entry_id, entry in enumerate(ledger.entries):
            if entry.messages_before != messages:
                yield (
                    f"entry {ledger.listed.ledger_id}:{entry_id} counts {entry.messages_before} messages before it, "
                    f"there are {messages}"
                )
            messages += entry.count


def c21_seals_say_what_their_entries_say(ledgers: Iterable[LedgerFacts]) -> Iterator[str]:
    """Number and bytes of messages, first and last append time, as far as they are known."""
    for ledger in ledgers:
        seal = ledger.listed.seal
        if seal is None:
            continue
        for what, recorded, found, unknown in _of_seal(seal, ledger.entries):
            if recorded not in (found, unknown):
                yield f"the seal of ledger {ledger.listed.ledger_id} says {what} {recorded}, its entries {found}"


def _of_seal(seal: SealFacts, entries: Sequence[EntryFacts]) -> Iterator[tuple[str, int, int, int | None]]:
    """What it is about, what the seal says, what the entries say, and which value is none."""
    times = [each.append_time_us for each in entries] or [_UNKNOWN_TIME_US]
    yield "last entry", seal.last_entry, len(entries) - 1, None
    yield "messages", seal.message_count, sum(each.count for each in entries), _NOT_COUNTED
    if not entries or seal.last_append_us != _UNKNOWN_TIME_US:
        yield "bytes", seal.byte_count, entries[-1].length if entries else 0, None
    yield "first append time", seal.first_append_us, times[0], _UNKNOWN_TIME_US
    yield "last append time", seal.last_append_us, times[-1], _UNKNOWN_TIME_US


def c21_pages_say_what_their_seals_say(
    pages: Iterable[PageRef], listed: Iterable[ListedLedger]
) -> Iterator[str]:
    """Of pages with no ledger below the trim position. A page must have no last time if one of its seals has none, and
    may have none if one of its pages has only empty ledgers.
    """
    found = list(listed)
    for page in pages:
        seals = [
            each.seal
            for each in found
            if each.seal is not None and page.first_id <= each.ledger_id <= page.last_id
        ]
        if len(seals) != page.ledgers:
            continue
        times = [each.last_append_us for each in seals if each.last_entry >= 0]
        counts = [each.message_count for each in seals if each.message_count != _NOT_COUNTED]
        last_us = _UNKNOWN_TIME_US if _UNKNOWN_TIME_US in times else max(times, default=_UNKNOWN_TIME_US)
        for what, recorded, expected, unknown in (
            ("messages", page.message_count, sum(counts), None),
            ("ledgers without a count", page.uncounted, len(seals) - len(counts), None),
            ("bytes", page.byte_count, sum(each.byte_count for each in seals), None),
            ("last append time", page.last_append_us, last_us, _UNKNOWN_TIME_US),
        ):
            if recorded not in (expected, unknown):
                yield f"page {page.name} says {what} {recorded}, its seals {expected}"


OF_ENTRIES: tuple[Callable[[Iterable[LedgerFacts]], Iterator[str]], ...] = (
    c21_append_times_never_fall,
    c21_entries_count_the_messages_before_them,
    c21_seals_say_what_their_entries_say,
)


async def seals_and_times(
    ledgers: LedgerClient, listed: Sequence[ListedLedger], pages: Iterable[PageRef]
) -> list[str]:
    """The violations among these ledgers of a log, oldest first, and its pages.

    Raises:
        UnavailableError: too few bookies respond, or the metadata store does not.
    """
    facts = [each for one in listed if (each := await _read(ledgers, one)) is not None]
    wrong = [found for check in OF_ENTRIES for found in first_findings(check.__name__, check(facts))]
    of_pages = c21_pages_say_what_their_seals_say(pages, listed)
    return wrong + first_findings("c21_pages_say_what_their_seals_say", of_pages)


async def _read(ledgers: LedgerClient, listed: ListedLedger) -> LedgerFacts | None:
    """None: the ledger was trimmed and deleted since it was listed."""
    try:
        password = (await ledgers.store.read_ledger(listed.ledger_id)).value.password
        handle = await ledgers.open(listed.ledger_id, password)
    except LedgerNotFoundError:
        return None
    try:
        last = handle.last_readable
        found = await handle.read(0, last) if last >= 0 else []
        return LedgerFacts(listed, [_facts(entry.payload, entry.length) for entry in found])
    finally:
        await handle.close()


def _facts(payload: Buffer, length: int) -> EntryFacts:
    envelope = decode_envelope(payload)[0]
    return EntryFacts(envelope.messages_before, envelope.count, envelope.append_time_us, length)
