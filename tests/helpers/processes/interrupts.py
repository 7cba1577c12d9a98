"""Ctrl-C at every moment at which CPython can deliver it, one after the other.

CPython looks for signals after a call into C, where a function begins or a generator goes on, and where a loop
jumps back; nowhere else. `moments` runs a piece of work again and again and raises KeyboardInterrupt at the first
such moment, the second, and so on, until the work gets through. Only the code of dlog and of the standard library
below it is interrupted, not the test. It is slightly stricter than CPython: after a call of a Python function, too.
"""

from __future__ import annotations

import dis
import gc
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_LOOKS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME", "JUMP_BACKWARD"}
_BENEATH = re.compile(r"/(dlog|ledger|asyncio|concurrent)/|/threading\.py$")
_WEAK = re.compile(r"/(_weakrefset|weakref)\.py$")
_LATER_S = 0.0001
_WORK_MAX = 20_000
_UNREACHED_MAX = 5


class Moment:
    """The one at which a piece of work is interrupted; `reached` afterwards tells whether it lasted so long."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.where = ""
        self._passed = 0
        self._last: dict[FrameType, str] = {}

    @property
    def reached(self) -> bool:
        return bool(self.where)

    @contextmanager
    def strike(self) -> Iterator[None]:
        """Interrupt what runs inside, in this thread."""
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            self._last.clear()

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        if self.reached or "/tests/" in name or not _BENEATH.search(name):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if event == "return":
            self._last.pop(frame, None)
        if event != "opcode" or self.reached:
            return self._step
        before = self._last.get(frame)
        self._last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if before in _LOOKS and not _swallowed(frame):
            self._passed += 1
            if self._passed == self.number:
                code = frame.f_code
                self.where = f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}"
                raise KeyboardInterrupt
        return self._step


def moments(start: int = 1, step: int = 1) -> Iterator[Moment]:
    """One after the other, until none is reached any more: where nothing has to be waited for, work is shorter."""
    unreached = 0
    for number in range(start, _WORK_MAX, step):
        moment = Moment(number)
        yield moment
        unreached = 0 if moment.reached else unreached + 1
        if unreached == _UNREACHED_MAX:
            return
    raise AssertionError(f"the work takes more than {_WORK_MAX} moments: make it shorter")


def _swallowed(frame: FrameType | None) -> bool:
    """Whether the interpreter would swallow an interrupt: in a finalizer, or in a weak reference's callback.

    Finalizers of other tests' objects run at any time, in whatever work the garbage collector happens to start.
    """
    while frame is not None:
        if frame.f_code.co_name == "__del__" or _WEAK.search(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


def _interrupt(number: int, frame: FrameType | None) -> None:
    """As Ctrl-C does; a little later where the interpreter would swallow it."""
    if _swallowed(frame):
        signal.setitimer(signal.ITIMER_REAL, _LATER_S)
        return
    raise KeyboardInterrupt


@contextmanager
def alarm(after_s: float) -> Iterator[None]:
    """A real signal after some time, unless the block is left before: KeyboardInterrupt in the main thread."""
    # The interpreter swallows an interrupt in a callback of the garbage collector; hypothesis has one.
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    before = signal.signal(signal.SIGALRM, _interrupt)
    remaining_s, _ = signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, remaining_s)
        gc.callbacks[:] = callbacks
