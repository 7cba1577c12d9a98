"""Which log, exactly: its name and its incarnation."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.core.metadata_keys import DEFAULT_ROOT
from dlog.model import LogName


@dataclass(frozen=True, slots=True)
class LogRef:
    """One incarnation of a log: every access uses the path of this uuid only (docs/log-semantics.md#rule-5)."""

    name: LogName
    log_uuid: str
    root: str = DEFAULT_ROOT
    """The key below which the log's values are stored. Logs under different roots are independent."""

    def __str__(self) -> str:
        return str(self.name)
