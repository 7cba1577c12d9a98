"""Names of everything a bookie keeps in its directories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bookie_server.storage.config import StorageConfig

LOG_MARK = "log-mark"
ENTRY_LOGS = "entry-logs"
COMPACTION = "compaction.tmp"
"""The entry log that a compaction writes, next to where it will be, before it has its number."""


@dataclass(frozen=True, slots=True)
class StoragePaths:
    journal: Path
    ledgers: Path
    more: tuple[Path, ...] = ()
    """Ledger directories that have entry logs and nothing else."""

    @classmethod
    def of(cls, config: StorageConfig) -> StoragePaths:
        return cls(config.journal_directory, config.ledger_directory, config.more_ledger_directories)

    @property
    def entry_logs(self) -> Path:
        return self.ledgers / ENTRY_LOGS

    @property
    def log_directories(self) -> tuple[Path, ...]:
        """Those with entry logs, the first of them that of the ledger directory with the index."""
        return (self.entry_logs, *self.more_log_directories)

    @property
    def more_log_directories(self) -> tuple[Path, ...]:
        return tuple(each / ENTRY_LOGS for each in self.more)

    @property
    def index(self) -> Path:
        return self.ledgers / "index"

    @property
    def new_index(self) -> Path:
        """Where `bookie rebuild-index` makes one; it takes the place of `index` when it is proved."""
        return self.ledgers / "index.new"

    @property
    def old_index(self) -> Path:
        """The index that was replaced, until it is removed."""
        return self.ledgers / "index.old"

    @property
    def states(self) -> Path:
        return self.ledgers / "ledger-states"

    @property
    def mark(self) -> Path:
        return self.ledgers / LOG_MARK

    @property
    def scrub_record(self) -> Path:
        return self.ledgers / "scrub-record"

    @property
    def reserve(self) -> Path:
        return self.ledgers / "reserve"


_OF_ANY = StoragePaths(Path("journal"), Path("ledgers"))
LEDGER_NAMES = frozenset(
    path.name
    for path in (
        _OF_ANY.entry_logs,
        _OF_ANY.index,
        _OF_ANY.new_index,
        _OF_ANY.old_index,
        _OF_ANY.states,
        _OF_ANY.mark,
        _OF_ANY.scrub_record,
        _OF_ANY.reserve,
    )
)
"""All of the storage's names in the ledger directory; while one is written, `.tmp` follows it."""
