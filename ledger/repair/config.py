"""Settings of repair, built once by the application and passed down."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ledger.arguments import require_fields
from ledger.errors import ConfigurationError
from ledger.field_docs import with_field_docs
from ledger.placement.config import PlacementConfig


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class RepairConfig:
    """Settings of auditor and worker. Sizes are in bytes, times in seconds.

    Raises:
        ConfigurationError: a value has the wrong type or is out of its range.
    """

    lost_bookie_delay_s: int = 60
    """How long a bookie may be away before its ledgers are marked, if the cluster has no value yet.

    A restart takes seconds and must not start a copy of all that the bookie has. Apache's default is 0.
    """

    bookie_check_interval_s: float = 86400.0
    """How often the auditor looks for ledgers of lost bookies without being told of a loss (Apache's default)."""

    copy_check_interval_s: float = 604800.0
    """How often the auditor reads copies of every ledger; 0: never (Apache's auditorPeriodicCheckInterval)."""

    placement_check_interval_s: float = 0.0
    """How often the auditor counts the ledgers whose copies do not span the racks that placement asks for; 0: never.

    Nothing is moved. Apache's auditorPeriodicPlacementPolicyCheckInterval, with its default.
    """

    check_percentage: int = 0
    """Entries of a fragment that such a check reads in addition to the first and the last one, in percent."""

    open_ledger_grace_s: float = 30.0
    """How long the writer of an open ledger may take to replace a lost bookie itself (Apache's default).

    After that the ledger is recovered, which fences its writer; only if a bookie is there to replace the lost one.
    """

    poll_s: float = 10.0
    """How often a worker looks for marks, and candidates for the auditor, without being told."""

    ledgers_at_once: int = 4
    """Ledgers that one worker repairs at the same time."""

    window_bytes: int = 512 * 1024
    """Bytes of one copy that the receiving bookie has not acknowledged."""

    bytes_per_s: int = 0
    """Bytes that one worker copies per second; 0: as many as it can."""

    retry_first_s: float = 10.0
    """Pause before a ledger that could not be repaired is tried again; it doubles each time …"""

    retry_max_s: float = 300.0
    """… up to this (Apache's lockReleaseOfFailedLedgerGracePeriod)."""

    placement: PlacementConfig = field(default_factory=PlacementConfig)
    """Which bookies replace others; as those of the writers. The table `[placement]` of a bookie's file."""

    def __post_init__(self) -> None:
        require_fields(self)
        if not 0 <= self.lost_bookie_delay_s < 2**31:
            raise ConfigurationError(
                f"lost_bookie_delay_s must be 0 to {2**31 - 1}, got {self.lost_bookie_delay_s}"
            )
        if not 0 <= self.check_percentage <= 100:
            raise ConfigurationError(f"check_percentage must be 0 to 100, got {self.check_percentage}")
        for name in ("ledgers_at_once", "window_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in (
            "copy_check_interval_s",
            "placement_check_interval_s",
            "open_ledger_grace_s",
            "bytes_per_s",
        ):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("bookie_check_interval_s", "poll_s", "retry_first_s", "retry_max_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} must be positive and finite, got {getattr(self, name)}")
