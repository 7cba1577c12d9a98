"""Processor time and memory of processes, as Linux counts them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Entries a second, and the processor time per entry that says where the cores went."""

    entries_per_s: float
    client_us: float
    """Of this process."""
    server_us: float
    """Of an average server."""


class Stopwatch:
    """Measures from its creation on what this process and some servers do."""

    def __init__(self, server_pids: Sequence[int]) -> None:
        self._pids = server_pids
        self._started = time.perf_counter()
        self._client_s = time.process_time()
        self._servers_s = sum(map(cpu_s, server_pids))

    def stop(self, entries: int) -> Throughput:
        """What `entries` cost since the creation."""
        per_entry_us = 1e6 / max(entries, 1)
        servers_s = sum(map(cpu_s, self._pids)) - self._servers_s
        return Throughput(
            entries_per_s=entries / (time.perf_counter() - self._started),
            client_us=(time.process_time() - self._client_s) * per_entry_us,
            server_us=servers_s * per_entry_us / max(len(self._pids), 1),
        )


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
