"""How long an ack may be delivered without looking at the record (docs/log-semantics.md#rule-25)."""

from __future__ import annotations

from dataclasses import replace

from dlog.metadata.grace import EpochGuard, deletions_are_durable
from ledger.model import (
    DURABLE_DELETIONS,
    BookieId,
    BookieInfo,
    BookieSet,
    DamagedRegistration,
    EntryId,
    Fragment,
    LedgerMetadata,
    QuorumSizes,
)
from tests.helpers.log.scripted_log import LateEnvironment


def bookies(*durable: bool) -> BookieSet:
    infos = [
        BookieInfo(
            bookie_id=BookieId(f"b{number}"),
            host="h",
            port=1,
            properties=(DURABLE_DELETIONS,) if promises else (),
        )
        for number, promises in enumerate(durable)
    ]
    return BookieSet(writable=tuple(infos))


def is_stale(guard: EpochGuard) -> bool:
    return guard.stale


def ledger(*fragments: tuple[int, ...]) -> LedgerMetadata:
    return LedgerMetadata(
        quorum=QuorumSizes(ensemble=2, write=2, ack=1),
        fragments=tuple(
            Fragment(EntryId(10 * place), tuple(BookieId(f"b{number}") for number in ensemble))
            for place, ensemble in enumerate(fragments)
        ),
    )


def test_deletions_are_durable_if_every_bookie_of_every_fragment_promises_it() -> None:
    assert deletions_are_durable([ledger((0, 1))], bookies(True, True))
    assert deletions_are_durable([ledger((0, 1), (1, 2))], bookies(True, True, True))
    assert not deletions_are_durable([ledger((0, 1))], bookies(True, False))
    assert not deletions_are_durable([ledger((0, 1))], bookies())


def test_a_bookie_of_an_ensemble_that_is_not_registered_may_forget() -> None:
    """It was judged by the registered bookies alone: one that is down now, and forgets, went unnoticed."""
    assert not deletions_are_durable([ledger((0, 2))], bookies(True, True))
    assert not deletions_are_durable([ledger((2, 0), (0, 1))], bookies(True, True))
    assert not deletions_are_durable([ledger((0, 1)), ledger((1, 2))], bookies(True, True))


def test_another_registered_bookie_that_forgets_counts_too() -> None:
    """Recovery may have replaced it in the only fragment that named it."""
    assert not deletions_are_durable([ledger((0, 1))], bookies(True, True, False))


def test_a_bookie_with_a_damaged_registration_may_forget() -> None:
    """What it promises is not known; it was left out, as if it were not registered."""
    unknown = DamagedRegistration(BookieId("b2"), "damaged")
    assert not deletions_are_durable([ledger((0, 1))], replace(bookies(True, True), damaged=(unknown,)))


def test_an_epoch_is_good_for_half_the_grace_after_the_question_was_asked() -> None:
    environment = LateEnvironment()
    guard = EpochGuard(environment, lambda: 100.0, environment.boot_s())
    environment.asleep_s = 49.0
    assert not is_stale(guard)
    asked_at = guard.now()
    environment.asleep_s = 51.0
    assert is_stale(guard)
    guard.confirm(asked_at)
    assert not is_stale(guard)
    environment.asleep_s = 100.0
    assert is_stale(guard)
