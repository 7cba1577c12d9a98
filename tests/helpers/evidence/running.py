"""Runs seeds on some processes, one seed at a time in each."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections.abc import Generator, Sequence
from types import FrameType

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import Report, run_plan
from tests.helpers.evidence.results import Run
from tests.helpers.evidence.rotation import Job

MEMORY_BYTES_MAX = 3 << 30
"""Of one process. A seed that needs more has failed, and so has one that needs more time than this:"""
REAL_S_MAX = 900
_SEEDS_A_PROCESS = 100
"""Then another takes its place: what a process does not give back it keeps no longer than that."""


class TooLongError(SystemExit):
    """asyncio lets this through, whatever runs when it comes; an Exception would end in somebody's task."""


def run_all(jobs: Sequence[Job], processes: int) -> Generator[Run, None, None]:
    """In the order in which they end. Whoever stops to ask for more ends the processes."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, prepare_process, maxtasksperchild=_SEEDS_A_PROCESS) as pool:
        yield from pool.imap_unordered(run_one, jobs)


def prepare_process() -> None:
    """Limits for a process that runs seeds: a seed that reaches one has failed."""
    # Ctrl-C is for the parent, which writes down what it has.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise TooLongError("not at its end when its time was over: it hangs, or the machine does")


def run_one(job: Job) -> Run:
    """Whatever it raises is a finding, since nothing may."""
    profile, seed = job
    began = time.process_time()
    signal.alarm(REAL_S_MAX)
    try:
        report = run_plan(make_plan(seed, profile, {}))
    except (Exception, TooLongError) as error:  # noqa: BLE001  # reported with the seed, which fails
        report = Report(make_plan(seed, profile, {}), [f"{type(error).__name__}: {error}"])
    finally:
        signal.alarm(0)
    counts = {
        "simulated_s": report.simulated_s,
        "steps": report.steps,
        "appends": report.appends,
        "acked": report.acked,
        "reads": report.reads,
        "takeovers": report.takeovers,
        "cpu_s": time.process_time() - began,
    }
    return Run(profile, seed, counts, dict(report.faults), tuple(report.findings))
