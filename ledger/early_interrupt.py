"""Ctrl-C while a command loads its packages, or when it is done: no cleanup is pending, so it just ends.

KeyboardInterrupt would be raised somewhere in an import, which can also swallow it. It is what a running command
gets (`ledger/command_line.py`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class EarlyInterrupt:
    """A handler of SIGINT that ends the process with one sentence and exit code 130."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __call__(self, number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            os.write(2, f"{self._command}: interrupted\n".encode())
        os._exit(128 + number)


@contextmanager
def interruptible(command: str) -> Iterator[None]:
    """Around the life of a command's process. A shell starts background jobs with SIGINT ignored: so it stays."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, EarlyInterrupt(command))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it has its exit code already
