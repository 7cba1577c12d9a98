"""How long an ack may be delivered without looking at the record (rule 25)."""

from __future__ import annotations

from dlog.config import LogConfig
from dlog.epoch_guard import EpochGuard
from dlog.grace import SEVEN_DAYS_S, zombie_grace_s
from ledger.model import DURABLE_DELETIONS, BookieId, BookieInfo, BookieSet
from tests.unit.dlog.scripted_log import LateEnvironment


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


def test_the_grace_is_seven_days_unless_every_bookie_remembers_deletions() -> None:
    config = LogConfig()
    assert zombie_grace_s(config, bookies(True, True)) == 0.0
    assert zombie_grace_s(config, bookies(True, False)) == SEVEN_DAYS_S
    assert zombie_grace_s(config, bookies()) == SEVEN_DAYS_S
    assert zombie_grace_s(LogConfig(zombie_grace_s=5.0), bookies(True)) == 5.0


def test_a_bookie_that_forgets_and_comes_later_counts_too() -> None:
    environment, registered = LateEnvironment(), [bookies(True)]
    guard = EpochGuard(environment, lambda: zombie_grace_s(LogConfig(), registered[0]), environment.boot_s())
    environment.asleep_s = SEVEN_DAYS_S
    assert not is_stale(guard)
    registered[0] = bookies(True, False)
    assert is_stale(guard)


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
