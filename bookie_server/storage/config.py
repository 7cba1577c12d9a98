"""Settings of one bookie's storage; built once at the edge and passed down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledger.errors import ConfigurationError

MIB = 1024 * 1024

POSITIVE = (
    "journal_queue_bytes_max",
    "write_cache_bytes_max",
    "entry_log_bytes_max",
    "block_bytes_max",
    "ledger_states_max",
    "disk_check_interval_s",
    "checkpoint_interval_s",
    "read_worker_count",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """Where a bookie keeps its files and how much memory and disk it may use."""

    journal_directory: Path
    ledger_directory: Path

    journal_segment_bytes: int = 32 * MIB
    """One preallocated journal file. Large enough that rolling is rare, small enough to be freed soon."""

    journal_queue_bytes_max: int = 32 * MIB
    """Bytes that may wait for the journal before `wait_for_room` holds senders back."""

    write_cache_bytes_max: int = 64 * MIB
    """One half of the write cache; a full half is flushed while the other half fills."""

    read_cache_bytes_max: int = 32 * MIB
    """Blocks kept after a read, so that sequential readers touch the disk once per read-ahead."""

    read_ahead_bytes: int = MIB
    """Read from an entry log in one go once a ledger is read in sequence."""

    entry_log_bytes_max: int = 1024 * MIB
    """An entry log is closed at this size; a log is the unit in which space is given back."""

    block_bytes_max: int = 64 * 1024
    """Entries stored under one index record. A random read costs one block, the index one record a block."""

    ledger_states_max: int = 20_000
    """Ledger states kept in memory; the others are in the index."""

    reserve_bytes: int = 32 * MIB
    """Kept free for fences, recovery adds and restart when the disk is full."""

    disk_usage_max: float = 0.95
    """Part of the disk in use above which the storage goes read-only."""

    disk_usage_writable: float = 0.92
    """It becomes writable again below this; lower than `disk_usage_max` so that it does not flap."""

    disk_check_interval_s: float = 10.0
    checkpoint_interval_s: float = 30.0
    """At the latest this long after an add, its journal record is no longer needed for restart."""

    read_worker_count: int = 2
    """Threads that read entry logs; reads of one ledger share a thread."""

    limbo_on_damage: bool = False
    """Start in spite of a damaged journal: what is found is served, what is not found is unknown."""

    def __post_init__(self) -> None:
        for name in POSITIVE:
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} must be above 0, got {getattr(self, name)}")
        if not 0 < self.disk_usage_writable <= self.disk_usage_max <= 1:
            raise ConfigurationError(
                f"disk_usage_writable {self.disk_usage_writable} and disk_usage_max {self.disk_usage_max} "
                "must satisfy 0 < writable <= max <= 1"
            )
        if self.journal_segment_bytes < 64 * 1024:
            raise ConfigurationError(
                f"journal_segment_bytes is {self.journal_segment_bytes}, it needs at least 65536"
            )
        for name in ("read_cache_bytes_max", "read_ahead_bytes", "reserve_bytes"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} must not be below 0, got {getattr(self, name)}")
