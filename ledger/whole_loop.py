"""Event loops for commands that Ctrl-C may end at any time.

KeyboardInterrupt in the constructor of a loop leaves half a loop, and what asyncio prints when it is collected is a
traceback. So SIGINT waits until the loop is whole.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`."""
    with runner() as running:
        return running.run(work)


def runner() -> asyncio.Runner:
    """As `asyncio.Runner`."""
    return asyncio.Runner(loop_factory=partial(whole, asyncio.new_event_loop))


def whole(make: Callable[[], asyncio.AbstractEventLoop]) -> asyncio.AbstractEventLoop:
    """The loop that `make` makes. A SIGINT that comes during the call is handled afterwards, and the loop closed."""
    before = signal.getsignal(signal.SIGINT)
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    if not callable(before) or not _handled_by(note):
        return make()
    try:
        loop = make()
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        loop.close()
        signal.raise_signal(signal.SIGINT)
    return loop


def _handled_by(handler: Callable[[int, FrameType | None], None]) -> bool:
    """Whether it handles SIGINT now. In any other thread than the main one no handler is ever called."""
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:
        return False
    return True
