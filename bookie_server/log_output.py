"""The log of a bookie's process on stderr: a line for each message, with time (UTC), level and message.

    2026-11-27T20:31:05.123Z WARNING read-only because a disk is nearly full: ...

The results of garbage collections, compactions, scrubs and repairs are INFO.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

from ledger.errors import ConfigurationError

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_LEVEL = "info"
_PACKAGES = ("bookie_server", "ledger")


def check_level(level: object) -> str:
    """The level. ConfigurationError if it is none."""
    if level not in LEVELS:
        raise ConfigurationError(f"log_level must be one of {', '.join(LEVELS)}, got {level!r}")
    return str(level)


def log_to_stderr(level: str) -> None:
    """Of this project's packages from `level` on, of others from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in _PACKAGES:
        logging.getLogger(name).setLevel(level.upper())


class LineFormatter(logging.Formatter):
    """Time, level and message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
