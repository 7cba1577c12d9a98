"""What a seed switches on. Each run has some features and some faults, and tiny limits: a swarm covers what no
single mixture would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from random import Random
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

PROFILES = ("calm", "chaos", "beyond", "scenes")
"""No faults; faults that the contract survives; faults that it does not, where only silence is wrong; and those that
it survives in the company of short schedules made for it."""

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
SCENES = (
    "filled_disk",
    "dying_writer",
    "overdue_bookie",
    "unheard_change",
    "two_recoveries",
    "unfenced_bookie",
)
BEYOND_SCENES = ("rotten_ambush", "wiped_ambush", "emptied_ambush", "rotten_fence")
"""Short schedules of faults that belong together; see scenes.py."""

_PHASE_S_MAX = 70.0
QUORUMS = ((3, 3, 2), (3, 3, 2), (3, 2, 2), (4, 3, 2), (5, 3, 2), (3, 3, 3), (5, 5, 3), (2, 2, 1), (4, 4, 2))


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
    parallel_logs: int = 0
    """Logs that one more client writes and follows at the same time."""
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
            candidate_wait_s=0.5 * patience,
            late_success_s=1.0 * patience,
            hold_limit_s=self.hold_s,
            deletion_grace_s=graces[int(number) % len(graces)] if graces else None,
            ledger=LedgerClientConfig(
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
            checkpoint_interval_s=self.checkpoint_s,
            write_cache_bytes_max=size,
            entry_log_bytes_max=2 * size,
            block_bytes_max=KIB if self.small_disks else 4 * KIB,
            limbo_on_damage=self.limbo or self.profile == "beyond",
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
    def waits_for_garbage(self) -> bool:
        """Where clocks jump, ledgers may be kept for as long as these jumped; where bookies are lost, for the grace."""
        return self.garbage and not {"clock_jump", "lost_bookie", "minor_rot"} & {*self.faults}

    def changed(self) -> dict[str, Any]:
        """The fields that are not as in a plan without a seed; what a kept seed writes down."""
        plain = Plan(seed=self.seed)
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != getattr(plain, each.name)
        }


@dataclass(frozen=True, slots=True)
class _Draw:
    chance: Random

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def some(self, names: tuple[str, ...]) -> list[str]:
        """Each with even chance."""
        return [name for name in names if self.maybe(0.5)]


def plan_of(seed: int, chance: Random, profile: str = "chaos", **overrides: Any) -> Plan:
    """The plan that this seed stands for; `overrides` replace single fields of it."""
    draw = _Draw(chance)
    ensemble, write, ack = chance.choice(QUORUMS)
    spare = chance.choice((0, 0, 1, 2))
    faults = _faults(draw, profile)
    drawn: dict[str, Any] = {
        "bookies": min(6, max(3, ensemble) + spare),
        "ensemble": ensemble,
        "write": write,
        "ack": ack,
        "fast": draw.maybe(0.25),
        "degraded": draw.maybe(0.8),
        "digest": chance.choice(("CRC32C", "CRC32C", "CRC32", "HMAC", "DUMMY")),
        "password": chance.choice(("", "", "secret")),
        "writers": chance.choice((1, 2, 2, 3)),
        "readers": chance.choice((1, 2, 2, 3)),
        "append_every_s": chance.choice((0.02, 0.05, 0.1, 0.5)),
        "faults": tuple(faults),
        "payload_bytes_max": chance.choice((10, 500, 8000)),
        "batching": draw.maybe(0.7),
        "rotation_entries": chance.choice((5, 50, 500)),
        "rotation_bytes": chance.choice((20_000, 1 << 20)),
        "rotation_age_s": chance.choice((0.7, 3.0, 30.0)),
        "shrinks": draw.maybe(0.4),
        "other_log": draw.maybe(0.5),
        "small_disks": draw.maybe(0.5),
        "checkpoint_s": chance.choice((0.5, 3.0, 20.0)),
        "read_ahead_bytes": chance.choice((4 * KIB, 64 * KIB, 1024 * KIB)),
        "garbage": draw.maybe(0.1),
        "witnesses": chance.choice((0, 0, 1)),
        "sync_s_max": chance.choice((2e-3, 2e-3, 50e-3)),
        "patience": chance.choice((0.3, 1.0)),
        "gc_interval_s": chance.choice((0.7, 5.0)),
        **_pace(draw),
    }
    # Drawn last, so that what seeds drew before it existed stays.
    if profile != "calm":
        drawn["faults"] = (*faults, *(name for name in (TIMELY, UNREADABLE) if draw.maybe(0.3)))
    if profile == "scenes":
        drawn |= _with_scenes(draw, drawn["faults"])
    drawn["hold_s"] = chance.choice((60.0, 60.0, 6.0, 2.0))
    if profile in ("chaos", "scenes") and ensemble > write and draw.maybe(0.4):
        drawn |= _with_returning_bookies(ensemble, drawn["bookies"])
    if profile != "calm" and draw.maybe(0.2):
        drawn["faults"] = (*drawn["faults"], NO_DESCRIPTORS)
    drawn["neighbours"] = chance.choice((0, 0, 1))
    if profile != "calm":
        apart = _Draw(Random(chance.getrandbits(64)))
        drawn |= _with_lasting_faults(apart, drawn)
        if profile == "beyond":
            drawn["faults"] = (*drawn["faults"], *(name for name in LATER_BEYOND if apart.maybe(0.3)))
    if profile == "beyond":
        drawn |= _with_a_scene_beyond(_Draw(Random(f"scene beyond {seed}")))
    drawn |= _with_a_richer_workload(_Draw(Random(f"workload {seed}")))
    if profile != "beyond":
        drawn |= _with_more_contention(_Draw(Random(f"contention {seed}")), profile, drawn)
    if drawn["digest"] == "DUMMY" and (profile == "beyond" or "minor_rot" in drawn["faults"]):
        drawn["digest"] = "CRC32C"  # it promises nothing about bytes that rot
    return Plan(seed=seed, profile=profile, **(drawn | overrides))


def _with_a_scene_beyond(draw: _Draw) -> dict[str, Any]:
    """Half of these runs have one schedule again and again, with time for each, and no other damage in the way."""
    if draw.maybe(0.5):
        return {}
    return {
        "faults": (draw.chance.choice(BEYOND_SCENES), *((TIMELY,) if draw.maybe(0.5) else ())),
        "chaos_s": 12.0,
        "fault_every_s": 4.0,
        "append_every_s": 0.2,
        "writers": 2,
        "checkpoint_s": 20.0,
        "fast": False,
    }


def _with_a_richer_workload(draw: _Draw) -> dict[str, Any]:
    """What clients use in addition to the plain append, from a stream of its own."""
    chance = draw.chance
    return {
        "keys": draw.maybe(0.4),
        "more_ways": draw.maybe(0.5),
        "tight_buffer": draw.maybe(0.25),
        "tight_bookies": draw.maybe(0.3),
        "codec": chance.choice(("none", "none", "none", "zstd", "lz4")),
        "wire": chance.choice(("v2", "v2", "v2", "v3")),
        "huge_bytes": 1 << 20 if draw.maybe(0.04) else 0,
    }


def _with_more_contention(draw: _Draw, profile: str, drawn: dict[str, Any]) -> dict[str, Any]:
    """Few runs have any of it, so that most are as they were before it existed. Drawn from a stream of its own."""
    chance = draw.chance
    changed: dict[str, Any] = {}
    rivals, parallel, slow = draw.maybe(0.08), draw.maybe(0.08), draw.maybe(0.06)
    graces, outage = draw.maybe(0.08), draw.maybe(0.08)
    if rivals:
        changed |= {"rivals": True, "writers": 3, "term_s": 0.7}
    if parallel:
        changed["parallel_logs"] = chance.choice((2, 5))
    if slow:
        changed |= {"store_s_max": chance.choice((0.2, 0.5)), "rotation_entries": 5, "rotation_age_s": 0.7}
    if profile == "calm":
        return changed
    faults: tuple[str, ...] = ()
    if graces:  # shorter than writers sleep
        changed |= {
            "graces_s": chance.choice(((0.3,), (1.0,), (3.0, 0.5))),
            "writers": max(2, drawn["writers"]),
        }
        changed["shrinks"] = True
        faults += ("pause_client",)
    if outage:
        changed |= {"hold_s": 2.0, "tight_buffer": True, "more_ways": True}
        faults += (OUTAGE,)
    changed["faults"] = tuple(dict.fromkeys((*drawn["faults"], *faults)))
    return changed


def _with_returning_bookies(ensemble: int, bookies: int) -> dict[str, Any]:
    """Answers that are outstanding for longer than it takes to be replaced and to come back at another position.

    For write sets that differ: only there does the position matter.
    """
    return {"bookies": max(bookies, ensemble + 1), "sync_s_max": 0.6, "patience": 1.0}


def _with_lasting_faults(draw: _Draw, drawn: dict[str, Any]) -> dict[str, Any]:
    """Drawn apart from all others. A run that loses bookies often has spare ones for them."""
    faults = [name for name in (*LASTING, MISDIRECTED_READ) if draw.maybe(0.12)]
    changed: dict[str, Any] = {"faults": (*drawn["faults"], *faults), "limbo": draw.maybe(0.5)}
    changed["buggify"] = draw.maybe(0.3)
    changed["cancellers"] = int(draw.maybe(0.15))
    changed["mixed_settings"] = draw.maybe(0.2)
    if draw.maybe(0.3):
        changed |= {"copiers": 1, "bookies": max(drawn["bookies"], min(6, drawn["ensemble"] + 1))}
    if {"lost_bookie", "minor_rot"} & {*faults} and draw.maybe(0.5):
        changed["bookies"] = max(drawn["bookies"], min(6, drawn["ensemble"] + 1))
    return changed


def _pace(draw: _Draw) -> dict[str, float]:
    """As many faults in a short run as in a long one: a second costs the same, whatever goes wrong in it.

    Some runs are long, for what takes its time.
    """
    chance = draw.chance
    if draw.maybe(0.1):
        return {"chaos_s": chance.uniform(8.0, 24.0), "fault_every_s": chance.choice((0.5, 1.0, 2.0))}
    return {"chaos_s": chance.uniform(2.0, 8.0), "fault_every_s": chance.choice((0.15, 0.3, 0.8))}


def _with_scenes(draw: _Draw, faults: tuple[str, ...]) -> dict[str, Any]:
    """A few of them, few other faults in between, and often a store so slow that much happens around each change."""
    chance = draw.chance
    others = [name for name in faults if draw.maybe(0.3)]
    scenes = chance.sample(SCENES, chance.randint(1, 3))
    return {
        "faults": tuple(dict.fromkeys((*others, *scenes, TIMELY))),
        "chaos_s": chance.uniform(6.0, 14.0),
        "fault_every_s": chance.choice((0.5, 1.5, 3.0)),
        "store_s_max": chance.choice((3e-3, 3e-3, 0.2, 0.5)),
        "term_s": chance.choice((15.0, 15.0, 0.7)),
        "aborts": chance.choice((0.1, 0.7)),
        "resolves": 1.0,
    }


def make_plan(seed: int, profile: str, overrides: Mapping[str, Any]) -> Plan:
    """The seed's own plan with some fields replaced."""
    return replace(plan_of(seed, Seeds(seed).stream("plan"), profile), **overrides)


def _faults(draw: _Draw, profile: str) -> list[str]:
    """Some groups of faults are off as a whole, so that others are seen alone."""
    groups = [
        draw.some(group) if draw.maybe(0.7) else [] for group in (NETWORK, PROCESSES, DISKS, STORE, CLOCKS)
    ]
    within = [name for group in groups for name in group]
    beyond = draw.some(BEYOND) or [BEYOND[0]]
    match profile:
        case "calm":
            return []
        case "beyond":
            return [*within, *beyond]
        case _:
            return within
