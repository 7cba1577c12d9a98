"""When the active ledger is full. Pure; times are seconds of one monotonic clock.

An empty ledger is never full (docs/log-semantics.md#rule-18). Limits are soft: appends go on beyond them until the
rotation is done, up to `hard_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ledger.arguments import require_fields
from ledger.errors import ConfigurationError
from ledger.field_docs import with_field_docs


class RotationReason(StrEnum):
    """Why a ledger is replaced."""

    BYTES = "bytes"
    ENTRIES = "entries"
    AGE = "age"
    IDLE = "idle"
    FULL_ENSEMBLE = "full ensemble"


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class RotationLimits:
    """When a ledger is full and is replaced. Sizes are in bytes, times in seconds.

    Raises:
        ConfigurationError: a value has the wrong type or is out of its range.
    """

    bytes_max: int = 1024 * 1024 * 1024
    """Whole ledgers are deleted, so a ledger is the unit of retention; a gigabyte reads in seconds."""

    entries_max: int = 5_000_000
    """Bounds the index of one ledger."""

    age_s: float = 3600.0
    """An hour: the resolution of retention by time. Jittered, so that many logs do not rotate at the same time."""

    age_jitter: float = 0.1
    """Share of the age by which it varies, in either direction."""

    idle_s: float = 600.0
    """A ledger without appends for this long is sealed, so that its messages can be trimmed and tiered."""

    interval_min_s: float = 1.0
    """Shortest time between two rotations; an explicit request and the hard limit do not wait for it."""

    hard_bytes_factor: int = 4
    """Appends wait once the ledger holds this multiple of `bytes_max` and still cannot be replaced."""

    def __post_init__(self) -> None:
        require_fields(self)
        for name in ("bytes_max", "entries_max", "age_s", "idle_s", "interval_min_s"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"rotation {name} must be positive, got {getattr(self, name)}")
        if not 0 <= self.age_jitter < 1 or self.hard_bytes_factor < 2:
            raise ConfigurationError(
                f"rotation needs 0 <= age_jitter < 1 and hard_bytes_factor >= 2, "
                f"got {self.age_jitter} and {self.hard_bytes_factor}"
            )


@dataclass(slots=True)
class LedgerUse:
    """How much one ledger has taken. `chance` is a random number from 0 to 1, drawn once per ledger."""

    opened_at: float
    chance: float
    bytes_taken: int = 0
    entries_taken: int = 0
    last_append_at: float = 0.0
    degraded: bool = False


def reason_to_rotate(
    use: LedgerUse, limits: RotationLimits, now: float, *, ensemble_available: bool = False
) -> RotationReason | None:
    """Why to replace the ledger now; None if there is no reason. `ensemble_available`: a full ensemble is."""
    if now - use.opened_at < limits.interval_min_s:
        return None
    if not use.entries_taken:
        return None
    if use.degraded and ensemble_available:
        return RotationReason.FULL_ENSEMBLE
    if use.bytes_taken >= limits.bytes_max:
        return RotationReason.BYTES
    if use.entries_taken >= limits.entries_max:
        return RotationReason.ENTRIES
    if now >= _old_at(use, limits):
        return RotationReason.AGE
    if now - use.last_append_at >= limits.idle_s:
        return RotationReason.IDLE
    return None


def at_hard_limit(use: LedgerUse, limits: RotationLimits) -> bool:
    """Whether appends must wait until the ledger is replaced."""
    return use.bytes_taken >= limits.bytes_max * limits.hard_bytes_factor


def is_full(use: LedgerUse, limits: RotationLimits) -> bool:
    """Whether the ledger has reached a limit, even if it is too young to be replaced."""
    return use.bytes_taken >= limits.bytes_max or use.entries_taken >= limits.entries_max


def next_check(use: LedgerUse, limits: RotationLimits) -> float:
    """When time alone may make the ledger due; the shell checks again then, and after every run of acks."""
    earliest = use.opened_at + limits.interval_min_s
    if is_full(use, limits):
        return earliest
    due = min(_old_at(use, limits), max(use.last_append_at, use.opened_at) + limits.idle_s)
    return max(due, earliest)


def _old_at(use: LedgerUse, limits: RotationLimits) -> float:
    return use.opened_at + limits.age_s * (1 + limits.age_jitter * (2 * use.chance - 1))
