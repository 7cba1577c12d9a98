"""A child process of the demo and the events that it reports."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any, Self

from dlog.demo.events import parse
from dlog.local.signalling import send_signal, send_signal_to_group
from ledger.errors import UnavailableError

Event = dict[str, Any]

_RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception): (.*)")
"""The line of a traceback that has the error."""


class ChildFailedError(UnavailableError):
    """A process of the demo ended before an event that the demo waits for (facts: module, status)."""


def last_sentence(log: str) -> str:
    """Why the process ended: of its last error the text, without class and traceback; else its last line."""
    lines = log.strip().splitlines() or ["it printed no reason"]
    errors = [found[1] for line in lines if (found := _RAISED.fullmatch(line))]
    return (errors or lines)[-1]


class Child:
    """Runs `python -m module arguments`, keeps its events and waits for them."""

    def __init__(
        self, process: Process, module: str, log: Path, send_signal: Callable[[Process, Signals], None]
    ) -> None:
        self._process = process
        self._send_signal = send_signal
        self._module = module
        self._log = log
        self._changed = asyncio.Event()
        self.events: list[Event] = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, module: str, *arguments: str, log: Path, with_all_it_starts: bool = False) -> Self:
        """Start it. Its standard error goes to the file `log`.

        `with_all_it_starts`: `stop` ends the processes that it has started, too.
        """
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                *arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                start_new_session=with_all_it_starts,
                cwd=log.parent,
                # It starts in another directory, so it gets this process's import path: a checkout works, too.
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path))),
                },
            )
        return cls(process, module, log, send_signal_to_group if with_all_it_starts else send_signal)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.events.append(parse(line))
            self._changed.set()
        await self._process.wait()
        self._changed.set()

    async def event(self, name: str, wanted: Callable[[Event], bool] = lambda _: True) -> Event:
        """Wait for the first event of this name for which `wanted` is true.

        Raises:
            ChildFailedError: the process ended without it.
        """
        seen = 0
        while True:
            self._changed.clear()
            for event in self.events[seen:]:
                if event["event"] == name and wanted(event):
                    return event
            seen = len(self.events)
            if self._reading.done():
                raise ChildFailedError(
                    f"{self._module} ended with status {self._process.returncode} before it reported {name!r}: "
                    f"{last_sentence(self._log.read_text(errors='replace'))}",
                    module=self._module,
                    status=self._process.returncode,
                )
            await self._changed.wait()

    def all(self, name: str) -> list[Event]:
        """Every event of this name so far."""
        return [event for event in self.events if event["event"] == name]

    def send(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def stop(self) -> None:
        """Send SIGKILL, if it is still running, and wait for its end."""
        self._send_signal(self._process, SIGKILL)
        await self._reading
