"""How long a ledger outlives its writer's log, in case that writer is only asleep (log semantics, rule 25)."""

from __future__ import annotations

from dlog.config import LogConfig
from ledger.model import DURABLE_DELETIONS, BookieSet

SEVEN_DAYS_S = 7 * 86_400.0


def zombie_grace_s(config: LogConfig, bookies: BookieSet) -> float:
    """The configured grace; else none if every registered bookie keeps deletion marks, and seven days if not."""
    if config.zombie_grace_s is not None:
        return config.zombie_grace_s
    registered = (*bookies.writable, *bookies.read_only)
    durable = bool(registered) and all(DURABLE_DELETIONS in info.properties for info in registered)
    return 0.0 if durable else SEVEN_DAYS_S
