"""Ticks at a fixed rate, from a timer of the Linux kernel that the event loop polls like a socket.

The loop's own timers are a millisecond coarse: they fire 0.65 ms late at the median, which would count as latency of
what is due then. These take no thread and no busy waiting.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from types import TracebackType

_NS_PER_S = 1_000_000_000
_CLOCK_MONOTONIC = 1
_ABSOLUTE = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]  # as ctypes wants it


class _Timer(ctypes.Structure):
    _fields_ = [("interval", _Time), ("first", _Time)]  # as ctypes wants it


class Ticks:
    """Tick `n` is due at `began + n * interval_s`, from 0 on. Use it as a context manager, on a running loop."""

    def __init__(self, began: float, per_second: float) -> None:
        """`began`: in seconds of the monotonic clock."""
        interval_ns = round(_NS_PER_S / per_second)
        self.interval_s = interval_ns / _NS_PER_S
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Future[None] | None = None
        self._file = _LIBC.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "the kernel gives no timer")
        timer = _Timer(_time(interval_ns), _time(round(began * _NS_PER_S)))
        if _LIBC.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(timer), None):
            raise OSError(ctypes.get_errno(), "the kernel's timer does not start")

    def __enter__(self) -> Ticks:
        self._loop.add_reader(self._file, self._wake)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)

    async def next(self) -> int:
        """Wait for a tick; return the number of those since the last call."""
        while True:
            try:
                return int.from_bytes(os.read(self._file, 8), "little")
            except BlockingIOError:
                self._arrived = self._loop.create_future()
                await self._arrived

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


def _time(ns: int) -> _Time:
    return _Time(ns // _NS_PER_S, ns % _NS_PER_S)
