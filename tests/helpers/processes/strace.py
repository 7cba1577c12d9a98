"""Processes whose system calls fail, because strace answers in the kernel's place."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.processes.bookie import eventually

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="needs strace to make calls fail: apt-get install strace"
)


@contextmanager
def strace(pid: int, fault: str, trace: Path | str = os.devnull) -> Iterator[None]:
    """Inside, calls of all threads of the process fail as `fault` says (strace's `inject=`); `trace` gets the calls."""
    calls = fault.partition(":")[0]
    command = ["strace", "-f", "-q", "-o", str(trace), "-e", f"trace={calls}", "-e", f"inject={fault}"]
    with subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.DEVNULL) as tracer:
        try:
            eventually(lambda: _is_traced(pid))
            yield
        finally:
            tracer.terminate()


def _is_traced(pid: int) -> bool:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks)
