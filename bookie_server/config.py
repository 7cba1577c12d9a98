"""Settings of one bookie, validated where they are made. Pure: the TOML file is read by config_file.py.

One BookieConfig is built at the edge and passed down; nothing below reads the environment or a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bookie_server.storage.config import StorageConfig
from ledger.errors import ConfigurationError
from ledger.model import FRAME_BYTES_MAX, BookieId, check_bookie_id

DEFAULT_PORT = 3181
"""BookKeeper's default bookie port."""

EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one peer, and all of them together, may make this bookie hold."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    """Whole frame with its prefix; checked before anything is allocated for it."""
    connections_max: int = 2000
    connections_per_address_max: int = 1000
    """Half of all, so that one host cannot shut the others out."""
    first_frame_s: float = 30.0
    """A connection that has sent nothing complete by then is closed."""
    frame_progress_s: float = 30.0
    """Longest life of an incomplete frame, before the time its size is granted at `frame_bytes_per_s`."""
    frame_bytes_per_s: int = 64 * 1024
    receive_bytes_max: int = 64 * 1024 * 1024
    """Of incomplete frames of all connections: twelve of the largest at a time, or sixty of a megabyte.

    A connection whose frame has no place in it is not read until there is one. Frames of which less than 32 KiB
    have come need none.
    """
    crowded_frame_s: float = 5.0
    """As `frame_progress_s`, while other frames wait for a place."""
    crowded_frame_bytes_per_s: int = 1024 * 1024
    """As `frame_bytes_per_s`, while other frames wait: a slow peer is served when there is room for slow ones."""
    crowded_silence_s: float = 1.0
    """Longest silence within a frame while others wait: what their kernels hold arrives within milliseconds."""
    idle_s: float = 3600.0
    """Silence after which a connection without pending work is closed; clients reconnect by themselves."""
    send_stall_s: float = 30.0
    """A peer that takes none of its answers for so long is cut off."""
    crowded_stall_s: float = 2.0
    """The same while reads of others wait for what it holds."""
    connection_add_bytes_max: int = 32 * 1024 * 1024
    """Adds of one connection that wait for the disk; reading pauses above it."""
    connection_unsent_bytes_max: int = 1024 * 1024
    """Answers a peer has not taken; its reads wait above it."""
    unsent_bytes_max: int = 64 * 1024 * 1024
    """The same for all peers together: what a crowd that never reads its answers can make us hold."""
    unsent_reserve_bytes: int = 64 * 1024 * 1024
    """On top of it for peers that take their answers: half for them, half for their fencing and priority reads."""
    connection_reads_max: int = 4
    """Reads of one connection that are at the disk together; each may hold one answer of a frame's size."""
    reads_max: int = 16
    """Reads of all connections that are at the disk together."""
    connection_reads_queued_max: int = 1024
    long_polls_max: int = 100_000
    """Waiting long polls of all connections, some hundred bytes each."""
    connection_long_polls_max: int = 20_000
    """The same for one connection; a client tails many ledgers over one."""
    long_poll_s_max: float = 120.0
    """A longer wait is answered by then with "nothing new"; the client asks again."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"limit {name} must be above 0, got {getattr(self, name)}")
        if self.receive_bytes_max < self.frame_bytes_max:
            raise ConfigurationError(
                f"receive_bytes_max {self.receive_bytes_max} must be at least frame_bytes_max {self.frame_bytes_max}"
            )
        if not FRAME_BYTES_MAX <= self.frame_bytes_max <= 2**30:
            # Clients send entries as long as this, and would take a bookie that cuts them off for a dead one.
            raise ConfigurationError(
                f"frame_bytes_max must be {FRAME_BYTES_MAX} to {2**30}, got {self.frame_bytes_max}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieConfig:
    """Everything `bookie start` needs to know."""

    metadata: str
    """URI of the metadata store."""
    storage: StorageConfig
    host: str = "127.0.0.1"
    """Address to listen on. Loopback by default: the protocol carries no authentication."""
    port: int = DEFAULT_PORT
    """0 picks a free port at the first start and keeps it in the ledger directory for later ones."""
    advertised: str | None = None
    """Host name or address that clients are told, where it differs from `host`."""
    bookie_id: str | None = None
    """Identity in ledger metadata; `advertised host:port` unless given."""
    limits: Limits = field(default_factory=Limits)
    gc_interval_s: float = 600.0
    """Pause between two garbage collections (BookKeeper's default)."""
    gc_grace_s: float = 60.0
    """A ledger must be missing from the metadata for so long before its entries go."""

    def __post_init__(self) -> None:
        if not self.metadata:
            raise ConfigurationError("no metadata store is named: give --metadata URI or set DLOG_METADATA")
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port {self.port} is not in 0..65535 (0 picks a free one)")
        if self.gc_interval_s <= 0 or self.gc_grace_s < 0:
            raise ConfigurationError(
                f"need gc_interval_s > 0 and gc_grace_s >= 0, got {self.gc_interval_s} and {self.gc_grace_s}"
            )
        if self.host in EVERY_INTERFACE and not self.advertised:
            raise ConfigurationError(
                f"host {self.host!r} listens on every interface, which clients cannot connect to: "
                f"add --advertised with the address they should use"
            )
        if self.bookie_id is not None:
            check_bookie_id(self.bookie_id)

    @property
    def advertised_host(self) -> str:
        return self.advertised or self.host

    def identity(self, port: int) -> BookieId:
        """The bookie id when listening on `port`."""
        return check_bookie_id(self.bookie_id or f"{self.advertised_host}:{port}")
