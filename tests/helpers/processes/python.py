"""Child processes that say when they are ready. Whatever happens to the benchmark, none outlives it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from dlog.local.signalling import pause_process
from tests.helpers.processes.forking import ForkedForLoop
from tests.helpers.repository import ROOT

_LINES_KEPT = 20
_READY = re.compile(r"(\S+):(\d+) is ready")
_Process: TypeAlias = asyncio.subprocess.Process | ForkedForLoop


class ChildFailedError(Exception):
    """A child ended, or stayed silent, before it was ready; the message holds what it printed."""


class Child:
    """One running process that has announced its address. What it prints is read, the last lines kept."""

    def __init__(self, process: _Process, host: str, port: int, printed: deque[str]) -> None:
        self._process = process
        self._printed = printed
        # Somebody must go on reading, or a chatty child would block on a full pipe.
        self._reading = asyncio.create_task(_read_on(process, printed))
        self.host = host
        self.port = port

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    @property
    def last_lines(self) -> list[str]:
        return list(self._printed)

    def kill(self) -> None:
        """As kill -9 does it; `stop` afterwards to reap it."""
        _kill(self._process)

    def pause(self) -> None:
        """Stop it as SIGSTOP does: connections stay, answers do not come."""
        pause_process(self._process.pid)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def wait(self, timeout_s: float) -> int:
        """Wait until it ends by itself and all that it printed is read; returns its exit code."""
        async with asyncio.timeout(timeout_s):
            code = await self._process.wait()
            await self._reading
        return code

    async def stop(self, timeout_s: float = 30.0) -> int:
        """Ask it to end, make it end after the timeout, and return its exit code."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_s):
                code = await self._process.wait()
        except TimeoutError:
            self.kill()
            code = await self._process.wait()
        await self._reading
        return code


async def start_python(arguments: Sequence[str], *, timeout_s: float = 30.0) -> Child:
    """Run `python <arguments>` from the repository until it prints `HOST:PORT is ready`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return await _ready_child(process, arguments, timeout_s)


async def start_forked(module: str, *arguments: str, timeout_s: float = 30.0) -> Child:
    """The same for `python -m MODULE ARGUMENTS`, forked from a process that has imported it."""
    process = ForkedForLoop(module, *arguments, cwd=ROOT)
    await process.listen()
    return await _ready_child(process, ["-m", module, *arguments], timeout_s)


async def _ready_child(process: _Process, arguments: Sequence[str], timeout_s: float) -> Child:
    printed: deque[str] = deque(maxlen=_LINES_KEPT)
    try:
        async with asyncio.timeout(timeout_s):
            host, port = await _wait_until_ready(process, arguments, printed)
    except BaseException:
        _kill(process)
        await process.wait()
        raise
    return Child(process, host, port, printed)


async def _wait_until_ready(
    process: _Process, arguments: Sequence[str], printed: deque[str]
) -> tuple[str, int]:
    assert process.stdout is not None
    async for raw in process.stdout:
        printed.append(raw.decode(errors="replace").rstrip())
        if found := _READY.search(printed[-1]):
            return found[1], int(found[2])
    raise ChildFailedError(
        f"`python {' '.join(arguments)}` ended with {await process.wait()} before it was ready: "
        + (" | ".join(printed) or "it printed nothing")
    )


async def _read_on(process: _Process, printed: deque[str]) -> None:
    assert process.stdout is not None
    async for raw in process.stdout:
        printed.append(raw.decode(errors="replace").rstrip())


def _kill(process: _Process) -> None:
    if process.returncode is None:
        process.kill()
