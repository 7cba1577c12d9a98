"""When what happens, and the settings of bookies and writers, for a run of any length. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dlog.config import LogConfig
from dlog.core.rotation_triggers import RotationLimits

_MIB = 1024 * 1024
_HOUR_MINUTES = 60.0

LOST, ADDED, DELETED, FLIPPED = "bookie lost", "bookie added", "logs deleted", "bits flipped"
"""What the benchmark does."""
EVENTS = {LOST: 10, ADDED: 20, DELETED: 30, FLIPPED: 40}
"""At which minute of an hour."""

BOOKIES = 3
LOGS = 20
DELETED_LOGS = LOGS * 9 // 10
PER_SECOND = 300
"""Appends in all logs together; those that remain take what deleted ones had."""
FLIPPED_BLOCKS = 20


@dataclass(frozen=True, slots=True)
class Schedule:
    """All times of an hour, and sizes that follow from them, in proportion to the length of the run."""

    minutes: float = _HOUR_MINUTES

    @property
    def scale(self) -> float:
        return self.minutes / _HOUR_MINUTES

    @property
    def seconds(self) -> float:
        return self.minutes * 60

    def at_s(self, event: str) -> float:
        """Seconds from the beginning."""
        return EVENTS[event] * 60 * self.scale

    def scaled(self, seconds: float) -> float:
        return seconds * self.scale

    @property
    def space_interval_s(self) -> float:
        """Between two measurements of space and marks."""
        return max(1.0, self.scaled(10))

    @property
    def copies_interval_s(self) -> float:
        """Between two counts of copies."""
        return max(2.0, self.scaled(30))

    # ---- settings

    @property
    def lost_bookie_delay_s(self) -> int:
        return max(1, round(self.scaled(60)))

    @property
    def log_config(self) -> LogConfig:
        """Ledgers are replaced every five minutes."""
        return LogConfig(rotation=RotationLimits(age_s=self.scaled(300), idle_s=self.scaled(600)))

    def bookie_config(self) -> dict[str, dict[str, float]]:
        """Tables of the file that bookies and autorecovery get. Three settings differ from the defaults in an hour:
        entry_log_bytes_max, scrub_interval_s and, of writers, the age of a ledger."""
        return {
            "": {
                "gc_interval_s": self.scaled(60),
                "gc_grace_s": self.scaled(60),
                "scrub_interval_s": self.scaled(300),
            },
            "storage": {
                "entry_log_bytes_max": max(_MIB, round(self.scaled(64 * _MIB))),
                "journal_segment_bytes": max(_MIB, min(32 * _MIB, round(self.scaled(32 * _MIB)))),
                "checkpoint_interval_s": self.scaled(30),
                "minor_compaction_interval_s": self.scaled(60),
            },
            "repair": {
                "lost_bookie_delay_s": self.lost_bookie_delay_s,
                "open_ledger_grace_s": self.scaled(30),
                "poll_s": self.scaled(10),
                "retry_first_s": self.scaled(10),
                "retry_max_s": self.scaled(300),
            },
        }

    def write_bookie_config(self, path: Path) -> None:
        """As TOML."""
        lines: list[str] = []
        for table, settings in self.bookie_config().items():
            lines += [f"[{table}]"] if table else []
            lines += [f"{name} = {value}" for name, value in settings.items()]
        path.write_text("\n".join(lines) + "\n", "utf-8")
