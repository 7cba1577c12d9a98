"""What a number was measured on: hardware, system, versions, commit, and what its disk needs for one sync."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.histogram import Summary

_LIBRARIES = ("uvloop", "google-crc32c", "protobuf", "msgpack", "lmdb", "rocksdict")
_PREALLOCATED_BYTES = 64 * 1024 * 1024


def describe() -> dict[str, str]:
    """Facts for the header of a table, by name."""
    facts = {
        "machine": f"{_cpu_model()}, {len(os.sched_getaffinity(0))} cores, {_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": ", ".join(f"{name} {found}" for name in _LIBRARIES if (found := _version_of(name))),
        "command": " ".join(Path(part).name if part.endswith(".py") else part for part in sys.argv),
        "load": f"{os.getloadavg()[0]:.1f} before the run",
    }
    if commit := _commit():
        facts["commit"] = commit
    return facts


def measure_fdatasync(directory: Path, *, record_bytes: int = 1100, rounds: int = 500) -> Summary:
    """Seconds of one fdatasync after one record at the end of a preallocated file, as a journal does it."""
    return Summary.of(_sync_rounds(directory / "fdatasync.probe", record_bytes, rounds, None))


def measure_fdatasync_at_once(
    directory: Path, *, files: int, record_bytes: int = 1100, rounds: int = 500
) -> Summary:
    """The same while so many files are synced at the same moment, as the journals of one append are."""
    together = threading.Barrier(files)
    paths = [directory / f"fdatasync-{number}.probe" for number in range(files)]
    with ThreadPoolExecutor(files) as threads:
        runs = [threads.submit(_sync_rounds, path, record_bytes, rounds, together) for path in paths]
        return Summary.of(seconds for run in runs for seconds in run.result())


def _sync_rounds(
    path: Path, record_bytes: int, rounds: int, together: threading.Barrier | None
) -> list[float]:
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _PREALLOCATED_BYTES)
        os.fsync(descriptor)
        return [_sync_once(descriptor, record_bytes, together) for _ in range(rounds)]
    finally:
        os.close(descriptor)
        path.unlink()


def settle_disk() -> None:
    """Write back what earlier runs left in the page cache, so that no run pays for the one before it."""
    os.sync()


def _sync_once(descriptor: int, record_bytes: int, together: threading.Barrier | None) -> float:
    os.write(descriptor, bytes(record_bytes))
    if together is not None:
        together.wait()
    started = time.perf_counter()
    os.fdatasync(descriptor)
    return time.perf_counter() - started


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def _version_of(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit that is checked out, marked when files differ from it; None outside a git checkout."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def drop_from_memory(directory: Path) -> None:
    """The next read of any of these files is one of the disk."""
    settle_disk()
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
