"""When a ledger is full, and when to look again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.core.degraded import DegradedPolicy, fallback_quorum
from dlog.core.rotation_triggers import (
    LedgerUse,
    RotationLimits,
    RotationReason,
    at_hard_limit,
    is_full,
    next_check,
    reason_to_rotate,
)
from ledger.errors import ConfigurationError
from ledger.model import QuorumSizes

LIMITS = RotationLimits(
    bytes_max=1000, entries_max=10, age_s=100, age_jitter=0.1, idle_s=20, interval_min_s=5
)
USE = LedgerUse(opened_at=0.0, chance=0.5, bytes_taken=10, entries_taken=1, last_append_at=1.0)


@pytest.mark.parametrize(
    ("use", "now", "reason"),
    [
        (USE, 6, None),
        (replace(USE, bytes_taken=1000), 6, RotationReason.BYTES),
        (replace(USE, bytes_taken=1000), 4.9, None),
        (replace(USE, entries_taken=10), 6, RotationReason.ENTRIES),
        (replace(USE, last_append_at=99.5), 99.9, None),
        (replace(USE, last_append_at=99.5), 100, RotationReason.AGE),
        (replace(USE, last_append_at=99.5, chance=0.0), 90, RotationReason.AGE),
        (replace(USE, last_append_at=109.5, chance=1.0), 109.9, None),
        (USE, 21, RotationReason.IDLE),
        (replace(USE, entries_taken=0, bytes_taken=0), 1000, None),
        (replace(USE, degraded=True), 6, RotationReason.FULL_ENSEMBLE),
        (replace(USE, degraded=True, entries_taken=0), 6, None),
    ],
)
def test_a_ledger_is_due_for_one_reason(use: LedgerUse, now: float, reason: RotationReason | None) -> None:
    """An empty ledger never is, and no two rotations come within the least interval (docs/log-semantics.md#rule-18)."""
    assert reason_to_rotate(use, LIMITS, now, ensemble_available=True) is reason


def test_a_degraded_ledger_stays_while_there_is_no_full_ensemble() -> None:
    assert reason_to_rotate(replace(USE, degraded=True), LIMITS, 6, ensemble_available=False) is None


def test_the_next_look_is_when_time_alone_makes_the_ledger_due() -> None:
    assert next_check(USE, LIMITS) == 21
    assert next_check(replace(USE, last_append_at=99), LIMITS) == 100
    assert next_check(replace(USE, bytes_taken=5000), LIMITS) == 5
    for use in (USE, replace(USE, last_append_at=99), replace(USE, bytes_taken=5000)):
        at = next_check(use, LIMITS)
        assert reason_to_rotate(use, LIMITS, at) is not None
        assert reason_to_rotate(use, LIMITS, at - 0.01) is None


@pytest.mark.parametrize(
    ("use", "full"),
    [
        (replace(USE, bytes_taken=999), False),
        (replace(USE, bytes_taken=1000), True),
        (replace(USE, entries_taken=9), False),
        (replace(USE, entries_taken=10), True),
    ],
)
def test_a_ledger_is_full_at_its_limit_however_young_it_is(use: LedgerUse, full: bool) -> None:
    assert is_full(use, LIMITS) is full


def test_the_least_interval_begins_when_the_ledger_was_opened() -> None:
    late = replace(USE, opened_at=50.0, bytes_taken=1000, last_append_at=50.0)
    assert reason_to_rotate(late, LIMITS, 54.9) is None
    assert reason_to_rotate(late, LIMITS, 55.0) is RotationReason.BYTES


def test_an_age_without_jitter_is_allowed() -> None:
    assert RotationLimits(age_jitter=0.0).age_jitter == 0.0


def test_appends_wait_only_at_the_hard_limit() -> None:
    assert not at_hard_limit(replace(USE, bytes_taken=3999), LIMITS)
    assert at_hard_limit(replace(USE, bytes_taken=4000), LIMITS)


@pytest.mark.parametrize(
    "wrong", [{"bytes_max": 0}, {"age_s": -1}, {"age_jitter": 1.0}, {"hard_bytes_factor": 1}]
)
def test_senseless_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        RotationLimits(**wrong)  # type: ignore[arg-type]  # of the test


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (0, None),
        (1, None),
        (2, QuorumSizes(ensemble=2, write=2, ack=2)),
        (3, None),
        (9, None),
    ],
)
def test_a_degraded_ensemble_never_falls_below_the_ack_quorum(
    live: int, expected: QuorumSizes | None
) -> None:
    """Never below the ack quorum (docs/log-semantics.md#rule-19b)."""
    assert fallback_quorum(QuorumSizes(), live, DegradedPolicy.ALLOW) == expected
    assert fallback_quorum(QuorumSizes(), live, DegradedPolicy.REFUSE) is None


def test_a_striped_log_keeps_its_copies_while_it_can() -> None:
    wanted = QuorumSizes(ensemble=5, write=3, ack=2)
    assert fallback_quorum(wanted, 4, DegradedPolicy.ALLOW) == QuorumSizes(ensemble=4, write=3, ack=2)
    assert fallback_quorum(wanted, 2, DegradedPolicy.ALLOW) == QuorumSizes(ensemble=2, write=2, ack=2)
