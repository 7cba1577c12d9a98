"""Settings of one bookie. Pure: config_file.py reads the TOML file.

One BookieConfig is made when the process starts; no other module reads settings from the environment or a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bookie_server.log_output import DEFAULT_LEVEL, check_level
from bookie_server.net.port import parse_range
from bookie_server.storage.config import StorageConfig
from ledger.errors import ConfigurationError
from ledger.model import FRAME_BYTES_MAX, BookieId, check_bookie_id, check_location
from ledger.repair.config import RepairConfig

DEFAULT_PORT = 3181
"""BookKeeper's default bookie port."""

EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on what one connection, and all of them together, may hold in this bookie.

    Raises:
        ConfigurationError: a limit is 0 or less, or two of them contradict each other.
    """

    frame_bytes_max: int = FRAME_BYTES_MAX
    """Maximum size of a frame, length prefix included; checked before memory is allocated for it."""
    connections_max: int = 2000
    """Connections of all addresses; one more is closed."""
    connections_per_address_max: int = 1000
    """Half of all, so that one host cannot keep the others out."""
    first_frame_s: float = 30.0
    """A connection that has not sent a complete frame by then is closed."""
    frame_progress_s: float = 30.0
    """Time for an incomplete frame, plus its size at `frame_bytes_per_s`."""
    frame_bytes_per_s: int = 64 * 1024
    """Slowest transfer of a large frame that is waited for."""
    receive_bytes_max: int = 64 * 1024 * 1024
    """Incomplete frames of all connections: twelve of the largest, or sixty of a megabyte.

    A connection whose frame does not fit is not read until it does. Frames of which less than 32 KiB have arrived do
    not count.
    """
    crowded_frame_s: float = 5.0
    """As `frame_progress_s`, while other frames wait for this budget."""
    crowded_frame_bytes_per_s: int = 1024 * 1024
    """As `frame_bytes_per_s`, while other frames wait for the budget."""
    crowded_silence_s: float = 1.0
    """Maximum silence within a frame while others wait: what is in the peer's kernel arrives within milliseconds."""
    idle_s: float = 3600.0
    """A connection without pending work is closed after this silence; clients reconnect."""
    send_stall_s: float = 30.0
    """A connection whose peer reads no response for this long is closed."""
    crowded_stall_s: float = 2.0
    """The same while reads of others wait for the memory of its responses."""
    connection_add_bytes_max: int = 32 * 1024 * 1024
    """Adds of one connection that wait for the disk, and 1 KiB for each ledger of those that came together and for each
    fence, force and explicit LAC; above it the connection is not read."""
    connection_unsent_bytes_max: int = 1024 * 1024
    """Responses that a peer has not read; above it its reads wait."""
    unsent_bytes_max: int = 64 * 1024 * 1024
    """The same for all peers together."""
    unsent_reserve_bytes: int = 64 * 1024 * 1024
    """In addition, for peers that read their responses: half for them, half for their fencing and priority reads."""
    connection_reads_max: int = 4
    """Concurrent disk reads of one connection; each may hold a response of a frame's size."""
    reads_max: int = 16
    """Concurrent disk reads of all connections."""
    connection_reads_queued_max: int = 1024
    """Reads of one connection that wait for their turn; above it the connection is not read."""
    long_polls_max: int = 100_000
    """Waiting long polls of all connections; each takes a few hundred bytes. One address has half of them at most."""
    connection_long_polls_max: int = 20_000
    """The same for one connection; a client tails many ledgers over one connection."""
    long_poll_s_max: float = 120.0
    """A longer long poll ends after this time with "nothing new"; the client asks again."""

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
    """Settings of `bookie start`.

    Raises:
        ConfigurationError: a value is out of range, or the settings contradict each other.
    """

    metadata: str
    """Address of the metadata store, as in docs/metadata.md."""
    storage: StorageConfig
    """Directories, memory and disk space."""
    host: str = "127.0.0.1"
    """Address to listen on. Loopback by default, because the protocol has no authentication."""
    port: int = DEFAULT_PORT
    """0 picks a free port at the first start and keeps it in the ledger directory for later ones."""
    port_range: str | None = None
    """FIRST-LAST: the ports that `port = 0` may pick, all of them below 32768 unless given.

    A firewall may need that, and two clusters on one machine: while a bookie is down, any other may pick its port.
    """
    advertised: str | None = None
    """Host name or address that is registered for clients, if not `host`."""
    bookie_id: str | None = None
    """Id in the metadata of ledgers; by default the address that clients connect to, HOST:PORT."""
    network_location: str | None = None
    """Where the bookie is, /rack or /zone/rack; published, so that copies are spread over racks (docs/repair.md)."""
    limits: Limits = field(default_factory=Limits)
    """What connections may hold in memory."""
    gc_interval_s: float = 60.0
    """Seconds between two garbage collections, each of which lists all ledgers of the cluster."""
    gc_grace_s: float = 60.0
    """Seconds that a ledger must be missing from the metadata before its entries are deleted."""
    scrub_interval_s: float = 604_800.0
    """Seconds from the beginning of one pass of the scrubber to that of the next; 0: no scrubber."""
    scrub_bytes_per_s: int = 256 * 1024 * 1024
    """What the scrubber reads at most; while adds arrive it reads during 2 % of the time."""
    autorecovery: bool = False
    """Whether `bookie autorecovery` runs in this process, too (Apache's autoRecoveryDaemonEnabled).

    A process of its own does not slow down the bookie.
    """
    repair: RepairConfig = field(default_factory=RepairConfig)
    """Settings of auditor and worker."""
    http_port: int | None = None
    """Port for health, metrics and state over HTTP (docs/operations.md), not served unless given.

    0: a free one, which the log names. Needs the extra `metrics`.
    """
    http_host: str = "127.0.0.1"
    """Address to listen on for that. Loopback by default: everyone who reaches it reads all of it."""
    log_level: str = DEFAULT_LEVEL
    """What the log on stderr shows: debug, info, warning or error, and what is worse."""

    def __post_init__(self) -> None:
        check_level(self.log_level)
        if not self.metadata:
            raise ConfigurationError("no metadata store: give --metadata URI or set DLOG_METADATA")
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port must be in 0..65535 (0 picks a free one), got {self.port}")
        if self.http_port is not None and not 0 <= self.http_port <= 65535:
            raise ConfigurationError(f"http_port must be in 0..65535 (0: a free one), got {self.http_port}")
        if self.http_port and self.http_port == self.port and self._shares_interfaces():
            raise ConfigurationError(
                f"port and http_port are both {self.port}: give another http_port, which is for health and metrics"
            )
        if not self.http_host:
            raise ConfigurationError("http_host is empty: give an address, 0.0.0.0 for all interfaces")
        if self.port_range is not None:
            parse_range(self.port_range)
        if self.gc_interval_s <= 0 or self.gc_grace_s < 0:
            raise ConfigurationError(
                f"gc_interval_s must be above 0 and gc_grace_s at least 0, got {self.gc_interval_s} and "
                f"{self.gc_grace_s}"
            )
        if self.scrub_interval_s < 0 or self.scrub_bytes_per_s <= 0:
            raise ConfigurationError(
                f"scrub_interval_s must be at least 0 and scrub_bytes_per_s above 0, got {self.scrub_interval_s} and "
                f"{self.scrub_bytes_per_s}"
            )
        if self.host in EVERY_INTERFACE and not self.advertised:
            raise ConfigurationError(
                f"host {self.host!r} listens on all interfaces, but clients need one address to connect to: give it "
                f"with --advertised"
            )
        for name in (self.host, self.advertised_host, self.http_host):
            try:
                name.encode("idna")
            except UnicodeError as error:
                raise ConfigurationError(f"{name!r} is no host name or address: {error}") from error
        if self.bookie_id is not None:
            check_bookie_id(self.bookie_id)
        if self.network_location is not None:
            check_location(self.network_location)

    def _shares_interfaces(self) -> bool:
        """Whether host and http_host are one address, or one is all of version 4 and the other of that version."""
        hosts = {self.host, self.http_host}
        return len(hosts) == 1 or ("0.0.0.0" in hosts and not any(":" in each for each in hosts))

    @property
    def advertised_host(self) -> str:
        """Host that clients connect to."""
        return self.advertised or self.host

    def identity(self, port: int) -> BookieId:
        """The bookie id when listening on `port`."""
        return check_bookie_id(self.bookie_id or f"{self.advertised_host}:{port}")
