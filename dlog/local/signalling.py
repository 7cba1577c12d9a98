"""Signals to processes, most of them children of this one."""

from __future__ import annotations

import os
import time
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from signal import SIGSTOP, Signals

_STOPS_S = 10.0
_STATES_AT_REST = frozenset("TtZX")
"""Stopped, traced, or ended (proc_pid_stat(5), `state`)."""


def send_signal(process: Process, number: Signals) -> None:
    """Send it, unless the process has ended.

    Process.send_signal polls the process first, which takes the exit status from the watcher that waits for it: the
    process then seems to have ended with status 255.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def send_signal_to_group(process: Process, number: Signals) -> None:
    """Send it to the process, which was started in a session of its own, and to all that it has started there."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def pause_process(process_id: int) -> None:
    """Send SIGSTOP. On return none of its threads runs, where the system can show them (Linux).

    The signal alone takes effect some time later: on a busy machine the process answers requests until then.

    Raises:
        ProcessLookupError: there is no such process.
        TimeoutError: it still runs after some seconds: another one continues it, or it waits for a disk.
    """
    os.kill(process_id, SIGSTOP)
    give_up_at = time.monotonic() + _STOPS_S
    while not all(map(_is_at_rest, Path(f"/proc/{process_id}/task").glob("*/stat"))):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"process {process_id} has not stopped within {_STOPS_S:g} s")
        time.sleep(0.0002)


def _is_at_rest(stat: Path) -> bool:
    try:
        fields = stat.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True  # the thread has ended
    return chr(fields[fields.rindex(b")") + 2]) in _STATES_AT_REST
