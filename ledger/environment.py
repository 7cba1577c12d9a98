"""The seam between this software and the machine: clocks, randomness and identity come from outside.

A simulator passes another Environment (and runs everything on its own event loop), so no other module of
`ledger` or `dlog` may read a clock, a random source or the process id. Waiting uses the running loop.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import time
import uuid
from typing import Protocol


class Environment(Protocol):
    """What production code may ask of the machine it runs on."""

    @property
    def rng(self) -> random.Random:
        """Seedable randomness for jitter and placement; never for secrets or identity."""

    def wall_us(self) -> int:
        """Wall clock, microseconds since 1970; for display and time seek, never for safety."""

    def boot_s(self) -> float:
        """A clock that also counts suspend (CLOCK_BOOTTIME), seconds."""

    def token(self) -> int:
        """63 unpredictable bits: nonces and cTokens."""

    def new_uuid(self) -> str:
        """A fresh identity as 36 characters of text."""

    def host_name(self) -> str: ...

    def process_id(self) -> int: ...


class SystemEnvironment:
    """The real machine."""

    def __init__(self) -> None:
        self.rng = random.Random()

    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def boot_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def token(self) -> int:
        return int.from_bytes(os.urandom(8), "big") >> 1

    def new_uuid(self) -> str:
        return str(uuid.UUID(bytes=os.urandom(16), version=4))

    def host_name(self) -> str:
        return socket.gethostname()

    def process_id(self) -> int:
        return os.getpid()


_closed_streams: set[str] = set()


def is_closed(stream: str) -> bool:
    """Whether this process was started without `stdin`, `stdout` or `stderr`."""
    return stream in _closed_streams


def occupy_standard_streams() -> None:
    """Point each standard stream that this process was started without at /dev/null.

    Otherwise the next file or socket gets its number, and output is written into that.
    `is_closed` still knows that it was closed: /dev/null takes every output, and as input it is empty.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            _closed_streams.add(name)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
