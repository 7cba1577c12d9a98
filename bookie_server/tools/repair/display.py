"""How far `bookie recover`, `bookie decommission` and `bookie check-copies` have come, on stderr while they run.

On a terminal one line that is drawn again and again, and removed at the end; else a line now and then. Lines that
`say` prints come above it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass

from ledger.printing import counted
from ledger.repair.progress import CheckProgress, CopyProgress, DrainProgress, copied_so_far, megabytes

_DRAWN_S = 0.25
_PRINTED_S = 10.0
_RATE_S = 10.0
"""The rate is that of the last seconds."""
_NAMED_MAX = 3
_ERASE = "\r\x1b[K"


class Rate:
    """Bytes a second over the last `_RATE_S`."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def after(self, now: float, count: int) -> float:
        """Note that `count` bytes were copied until `now`, in seconds; the rate. A copy that was taken back counts
        as nothing."""
        self._samples.append((now, count))
        while len(self._samples) > 2 and self._samples[1][0] <= now - _RATE_S:
            self._samples.popleft()
        began, before = self._samples[0]
        return max(0, count - before) / (now - began) if now > began else 0.0


def line_of(progress: DrainProgress, bytes_per_s: float) -> str:
    """All of it in one line."""
    if not progress.ledgers:
        return "reading the metadata of all ledgers"
    copies = progress.copies
    done = f"{progress.ledgers_done:,} of {progress.ledgers:,} ledgers done"
    parts = [f"{done}, {megabytes(copies.payload_bytes)} copied, {megabytes(round(bytes_per_s))}/s"]
    return "; ".join([*parts, *_current(copies)])


def check_line_of(progress: CheckProgress) -> str:
    """As `line_of`, of a check."""
    return "; ".join([f"{counted(progress.ledgers, 'ledger')} checked", *_current(progress.copies)])


def _current(copies: CopyProgress) -> list[str]:
    current = list(copies.current.values())
    parts = [f"ledger {each.ledger_id}: {copied_so_far(each)}" for each in current[:_NAMED_MAX]]
    if len(current) > _NAMED_MAX:
        parts.append(f"and {len(current) - _NAMED_MAX} more")
    return parts


def _line_at(progress: DrainProgress | CheckProgress) -> Callable[[float], str]:
    """The line as a function of the loop's time, which does not decrease."""
    if isinstance(progress, CheckProgress):
        return lambda _: check_line_of(progress)
    rate = Rate()
    return lambda now: line_of(progress, rate.after(now, progress.copies.payload_bytes))


@dataclass(slots=True)
class Display:
    """`say` prints a line; `following` shows a progress for the length of a block."""

    _drawn: str = ""
    """What the terminal shows now."""

    def say(self, line: str) -> None:
        self._write(f"{_ERASE if self._drawn else ''}{line}\n{self._drawn}")

    @asynccontextmanager
    async def following(self, progress: DrainProgress | CheckProgress) -> AsyncIterator[None]:
        is_drawn = sys.stderr.isatty()
        follow = self._redraw if is_drawn else self._print
        task = asyncio.get_running_loop().create_task(follow(_line_at(progress)))
        with _warnings_above(self) if is_drawn else nullcontext():
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task])
                if self._drawn:
                    self._drawn = ""
                    self._write(_ERASE)

    async def _redraw(self, line_at: Callable[[float], str]) -> None:
        now = asyncio.get_running_loop().time
        while True:
            # A longer line would wrap, and then not be erased.
            self._drawn = line_at(now())[: shutil.get_terminal_size().columns - 1]
            self._write(_ERASE + self._drawn)
            await asyncio.sleep(_DRAWN_S)

    async def _print(self, line_at: Callable[[float], str]) -> None:
        now = asyncio.get_running_loop().time
        line_at(now())  # the rate begins here
        while True:
            await asyncio.sleep(_PRINTED_S)
            self._write(line_at(now()) + "\n")

    def _write(self, text: str) -> None:
        # A reader that has left does not end hours of copying.
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


class _Warnings(logging.Handler):
    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        self._display.say(self.format(record))


@contextmanager
def _warnings_above(display: Display) -> Iterator[None]:
    """What is logged would be written into the line that is drawn."""
    handler = _Warnings(display)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
