"""What is switched on in a run of the swarm test; drawing.py draws it from a seed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_args

from bookie_server.config import Limits
from bookie_server.storage.config import StorageConfig
from dlog.config import LogConfig
from dlog.core.batching import BatchLimits
from dlog.core.degraded import DegradedPolicy
from dlog.core.rotation_triggers import RotationLimits
from dlog.format.entry import Codec
from dlog.read.config import ReaderConfig
from dlog.testing.bookies import KIB, small_storage
from dlog.testing.kernel.faults import MetadataFault
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.mixed_settings import mixed_log_config, mixed_storage
from ledger.config import LedgerClientConfig, Visibility, WireProtocol
from ledger.model import FRAME_BYTES_MAX, DigestType, QuorumSizes
from ledger.placement.config import PlacementConfig

PROFILES = ("calm", "chaos", "beyond", "scenes", "narrow")
"""No faults; faults that the contract survives; faults that it does not, where only silence is wrong; those that it
survives together with short schedules made for it; and few of them in quick succession on a small workload."""

NETWORK = (
    "reset",
    "stall",
    "half_open",
    "cut",
    "cut_one_way",
    "clog",
    "refuse",
    "isolate",
    "split",
)
PROCESSES = (
    "kill_bookie",
    "power_cut",
    "power_cut_at_effect",
    "kill_client",
    "pause_bookie",
    "pause_client",
    "kill_many",
    "ambush",
)
UNREADABLE = "unreadable"
DISKS = ("sync_error", "write_error", "read_error", "slow_sync", "short_write", "disk_full")
NO_DESCRIPTORS = "no_descriptors"
STORE = ("metadata_partition", "session_loss", *get_args(MetadataFault))
CLOCKS = ("clock_jump",)
OUTAGE = "outage"
"""The store, or the bookies, of a writer answer nothing for longer than its appends wait."""
TIMELY = "timely"
"""The other faults also strike clients that are about to change metadata."""
LASTING = ("clock_rate", "lost_bookie", "minor_rot", "join_bookie", "leave_bookie", "nearly_full")
"""What lasts until the end of the run, and bookies that come and go: see lasting_faults.py."""
MISDIRECTED_READ = "misdirected_read"
WITHIN = (
    *NETWORK,
    *PROCESSES,
    *DISKS,
    NO_DESCRIPTORS,
    *STORE,
    *CLOCKS,
    OUTAGE,
    TIMELY,
    *LASTING,
    MISDIRECTED_READ,
)
LATER_BEYOND = ("bad_sectors", "misread_journal")
BEYOND = ("bit_rot", "lost_file", "misdirected_write", "index_damage")
SLEEPING_WRITER = "sleeping_writer"
SCENES = (
    "filled_disk",
    "dying_writer",
    "overdue_bookie",
    "unheard_change",
    "two_recoveries",
    "unfenced_bookie",
    SLEEPING_WRITER,
)
BEYOND_SCENES = ("rotten_ambush", "wiped_ambush", "emptied_ambush", "rotten_fence")
"""Short schedules of faults that belong together; see scenes.py."""

LOSSES = ("ledger", "record", "name", "cursor", "properties", "retention")
"""Values in the metadata store; see losses/."""

RACKS_MIN = 2
"""Racks that clients ask for, which counts where bookies are in some."""

_PHASE_S_MAX = 70.0
_COMPACTION: dict[str, int | float] = {
    "minor_compaction_interval_s": 0.7,
    "minor_compaction_threshold": 0.5,
    "major_compaction_interval_s": 2.0,
    "major_compaction_threshold": 0.95,
    "compaction_bytes_per_s": 256 * KIB,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. Times are simulated seconds."""

    seed: int
    profile: str = "chaos"
    bookies: int = 3
    ensemble: int = 3
    write: int = 3
    ack: int = 2
    fast: bool = False
    degraded: bool = True
    digest: str = "CRC32C"
    codec: str = "none"
    password: str = ""
    wire: str = "v2"
    """The version of the protocol in which entries go."""
    single_write_bytes_min: int = 0
    """Adds that bookies write once; 0: none."""
    writers: int = 2
    readers: int = 2
    witnesses: int = 0
    """Who open a reader whenever an append was just acknowledged."""
    neighbours: int = 0
    """Processes of another cluster of logs, under another root of the same store, and of another application."""
    cancellers: int = 0
    """Processes that cancel what they have begun."""
    copiers: int = 0
    """Processes that copy entries between bookies."""
    repairers: int = 0
    """Processes with an auditor and a worker of repair."""
    operators: int = 0
    """Processes that recover bookies and decommission them, and throw those away."""
    inspectors: int = 0
    """Processes that ask what the log holds and what became of it."""
    racks: int = 0
    """Racks that the bookies are in; 0: none is known."""
    enforces_racks: bool = False
    """Whether a ledger is refused that would not span two of them."""
    scrubs: bool = False
    """Bookies check what they have stored, one pass after the other."""
    rebuilds: bool = False
    """Bookies make their indexes anew while they serve, again and again."""
    short_lists: bool = False
    """The record keeps three ledgers, and pages have the others."""
    consumers: int = 0
    """Processes that share a cursor."""
    loses: str = ""
    """What the log loses at the end, of LOSSES; nothing: a page of its list, if that has some."""
    polite: float = 0.0
    """The share of takeovers that first ask the owner; with any, administrators also ask it to rotate."""
    retains: bool = False
    """The owner trims what a cursor of the administrators is beyond; they read that first."""
    visitors: int = 0
    """Processes whose readers share a client, and are opened and closed again and again."""
    parallel_logs: int = 0
    """Logs that one more client writes and follows at the same time."""
    producers: int = 0
    """Processes that share one more log, to which each appends as a producer."""
    sinks: int = 0
    """Processes that share one more log, into which each writes the batches of a query."""
    rivals: bool = False
    """Writers without the log ask for it at the same instants."""
    chaos_s: float = 20.0
    append_every_s: float = 0.1
    fault_every_s: float = 1.0
    faults: tuple[str, ...] = ()
    actions: tuple[Action, ...] | None = None
    """What goes wrong; None: the seed draws it from `faults`."""
    payload_bytes_max: int = 500
    batching: bool = True
    rotation_entries: int = 100
    rotation_bytes: int = 1 << 20
    rotation_age_s: float = 3.0
    shrinks: bool = True
    other_log: bool = True
    """A second log is created, written, sealed, deleted and created again during the run."""
    small_disks: bool = False
    checkpoint_s: float = 3.0
    read_ahead_bytes: int = 64 * KIB
    garbage: bool = False
    """Whether at the end all garbage is waited for, which takes a while."""
    limbo: bool = False
    """Whether a bookie whose journal is damaged starts in limbo instead of refusing to start."""
    mixed_settings: bool = False
    """Whether each client and each bookie has settings of its own."""
    buggify: bool = False
    """Whether points in production code force behaviour that is legal but rare."""
    sync_s_max: float = 2e-3
    """How long a disk takes for a sync, at the most; if that is long, much is under way at any time."""
    patience: float = 1.0
    """By which every time is multiplied after which a client does not wait any more."""
    hold_s: float = 60.0
    """How long an append waits for its outcome before its writer gives up."""
    gc_interval_s: float = 5.0
    store_s_max: float = 3e-3
    """How long a request to the metadata store is on its way at the most, and so its answer."""
    term_s: float = 15.0
    """How long a writer keeps the log by itself, on average."""
    aborts: float = 0.1
    """The share of its terms that end without a close: appends in flight then have no waiting caller."""
    resolves: float = 0.2
    """The share of appends of unknown outcome that are resolved."""
    graces_s: tuple[float, ...] = ()
    """What the writers ask for as the log's grace, one after the other; nothing: seven days."""
    keys: bool = False
    """Messages have keys and headers, and some are tombstones."""
    more_ways: bool = False
    """Writers also append conditionally, without waiting, and in bursts."""
    tight_buffer: bool = False
    """A writer's buffer holds one full entry, so that appends often wait for it."""
    tight_bookies: bool = False
    """Bookies hold few requests and responses of a connection, so that they often stop reading it."""
    huge_bytes: int = 0
    """Size of a few messages that are far larger than the others; 0: none."""
    compaction: bool = False
    """Bookies compact what is less than nearly all alive, again and again."""
    more_directories: int = 0
    """Ledger directories of each bookie next to the one with the index. One of them may be full, or fail."""
    progress_s: float = 0.0
    """How long each phase after the chaos may take; 0: as long as `phase_s_max` computes."""

    def log_config(self, process: str = "") -> LogConfig:
        """Of one process; the same for all unless settings are mixed."""
        config = self._log_config(process)
        if self.mixed_settings and process:
            return mixed_log_config(config, Seeds(self.seed).stream(f"settings of {process}"))
        return config

    def _log_config(self, process: str) -> LogConfig:
        """Short patience and small ledgers, so that much happens within seconds."""
        patience = self.patience
        role, _, number = process.partition("-")
        graces = self.graces_s if role == "writer" else ()
        entry_bytes = (16 if self.tight_buffer else 64) * KIB + self.huge_bytes
        return LogConfig(
            quorum=QuorumSizes(ensemble=self.ensemble, write=self.write, ack=self.ack),
            visibility=Visibility.FAST if self.fast else Visibility.STRICT,
            degraded=DegradedPolicy.ALLOW if self.degraded else DegradedPolicy.REFUSE,
            digest_type=DigestType[self.digest],
            codec=Codec[self.codec.upper()],
            password=self.password.encode(),
            rotation=RotationLimits(
                entries_max=self.rotation_entries,
                bytes_max=self.rotation_bytes,
                age_s=self.rotation_age_s,
                interval_min_s=0.3,
            ),
            batching=BatchLimits(
                entry_bytes_max=entry_bytes,
                batch_bytes=4 * KIB if self.batching else 1,
                linger_s=0.001 if self.batching else 0.0,
            ),
            buffer_bytes_max=entry_bytes if self.tight_buffer else 4 * entry_bytes,
            unacknowledged_bytes_max=entry_bytes // 2 if self.tight_buffer else 16 * entry_bytes,
            read_ahead_bytes_max=16 * KIB if self.tight_buffer else 1024 * KIB,
            candidate_wait_s=0.5 * patience,
            owner_answer_s=0.5 * patience,
            late_success_s=1.0 * patience,
            hold_limit_s=self.hold_s,
            deletion_grace_s=graces[int(number) % len(graces)] if graces else None,
            ledger=LedgerClientConfig(
                placement=PlacementConfig(racks_min=RACKS_MIN, enforce=self.enforces_racks),
                wire=WireProtocol(self.wire),
                connect_timeout_s=1.0 * patience,
                add_timeout_s=1.0 * patience,
                read_timeout_s=1.0 * patience,
                quorum_timeout_s=3.0 * patience,
                lost_member_s=1.0 * patience,
                replace_backoff_s=0.1,
                replace_backoff_max_s=2.0 * patience,
                change_hold_s=0.5 * patience,
                probe_timeout_s=0.5 * patience,
                recovery_read_ahead=4,
                read_window_bytes=16 * KIB,
            ),
        )

    def reader_config(self) -> ReaderConfig:
        return ReaderConfig(
            read_ahead_bytes=self.read_ahead_bytes, fetch_bytes=8 * KIB, fetch_entries_max=50, slow_poll_s=2.0
        )

    def storage(self, bookie: str = "") -> StorageConfig:
        """Of one bookie; the same for all unless settings are mixed."""
        config = self._storage()
        if self.mixed_settings and bookie:
            return mixed_storage(config, Seeds(self.seed).stream(f"settings of {bookie}"))
        return config

    def _storage(self) -> StorageConfig:
        size = 16 * KIB if self.small_disks else 64 * KIB
        return small_storage(
            more_directories=self.more_directories,
            checkpoint_interval_s=self.checkpoint_s,
            write_cache_bytes_max=size,
            entry_log_bytes_max=2 * size,
            block_bytes_max=KIB if self.small_disks else 4 * KIB,
            single_write_bytes_min=self.single_write_bytes_min,
            limbo_on_damage=self.limbo or self.profile == "beyond",
            **(_COMPACTION if self.compaction else {}),
        )

    @property
    def phase_s_max(self) -> float:
        """How long each phase after the chaos may take.

        Measured over 180 seeds, phases had a 99th percentile of 13.8 s (writers end), 7.3 s (the log is read) and
        1.0 s (every reader reaches the end). Five times the longest is a hang or a slowdown to be explained. Plans that
        wait longer than any that a seed draws get more in proportion.
        """
        if self.progress_s:
            return self.progress_s
        waits = (self.patience / 1.0, self.store_s_max / 0.5, self.sync_s_max / 0.6, self.gc_interval_s / 5.0)
        return _PHASE_S_MAX * max(1.0, *waits)

    def bookie_limits(self) -> Limits:
        """What a connection, and all of them, may hold in a bookie."""
        if not self.tight_bookies:
            return Limits()
        return Limits(
            receive_bytes_max=FRAME_BYTES_MAX,
            connection_add_bytes_max=32 * KIB,
            connection_unsent_bytes_max=8 * KIB,
            unsent_bytes_max=32 * KIB,
            unsent_reserve_bytes=32 * KIB,
            connection_reads_max=1,
            reads_max=2,
        )

    @property
    def scrub_interval_s(self) -> float:
        """From one pass of a bookie's scrubber to the next; 0: none."""
        return 1.0 if self.scrubs else 0.0

    @property
    def rebuild_interval_s(self) -> float:
        """From one rebuild of a bookie's index to the next; 0: none."""
        return 0.6 if self.rebuilds else 0.0

    @property
    def waits_for_garbage(self) -> bool:
        """Where clocks jump, ledgers may be kept for as long as these jumped; where bookies are lost, for the grace.

        A log that is deleted keeps a ledger of which only damaged metadata is left for the grace, too, and the ledgers
        after it.
        """
        lost = {"clock_jump", "lost_bookie", "minor_rot"} & {*self.faults}
        return self.garbage and not lost and not self.operators and self.loses != "ledger"

    def changed(self) -> dict[str, Any]:
        """The fields that are not as in a plan without a seed; what a kept seed writes down."""
        plain = Plan(seed=self.seed)
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != getattr(plain, each.name)
        }
