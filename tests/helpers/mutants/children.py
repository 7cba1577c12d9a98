"""Children of this process, forked with pytest and the packages imported already."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit status, None if it was killed for taking too long."""

    status: int | None
    seconds: float


def run_all(jobs: Iterable[tuple[T, Callable[[], int], float]], processes: int) -> Iterator[tuple[T, Ended]]:
    """Run (name, work, timeout) in children, some at a time; in the order in which they end."""
    pending, running = iter(jobs), dict[int, tuple[T, float, float]]()
    try:
        while True:
            while len(running) < processes and (job := next(pending, None)) is not None:
                name, work, timeout_s = job
                running[_forked(work)] = (name, time.monotonic(), timeout_s)
            if not running:
                return
            yield from _ended(running)
            time.sleep(0.01)
    finally:
        for process_id in running:
            _kill(process_id)


def _forked(work: Callable[[], int]) -> int:
    process_id = os.fork()
    if process_id:
        return process_id
    status = 70
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        status = work()
    finally:
        os._exit(status)


def _ended(running: dict[int, tuple[T, float, float]]) -> Iterator[tuple[T, Ended]]:
    for process_id, (name, began, timeout_s) in list(running.items()):
        found, status = os.waitpid(process_id, os.WNOHANG)
        took_s = time.monotonic() - began
        if found:
            del running[process_id]
            yield name, Ended(os.waitstatus_to_exitcode(status), took_s)
        elif took_s > timeout_s:
            del running[process_id]
            _kill(process_id)
            yield name, Ended(None, took_s)


def _kill(process_id: int) -> None:
    """With the processes that its tests have started: they share its group."""
    os.killpg(process_id, signal.SIGKILL)
    os.waitpid(process_id, 0)
