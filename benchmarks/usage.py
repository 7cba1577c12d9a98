"""Processor time and memory of processes, as Linux counts them."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    fields = _stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def cpu_of_descendants() -> dict[int, float]:
    """Seconds of processor time by process id, of this process's descendants and itself."""
    found = {}
    for pid in (os.getpid(), *descendants()):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended in the meantime
            found[pid] = cpu_s(pid)
    return found


def cpu_since(before: Mapping[int, float]) -> float:
    """Seconds of processor time since `cpu_of_descendants`, without that of processes that have ended."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in cpu_of_descendants().items())


def resident_bytes(pid: int) -> int:
    """Memory that belongs to the process alone: anonymous pages. Mapped files are the page cache's."""
    return _status_bytes(pid, "RssAnon")


def peak_resident_bytes(pid: int) -> int:
    """The most memory that the process has had at a time, pages of mapped files included."""
    return _status_bytes(pid, "VmHWM")


def descendants() -> list[int]:
    """The processes that this one has started, and those that they have started."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended in the meantime
                children[int(_stat_fields(int(each.name))[1])].append(int(each.name))
    found: list[int] = []
    ahead = [os.getpid()]
    while ahead:
        ahead = [child for parent in ahead for child in children[parent]]
        found += ahead
    return found


def _stat_fields(pid: int) -> list[str]:
    """The fields behind the command's name, which stands in parentheses and may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIB
    raise ValueError(f"process {pid} has no memory: it has ended")
