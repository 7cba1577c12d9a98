"""Short patience and small ledgers, so that much happens within seconds."""

from __future__ import annotations

from dlog.config import LogConfig
from dlog.core.rotation_triggers import RotationLimits
from ledger.config import LedgerClientConfig, Visibility
from ledger.model import QuorumSizes

LOG = "nemesis"
HEALED = b"healed"
"""The last message, after which everything is compared: no trim is asked for at its id."""


def log_config(*, striped: bool = False, fast: bool = False) -> LogConfig:
    return LogConfig(
        quorum=QuorumSizes(ensemble=4, write=3, ack=2) if striped else QuorumSizes(),
        visibility=Visibility.FAST if fast else Visibility.STRICT,
        rotation=RotationLimits(entries_max=300, age_s=2.0, interval_min_s=0.3),
        candidate_wait_s=0.3,
        late_success_s=1.0,
        hold_limit_s=60.0,
        deletion_grace_s=0.0,
        ledger=LedgerClientConfig(
            connect_timeout_s=1.0,
            add_timeout_s=1.0,
            read_timeout_s=1.0,
            quorum_timeout_s=2.0,
            lost_member_s=1.0,
            replace_backoff_s=0.1,
            probe_timeout_s=0.5,
        ),
    )
