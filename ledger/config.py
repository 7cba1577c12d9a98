"""Settings of the ledger client, built once by the application and passed down."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from ledger.arguments import require_fields
from ledger.errors import ConfigurationError
from ledger.field_docs import with_field_docs
from ledger.model import ENTRY_BYTES_MAX, FRAME_BYTES_MAX
from ledger.placement.config import PlacementConfig


class Visibility(Enum):
    """When an add counts as done and an append returns (docs/log-semantics.md#rule-13)."""

    STRICT = "strict"
    """Every reader opened afterwards sees it: a LAC at or above it is stored on an ack quorum."""
    FAST = "fast"
    """Stored on its ack quorum; readers follow within `lac_interval_s`."""


class WireProtocol(Enum):
    """The protocol that carries entries. Explicit LACs and long polls always use version 3."""

    V2 = "v2"
    """Binary. Block answers and batch reads make it several times as fast."""
    V3 = "v3"
    """Protobuf, the default of Apache's client. Entries are read one by one: it has no batch read."""


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerClientConfig:
    """Settings of a ledger client. Sizes are in bytes, times in seconds.

    Raises:
        ConfigurationError: a value has the wrong type or is out of its range.
    """

    entry_bytes_max: int = ENTRY_BYTES_MAX
    """Header, digest and payload. Apache's bookies warn above the default, and a v3 frame could not carry more."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    """Largest frame accepted from a bookie. Bounds what a corrupt length can allocate."""

    wire: WireProtocol = WireProtocol.V2
    """Every bookie speaks both, and ledgers are the same."""

    connect_timeout_s: float = 3.0
    """A local network connects in milliseconds; after this time the bookie counts as down."""

    idle_connection_s: float = 10.0
    """A connection that was idle for this long is not used again.

    If the bookie's host has died, that would show only after a timeout; connecting takes a fraction of a millisecond.
    """

    add_timeout_s: float = 5.0
    """A bookie that acknowledges nothing for this long counts as failed (Apache's addEntryTimeoutSec).

    Time in which adds wait behind those of other ledgers, whose acknowledgements come, does not count.
    """

    read_timeout_s: float = 5.0
    """A bookie that does not answer a read for this long counts as failed (Apache's readEntryTimeoutSec)."""

    speculative_read_s: float = 0.25
    """A read not answered by then is also sent to the next replica."""

    quorum_timeout_s: float = 30.0
    """How long a handle searches replacements while a write set has fewer members than its ack quorum."""

    replace_backoff_s: float = 0.5
    """Pause between two searches for a replacement while no bookie registers.

    A bookie that has just failed is avoided for as long, and while it keeps failing for twice as long each time …
    """

    replace_backoff_max_s: float = 60.0
    """… up to this (Apache's bookieFailureHistoryExpirationMSec)."""

    change_hold_s: float = 1.0
    """Confirmation waits this long for an ensemble change, so that new members get all of their fragment."""

    probe_timeout_s: float = 1.0
    """A bookie is taken into an ensemble only if it answers within this time; a hung one accepts connections."""

    lost_member_s: float = 5.0
    """An idle writer replaces a member that has been unregistered for this long (docs/log-semantics.md#rule-24b)."""

    lac_interval_s: float = 0.1
    """Fast visibility: an idle writer publishes its LAC within this time."""

    send_queue_bytes_max: int = 128 * 1024 * 1024
    """Bytes that others have acknowledged and one bookie has yet to take; with more it counts as failed.

    A hung bookie must not fill memory. What is not acknowledged is in the buffers of writers, which have limits of
    their own.
    """

    recovery_read_ahead: int = 32
    """Number of entries that recovery reads at a time; they are decided in order all the same."""

    read_window_bytes: int = 1024 * 1024
    """Budget of one batch read: large enough to keep a bookie's disk sequential, small against memory."""

    placement: PlacementConfig = field(default_factory=PlacementConfig)
    """Which bookies ledgers get: racks, zones, free space."""

    @property
    def deadline_check_s(self) -> float:
        """How often a bookie is checked for having failed: its timeouts are kept within a tenth."""
        return min(0.5, self.add_timeout_s / 10, self.lost_member_s / 10)

    def __post_init__(self) -> None:
        require_fields(self)
        if not 64 <= self.entry_bytes_max <= ENTRY_BYTES_MAX:
            raise ConfigurationError(
                f"entry_bytes_max must lie in 64..{ENTRY_BYTES_MAX}, got {self.entry_bytes_max}"
            )
        for name, least in (("frame_bytes_max", FRAME_BYTES_MAX), ("send_queue_bytes_max", 1024 * 1024)):
            # Below them a legal entry could never be read, or the bookie that is sent one would count as failed.
            if not least <= getattr(self, name) <= 2**30:
                raise ConfigurationError(f"{name} must be {least} to {2**30}, got {getattr(self, name)}")
        if self.recovery_read_ahead < 1 or self.read_window_bytes < 1:
            raise ConfigurationError(
                f"recovery_read_ahead and read_window_bytes must be at least 1, got {self.recovery_read_ahead} and "
                f"{self.read_window_bytes}"
            )
        for name in (
            "connect_timeout_s",
            "idle_connection_s",
            "add_timeout_s",
            "read_timeout_s",
            "speculative_read_s",
            "quorum_timeout_s",
            "replace_backoff_s",
            "replace_backoff_max_s",
            "change_hold_s",
            "probe_timeout_s",
            "lost_member_s",
            "lac_interval_s",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} must be positive and finite, got {getattr(self, name)}")
