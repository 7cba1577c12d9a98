"""Settings of a bookie's storage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledger.errors import ConfigurationError

MIB = 1024 * 1024
SEGMENT_BYTES_LIMIT = 256 * MIB
"""Eight times the default. A replay holds a whole file in memory, and longer files only delay that they are freed."""
BLOCK_BYTES_LIMIT = 2**30
"""As of a frame: the formats of blocks have 32 bits for their bytes."""

POSITIVE = (
    "journal_queue_bytes_max",
    "write_cache_bytes_max",
    "entry_log_bytes_max",
    "block_bytes_max",
    "ledger_states_max",
    "disk_check_interval_s",
    "checkpoint_interval_s",
    "read_worker_count",
    "compaction_bytes_per_s",
    "limbo_check_interval_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """Where a bookie keeps its files, and how much memory and disk space it may use.

    Raises:
        ConfigurationError: a value is out of range.
    """

    journal_directory: Path
    """The journal. On a disk of its own, syncs do not wait for reads."""
    ledger_directory: Path
    """Entry logs, index and log mark."""
    more_ledger_directories: tuple[Path, ...] = ()
    """More directories for entry logs, each on a disk of its own. A new entry log goes to the one with most free space;
    one that is full, or that fails, gets no more of them. Directories may be added, and be empty then."""
    lost_ledger_directories: tuple[Path, ...] = ()
    """Ledger directories of earlier starts whose disk is lost. The bookie starts without them, never asks for them
    again, and has what they held repaired."""

    journal_segment_bytes: int = 32 * MIB
    """Size of a journal file, preallocated. Large enough that rolling is rare, small enough to be freed soon. At most
    256 MiB: a start reads one file after the other into memory as a whole."""

    journal_queue_bytes_max: int = 32 * MIB
    """Bytes that may wait for the journal; above it connections are not read."""

    write_cache_bytes_max: int = 64 * MIB
    """One half of the write cache; a full half is flushed while the other half fills."""

    read_cache_bytes_max: int = 32 * MIB
    """Blocks kept after a read, with their overhead in memory, so that sequential readers read the disk once per
    read-ahead."""

    read_ahead_bytes: int = MIB
    """Read from an entry log at a time while a ledger is read in sequence."""

    entry_log_bytes_max: int = 1024 * MIB
    """An entry log is closed after the checkpoint in which it reaches this size, so it is larger by up to one
    checkpoint (`write_cache_bytes_max`). Space is reclaimed by whole entry logs."""

    single_write_bytes_min: int = 64 * 1024
    """Adds of one ledger that arrive together with this number of bytes or more are written once: they stay in the
    journal, and its files until their ledgers are deleted or a compaction has copied what lives. Smaller ones are
    written to an entry log as well, sorted by ledger. 0 writes all of them twice, as a small disk of the journal's own
    needs it."""

    block_bytes_max: int = 64 * 1024
    """Entries stored under one index record, at most 1 GiB. A random read costs one block, the index one record a
    block."""

    ledger_states_max: int = 20_000
    """Ledger states kept in memory; the others are in the index."""

    reserve_bytes: int = 32 * MIB
    """Reserved for fences, recovery adds and a restart when the disk is full."""

    disk_usage_max: float = 0.95
    """Fraction of the disk in use above which the storage becomes read-only."""

    disk_usage_writable: float = 0.92
    """It becomes writable again below this; lower than `disk_usage_max` so that it does not flap."""

    disk_check_interval_s: float = 10.0
    """Seconds between two checks of the disks."""
    checkpoint_interval_s: float = 30.0
    """Maximum seconds between two checkpoints; a restart replays the journal since the last one."""

    read_worker_count: int = 2
    """Threads that read entry logs; reads of one ledger share a thread."""

    minor_compaction_interval_s: float = 60.0
    """Seconds between two minor compactions (Apache's minorCompactionInterval); 0: none."""

    minor_compaction_threshold: float = 0.2
    """A minor compaction copies what lives in files of which a smaller part than this lives, and removes them (Apache's
    minorCompactionThreshold). 0: none."""

    major_compaction_interval_s: float = 24 * 3600.0
    """Seconds between two major compactions (Apache's majorCompactionInterval); 0: none."""

    major_compaction_threshold: float = 0.8
    """As `minor_compaction_threshold`, of a major compaction (Apache's majorCompactionThreshold). A nearly full disk is
    compacted with it at every interval."""

    compaction_bytes_per_s: int = 64 * MIB
    """Maximum that a compaction writes; a quarter while appends wait for the journal
    (Apache's compactionRateByBytes)."""

    limbo_on_damage: bool = False
    """Start with a damaged journal: serve what is found, answer unknown for all else, accept no normal adds."""

    limbo_check_interval_s: float = 60.0
    """Seconds between two comparisons with the metadata in limbo, which ends after two that find nothing missing;
    longer than replicas of the metadata lag."""

    @property
    def ledger_directories(self) -> tuple[Path, ...]:
        """All that have entry logs, first the one with the index."""
        return (self.ledger_directory, *self.more_ledger_directories)

    def __post_init__(self) -> None:
        self._check_directories()
        for name in POSITIVE:
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} must be above 0, got {getattr(self, name)}")
        if not 0 < self.disk_usage_writable <= self.disk_usage_max <= 1:
            raise ConfigurationError(
                f"disk_usage_writable {self.disk_usage_writable} and disk_usage_max {self.disk_usage_max} "
                "must satisfy 0 < writable <= max <= 1"
            )
        if not 64 * 1024 <= self.journal_segment_bytes <= SEGMENT_BYTES_LIMIT:
            raise ConfigurationError(
                f"journal_segment_bytes must be from 65536 to {SEGMENT_BYTES_LIMIT}, got {self.journal_segment_bytes}"
            )
        if self.block_bytes_max > BLOCK_BYTES_LIMIT:
            raise ConfigurationError(
                f"block_bytes_max must be at most {BLOCK_BYTES_LIMIT}, got {self.block_bytes_max}"
            )
        minor, major = self.minor_compaction_threshold, self.major_compaction_threshold
        if not 0 <= minor <= major <= 1:
            raise ConfigurationError(
                f"minor_compaction_threshold {minor} and major_compaction_threshold {major} must satisfy "
                "0 <= minor <= major <= 1"
            )
        for name in ("minor_compaction_interval_s", "major_compaction_interval_s"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("single_write_bytes_min", "read_cache_bytes_max", "read_ahead_bytes", "reserve_bytes"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} must be at least 0, got {getattr(self, name)}")

    def _check_directories(self) -> None:
        """By their names alone: two names of one directory meet at its lock."""
        directories = (self.journal_directory, *self.ledger_directories)
        for at, each in enumerate(directories):
            if each in directories[:at]:
                raise ConfigurationError(
                    f"journal and ledgers must have different directories, two of them are {each}"
                )
            if each in self.lost_ledger_directories:
                raise ConfigurationError(f"directory {each} is given as lost and as one to use: choose one")
            for outer in directories:
                if outer.absolute() in each.absolute().parents:
                    raise ConfigurationError(
                        f"directory {each} is inside of {outer}, another one of the bookie: give directories next to "
                        "each other"
                    )
