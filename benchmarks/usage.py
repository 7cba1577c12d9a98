"""Processor time and memory of a process, as Linux counts them."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


def cpu_s(pid: int) -> float:
    """Seconds of processor time, user and system, of all threads since the process began."""
    # The command's name stands in parentheses and may hold anything; the fields begin behind the last one.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """Memory that belongs to the process alone: anonymous pages. Mapped files are the page cache's."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * _KIB
    raise ValueError(f"process {pid} has no resident memory: it has ended")
