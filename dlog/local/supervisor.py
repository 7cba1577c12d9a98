"""Keeps one bookie process running: starts it, waits until it serves, restarts it when it dies, stops it.

Each event is reported as one sentence to `report`. A bookie that keeps dying right after its start is no longer
restarted, so that the reason stays at the end of its log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import dlog
from dlog.errors import StandaloneError
from dlog.local.signalling import pause_process, send_signal
from ledger.errors import ConfigurationError
from ledger.tasks import start_task

_log = logging.getLogger(__name__)

Report = Callable[[str], None]

START_TIMEOUT_S = 60.0
"""Replaying a full journal takes seconds; after this time something is wrong."""
STOP_TIMEOUT_S = 30.0
"""After SIGTERM a bookie withdraws its registration, drains and checkpoints; the first two take up to 10 s each.

One that has not ended by then is killed, which loses no entry.
"""
ANY_PORT = ("--port", "0")
"""A free one, kept for later starts."""
_FIRST_PAUSE_S = 0.2
_PAUSE_MAX_S = 5.0
_QUICK_S = 5.0
_QUICK_DEATHS_MAX = 5
_LOG_BYTES_MAX = 8 * 1024 * 1024
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class BookieFacts:
    """State of a supervised bookie. `process_id` is None while it does not run."""

    number: int
    bookie_id: str
    process_id: int | None
    directory: Path


class BookieSupervisor:
    """Supervisor of one bookie. `start` returns when the bookie serves."""

    def __init__(
        self,
        number: int,
        directory: Path,
        log_file: Path,
        metadata_uri: str,
        report: Report,
        *,
        restart: bool = True,
        inherited: tuple[int, ...] = (),
        options: Sequence[str] = ANY_PORT,
    ) -> None:
        self.number = number
        self._inherited = inherited
        self._options = options
        """Further options of `bookie start`, in addition to metadata address and data directory."""
        self._restart = restart
        self.failed: StandaloneError | None = None
        self._directory = directory
        self._log_file = log_file
        self._metadata_uri = metadata_uri
        self._reported_to = report
        self._address = ""
        self._process: asyncio.subprocess.Process | None = None
        self._creating = asyncio.Lock()
        """Held until `_process` is the process that is being created."""
        self._starting = False
        self._stopped = False
        self._watcher: asyncio.Task[None] | None = None

    @property
    def facts(self) -> BookieFacts:
        process = self._process
        alive = process is not None and process.returncode is None
        return BookieFacts(
            self.number,
            self._address,
            process.pid if process is not None and alive else None,
            self._directory,
        )

    async def start(self) -> None:
        """Start the bookie, and restart it from then on whenever it dies, if asked to.

        Raises:
            ConfigurationError: it is running, or being started.
            StandaloneError: it did not start, or was stopped in the meantime.
        """
        if self._starting or self.facts.process_id is not None:
            raise ConfigurationError(f"bookie {self.number} is already running: kill it first")
        self._starting = True
        try:
            await self._end(signal.SIGTERM)
            self.failed = None
            await self._launch()
            self._watcher = start_task(self._watch(), name=f"watch bookie {self.number}")
        finally:
            self._starting = False

    async def stop(self) -> None:
        """Send SIGTERM and wait; send SIGKILL only if that does not end it in time. It is not started again."""
        self._stopped = True
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """Send SIGKILL; no restart before the next `start`."""
        await self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open, answers do not come from now on."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                pause_process(self._process.pid)

    def resume(self) -> None:
        """Send SIGCONT."""
        if self._process is not None:
            send_signal(self._process, signal.SIGCONT)

    async def _end(self, number: signal.Signals) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
            self._watcher = None
        async with self._creating:
            process = self._process
        if process is None or process.returncode is not None:
            return
        send_signal(process, number)
        send_signal(process, signal.SIGCONT)  # a paused process would not receive the first signal
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            self._report(f"bookie {self.number} did not stop within {STOP_TIMEOUT_S:.0f} s; killing it")
            send_signal(process, signal.SIGKILL)
            await process.wait()

    def _report(self, event: str) -> None:
        """An error of the function that is called must not end the watch: the bookie would not be restarted."""
        try:
            self._reported_to(event)
        except Exception:  # noqa: BLE001 - any, and it is logged
            _log.exception("the function that is called with each event failed: %s", event)

    # ---- life and death

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s, quick_deaths = _FIRST_PAUSE_S, 0
        while True:
            started = loop.time()
            how = await self._death()
            quick = loop.time() - started < _QUICK_S
            quick_deaths = quick_deaths + 1 if quick else 0
            pause_s = min(2 * pause_s, _PAUSE_MAX_S) if quick else _FIRST_PAUSE_S
            if quick_deaths > _QUICK_DEATHS_MAX:
                self._give_up(how)
                return
            if not self._restart:
                self._report(f"bookie {self.number} ({self._address}) {how}")
                return
            self._report(f"bookie {self.number} ({self._address}) {how}; restarting it")
            await asyncio.sleep(pause_s)
            await self._relaunch()

    async def _relaunch(self) -> None:
        try:
            await self._launch()
        except StandaloneError as error:
            self._report(str(error))
        except OSError as error:  # no memory, no descriptor, no space: counted as one more quick death
            self._report(f"bookie {self.number} cannot be started: {error}")
        else:
            self._report(f"bookie {self.number} ({self._address}) is running again")

    async def _death(self) -> str:
        process = self._process
        assert process is not None and process.stdout is not None
        while await process.stdout.read(1 << 16):
            pass  # read and dropped: a full pipe would block the bookie
        code = await process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _give_up(self, how: str) -> None:
        self.failed = StandaloneError(
            f"bookie {self.number} ({self._address}) {how}, {_QUICK_DEATHS_MAX + 1} times in a row, and is not "
            f"restarted any more: {self._end_of_log()}",
            log_file=self._log_file,
        )
        self._report(str(self.failed))

    # ---- one process

    async def _launch(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._turn_log()
        async with self._creating:
            self._check_wanted()
            await self._create()
        assert self._process is not None
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                self._address = await self._ready(self._process)
        except TimeoutError:
            send_signal(self._process, signal.SIGKILL)
            await self._process.wait()
            raise StandaloneError(
                f"bookie {self.number} was not ready within {START_TIMEOUT_S:.0f} s: {self._end_of_log()}",
                log_file=self._log_file,
            ) from None
        except asyncio.CancelledError:
            send_signal(self._process, signal.SIGKILL)
            raise
        self._check_wanted()

    def _check_wanted(self) -> None:
        if self._stopped:
            raise StandaloneError(f"bookie {self.number} was stopped while it was being started")

    async def _create(self) -> None:
        with self._log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=_environment(),
                pass_fds=self._inherited,
            )

    def _command(self) -> list[str]:
        python = [sys.executable, "-P", "-m"]
        bookie = ["bookie_server", "start", "--metadata", self._metadata_uri, "--data", str(self._directory)]
        return [*python, "dlog.local.child", str(os.getpid()), *python, *bookie, *self._options]

    async def _ready(self, process: asyncio.subprocess.Process) -> str:
        """The address in the line that the bookie prints when it serves."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            words = line.decode(errors="replace").split()
            if words[:1] == ["bookie"] and words[2:] == ["is", "ready"]:
                return words[1]
        code = await process.wait()
        raise StandaloneError(
            f"bookie {self.number} ended with exit code {code} before it was ready: {self._end_of_log()}",
            log_file=self._log_file,
        )

    def _end_of_log(self) -> str:
        """The last lines of its log in one line, and the path of the log."""
        text = self._log_file.read_text(errors="replace") if self._log_file.exists() else ""
        lines = [line.strip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]
        return f"{' | '.join(lines) or 'its log is empty'} (log: {self._log_file})"

    def _turn_log(self) -> None:
        if self._log_file.exists() and self._log_file.stat().st_size > _LOG_BYTES_MAX:
            self._log_file.replace(self._log_file.with_suffix(".old.log"))


def _environment() -> dict[str, str]:
    """Ours, with the directory that our packages come from, so that a source tree works without installing."""
    home = str(Path(dlog.__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([home, inherited] if inherited else [home])}
