"""Settings of the log client, built once at the edge and passed down."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dlog.core.batching import BatchLimits
from dlog.core.degraded import DegradedPolicy
from dlog.core.rotation_triggers import RotationLimits
from dlog.format.entry import Codec
from ledger.arguments import require_fields
from ledger.config import LedgerClientConfig, Visibility
from ledger.errors import ConfigurationError
from ledger.model import DigestType, QuorumSizes

_GRACE_S_MAX = 100 * 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    quorum: QuorumSizes = field(default_factory=QuorumSizes)
    """Three copies of which two are durable before an ack: one bookie may be down at any time."""

    digest_type: DigestType = DigestType.CRC32C
    """The fastest digest that Apache BookKeeper knows; ledgers that exist are opened with their own."""

    password: bytes = field(default=b"", repr=False)
    """Master password of the log's ledgers. Never shown."""

    visibility: Visibility = Visibility.STRICT
    """An append that returned is seen by every reader opened afterwards."""

    degraded: DegradedPolicy = DegradedPolicy.ALLOW
    """A three-bookie cluster with one dead keeps working; an ack means the full ack quorum all the same."""

    batching: BatchLimits = field(default_factory=BatchLimits)

    codec: Codec = Codec.NONE
    """Compression of an entry's messages."""

    rotation: RotationLimits = field(default_factory=RotationLimits)

    buffer_bytes_max: int = 64 * 1024 * 1024
    """Bytes accepted and not yet acked by one writer; above it `append` and `submit` wait."""

    hold_limit_s: float = 120.0
    """Longest time that an append waits for its outcome, whatever is the matter; then the writer gives up.

    Two minutes, as Kafka's delivery.timeout.ms: enough for bookies and the metadata store to be restarted one after
    the other. What is then in flight ends indeterminate, the rest is certainly absent. Reported from 5 s on.
    """

    late_success_s: float = 5.0
    """A deposed writer still delivers acks that reached their quorum before the fence, for this long."""

    candidate_wait_s: float = 2.0
    """A fenced owner waits about this long, so that a candidate under way wins (docs/log-semantics.md#rule-24b)."""

    store_probe_s: float = 0.25
    """During a drain that takes long, the metadata store must answer within this, or appends go on."""

    takeover_timeout_s: float = 60.0
    """Longest takeover; recovery of a large unconfirmed tail takes seconds."""

    zombie_grace_s: float | None = None
    """Time before a ledger is deleted whose writer may still be asleep, where bookies forget deletions.

    A log gets it when it is created, 7 days for None; a takeover with a longer one raises it, nothing lowers it.
    Source: docs/log-semantics.md#rule-25.
    """

    owner_name: str = ""
    """A name for operators, recorded with the log while this process owns it."""

    ledger: LedgerClientConfig = field(default_factory=LedgerClientConfig)

    def __post_init__(self) -> None:
        require_fields(self)
        for name in (
            "hold_limit_s",
            "late_success_s",
            "candidate_wait_s",
            "store_probe_s",
            "takeover_timeout_s",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if self.degraded not in tuple(DegradedPolicy):
            raise ConfigurationError(f"degraded must be allow or refuse, got {self.degraded!r}")
        if self.ledger.entry_bytes_max < self.batching.entry_bytes_max:
            raise ConfigurationError(
                f"ledger.entry_bytes_max {self.ledger.entry_bytes_max} is below batching.entry_bytes_max "
                f"{self.batching.entry_bytes_max}: no ledger would take a full entry; "
                "raise the first or lower the second"
            )
        if self.ledger.send_queue_bytes_max < 2 * self.batching.entry_bytes_max:
            raise ConfigurationError(
                f"ledger.send_queue_bytes_max must hold two entries of {self.batching.entry_bytes_max} bytes, got "
                f"{self.ledger.send_queue_bytes_max}: a bookie with more unsent counts as failed"
            )
        if self.buffer_bytes_max < self.batching.entry_bytes_max:
            raise ConfigurationError(
                f"buffer_bytes_max must hold one entry of {self.batching.entry_bytes_max} bytes, "
                f"got {self.buffer_bytes_max}"
            )
        if self.zombie_grace_s is not None and not 0 <= self.zombie_grace_s <= _GRACE_S_MAX:
            raise ConfigurationError(
                f"zombie_grace_s must be 0 to {_GRACE_S_MAX} (100 years), got {self.zombie_grace_s}"
            )
        if len(self.owner_name) > 200:
            raise ConfigurationError(f"owner_name takes 200 characters, got {len(self.owner_name)}")

    @property
    def grace_us(self) -> int | None:
        """`zombie_grace_s` as records hold it."""
        return None if self.zombie_grace_s is None else round(self.zombie_grace_s * 1e6)
