"""Processor time and memory of a real process."""

import mmap
import os
import subprocess
import sys

import pytest

from benchmarks.usage import Stopwatch, cpu_of_descendants, cpu_s, cpu_since, resident_bytes


def test_processor_time_of_this_process_rises_as_it_works() -> None:
    before = cpu_s(os.getpid())
    stopwatch = Stopwatch([os.getpid()])
    while cpu_s(os.getpid()) < before + 0.05:
        sum(range(10_000))
    found = stopwatch.stop(1000)
    assert found.entries_per_s > 0
    # Client and server are this one process, seen by a fine clock and by one that ticks a hundred times a second.
    assert found.client_us == pytest.approx(found.server_us, abs=2 * 0.01 * 1e6 / 1000)


def test_processor_time_of_a_child_that_started_later_counts() -> None:
    before = cpu_of_descendants()
    work = "while __import__('time').process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it has worked, and waits
        assert child.pid not in before
        assert cpu_since(before) > 0.25
        child.communicate(b"\n")
    assert child.pid not in cpu_of_descendants()


def test_memory_that_is_written_to_is_resident() -> None:
    size = 64 << 20
    before = resident_bytes(os.getpid())
    with mmap.mmap(
        -1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    ) as held:  # the allocator might give out memory that is resident already
        for start in range(0, size, mmap.PAGESIZE):
            held[start] = 1
        assert resident_bytes(os.getpid()) - before > size // 2


def test_a_process_that_has_ended_has_no_memory() -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ValueError, match=str(child)):
        resident_bytes(child)
    os.waitpid(child, 0)
