"""Settings of the log client, built once by the application and passed down."""

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
from ledger.field_docs import with_field_docs
from ledger.model import DigestType, QuorumSizes

_GRACE_S_MAX = 100 * 366 * 86_400
_UNACKNOWLEDGED_BYTES = 256 * 1024 * 1024


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of a client: replication, durability, batching, limits and timeouts. Times are in seconds.

    Raises:
        ConfigurationError: a value has the wrong type, is out of its range, or contradicts another one.
    """

    quorum: QuorumSizes = field(default_factory=QuorumSizes)
    """Three copies, of which two are durable before an ack: one bookie may be down at any time."""

    digest_type: DigestType = DigestType.CRC32C
    """Fastest digest of Apache BookKeeper. Existing ledgers are opened with their own."""

    password: bytes = field(default=b"", repr=False)
    """Master password of the log's ledgers. Never shown."""

    visibility: Visibility = Visibility.STRICT
    """Strict: an append that returned is seen by every reader opened afterwards (docs/log-semantics.md#rule-13)."""

    degraded: DegradedPolicy = DegradedPolicy.ALLOW
    """Whether to write with fewer bookies than `quorum.ensemble` when not enough are available.

    An ack means the full ack quorum in any case (docs/log-semantics.md#rule-19b).
    """

    batching: BatchLimits = field(default_factory=BatchLimits)
    """When a batch is sent, and the largest entry."""

    codec: Codec = Codec.NONE
    """Compression of an entry's messages."""

    rotation: RotationLimits = field(default_factory=RotationLimits)
    """When the active ledger is full and is replaced."""

    buffer_bytes_max: int = 64 * 1024 * 1024
    """Bytes accepted and not yet acknowledged, per writer; at this limit `append` and `submit` wait.

    What a message and its result occupy in memory counts with it: some 300 bytes each, 64 in `append_many`.
    """

    unacknowledged_bytes_max: int | None = None
    """The same of all writers of the client together, in addition to `buffer_bytes_max` of each.

    None: 256 MiB, or `buffer_bytes_max` if that is more. A lower limit than `buffer_bytes_max` holds, too.
    A writer may hold a full batch even then, so that it goes on while the bookies of others hang
    (docs/log-semantics.md#rule-11).
    """

    read_ahead_bytes_max: int = 256 * 1024 * 1024
    """Bytes of encoded entries fetched and not yet returned, of all readers of the client together.

    A reader that has nothing to return fetches even then, but only 64 KiB, or one entry. Entries that several readers
    return count once for each of them (docs/log-semantics.md#rule-32).
    """

    hold_limit_s: float = 120.0
    """Longest time that an append waits for its outcome; then the writer gives up.

    Two minutes, as Kafka's delivery.timeout.ms: enough to restart bookies and the metadata store one after the other.
    What is then in flight ends indeterminate, the rest is certainly absent. Slow appends are logged from 5 s on.
    A ledger that has failed, or is being replaced, has as long, even if no append waits for it.
    """

    late_success_s: float = 5.0
    """How long a deposed writer still delivers acks that reached their quorum before the fence."""

    candidate_wait_s: float = 2.0
    """A fenced owner waits about this long, so that a takeover in progress wins (docs/log-semantics.md#rule-24b)."""

    store_probe_s: float = 0.25
    """During a slow drain the metadata store must answer within this time, or appends go on.

    While it does not, each further request is given twice the time, up to 5 s and a quarter of `hold_limit_s`, so that
    a store that is merely slow delays a rotation and does not prevent it.
    """

    takeover_timeout_s: float = 60.0
    """Longest takeover. Recovery of a large unconfirmed tail takes seconds."""

    hands_over: bool = True
    """Whether a writer that is asked to hand its log over does so (`LogClient.open_writer`).

    It then accepts no more appends, waits for the outcome of those it has accepted, seals its ledger and ends.
    """

    owner_answer_s: float = 2.0
    """An owner that has not answered a request within this time counts as stopped (docs/log-semantics.md#rule-22b)."""

    deletion_grace_s: float | None = None
    """Time before a ledger is deleted whose writer may only be paused, where bookies forget deletions.

    Recorded when the log is created, 7 days for None. A takeover with a longer one raises it; nothing lowers it.
    Source: docs/log-semantics.md#rule-25.
    """

    owner_name: str = ""
    """A name for operators, recorded with the log while this process owns it. At most 200 characters."""

    ledger: LedgerClientConfig = field(default_factory=LedgerClientConfig)
    """Settings of the ledger client below: timeouts, frame sizes, wire protocol."""

    def __post_init__(self) -> None:
        require_fields(self)
        for name in (
            "hold_limit_s",
            "late_success_s",
            "candidate_wait_s",
            "store_probe_s",
            "takeover_timeout_s",
            "owner_answer_s",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} must be positive and finite, got {getattr(self, name)}")
        if self.ledger.entry_bytes_max < self.batching.entry_bytes_max:
            raise ConfigurationError(
                f"ledger.entry_bytes_max {self.ledger.entry_bytes_max} is less than batching.entry_bytes_max "
                f"{self.batching.entry_bytes_max}: a ledger would refuse a full entry; "
                "raise the first or lower the second"
            )
        if self.ledger.send_queue_bytes_max < 2 * self.batching.entry_bytes_max:
            raise ConfigurationError(
                f"ledger.send_queue_bytes_max must hold two entries of {self.batching.entry_bytes_max} bytes, got "
                f"{self.ledger.send_queue_bytes_max}: a bookie that is so far behind counts as failed"
            )
        if self.buffer_bytes_max < self.batching.entry_bytes_max:
            raise ConfigurationError(
                f"buffer_bytes_max must hold one entry of {self.batching.entry_bytes_max} bytes, "
                f"got {self.buffer_bytes_max}"
            )
        if min(self.all_unacknowledged_bytes_max, self.read_ahead_bytes_max) < 1:
            raise ConfigurationError(
                f"unacknowledged_bytes_max and read_ahead_bytes_max must each be at least 1, got "
                f"{self.all_unacknowledged_bytes_max} and {self.read_ahead_bytes_max}"
            )
        if self.deletion_grace_s is not None and not 0 <= self.deletion_grace_s <= _GRACE_S_MAX:
            raise ConfigurationError(
                f"deletion_grace_s must be 0 to {_GRACE_S_MAX} (100 years), got {self.deletion_grace_s}"
            )
        if len(self.owner_name) > 200:
            raise ConfigurationError(
                f"owner_name must have at most 200 characters, got {len(self.owner_name)}"
            )

    @property
    def all_unacknowledged_bytes_max(self) -> int:
        """`unacknowledged_bytes_max`, or what None stands for: a single writer may then fill its buffer."""
        if self.unacknowledged_bytes_max is None:
            return max(_UNACKNOWLEDGED_BYTES, self.buffer_bytes_max)
        return self.unacknowledged_bytes_max

    @property
    def grace_us(self) -> int | None:
        """`deletion_grace_s` in microseconds, as records hold it."""
        return None if self.deletion_grace_s is None else round(self.deletion_grace_s * 1e6)
