"""Signals to child processes."""

from __future__ import annotations

import os
from asyncio.subprocess import Process
from contextlib import suppress
from signal import Signals


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
