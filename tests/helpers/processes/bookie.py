"""A bookie as its users run it: a process started from the command line, killed or asked to stop."""

from __future__ import annotations

import json
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bookie_server.net.port import VARIABLE
from tests.helpers.processes.forking import Forked, run_forked
from tests.helpers.processes.ports import free_ports, range_text
from tests.helpers.repository import ROOT

LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ([A-Z]+) (.*)$", re.MULTILINE)
READY = re.compile(r"bookie (\S+):(\d+) is ready")
PATIENCE_S = 30.0
SMALL_FILES: dict[str, object] = {"journal_segment_bytes": 8 << 20, "reserve_bytes": 1 << 20}
"""A hundred bookies in one test run should not preallocate gigabytes."""
_PIPES: dict[str, Any] = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def run_bookie(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run one `bookie` command to its end."""
    return run_forked("bookie_server", *arguments, stdin=stdin, timeout_s=PATIENCE_S, cwd=ROOT, text=True)


class BookieProcess:
    """One bookie on its directory; it can be started again and again."""

    def __init__(self, metadata: str, data: Path, **settings: Any) -> None:
        self.metadata = metadata
        self.data = data
        self.settings = settings
        self.port = 0
        self.options: list[str] = []
        """More of the command line of the next start."""
        self.descriptors: tuple[int, int] | None = None
        """Soft and hard limit of open files that the next start gives it; None: those of the test."""
        self.errors = ""
        """What all its runs so far wrote to stderr."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def warnings(self) -> list[str]:
        """What all its runs so far logged from WARNING on, without time and level."""
        return [found[2] for found in LOG_LINE.finditer(self.errors) if found[1] != "INFO"]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it serves; the output is the failure if it does not."""
        arguments = ["start", "--metadata", self.metadata, "--data", str(self.data)]
        arguments += ["--port", "0", "--config", str(self._write_settings()), *self.options]
        # What it chooses from at its first start: one port, which no other server is given while this one is down.
        port = self.port or free_ports(1)[0]
        environment = {**os.environ, VARIABLE: range_text(range(port, port + 1))}
        if self.descriptors is None:
            self._process = Forked("bookie_server", *arguments, env=environment, **_PIPES)
        else:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bookie_server", *arguments],
                env=environment,
                preexec_fn=self._limit_descriptors,
                **_PIPES,
            )
        line = self._first_line()
        found = READY.fullmatch(line.strip())
        assert found, f"the bookie said {line!r} and {self._end_of_output()!r}"
        self.port = int(found[2])

    def kill(self) -> None:
        """kill -9: nothing is tidied up."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._finish()

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._finish()

    def wait(self) -> tuple[int, str]:
        """Wait for it to end by itself; the exit code and what it wrote to stderr."""
        assert self._process is not None
        before = self.errors
        code = self._finish()
        return code, self.errors.removeprefix(before)

    def restart(self) -> None:
        """kill -9 and start again."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            self._finish()

    def resident_bytes(self) -> int:
        """Memory the process holds now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def peak_bytes(self) -> int:
        """The most memory that the process has held so far."""
        [line] = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        return int(line) * 1024

    def open_descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def _limit_descriptors(self) -> None:
        assert self.descriptors is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, self.descriptors)

    def _write_settings(self) -> Path:
        """The settings file: small preallocated files, and what the test asks for."""
        merged = {**self.settings, "storage": {**SMALL_FILES, **self.settings.get("storage", {})}}
        tables = {name: value for name, value in merged.items() if isinstance(value, dict)}
        lines = [f"{name} = {json.dumps(value)}" for name, value in merged.items() if name not in tables]
        for name, table in tables.items():
            lines.append(f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        path = self.data.with_suffix(".toml")
        path.write_text("\n".join(lines))
        return path

    def _finish(self) -> int:
        assert self._process is not None
        self.errors += self._process.communicate(timeout=PATIENCE_S)[1]
        return self._process.returncode

    def _first_line(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE_S), "the bookie did not say that it is ready"
        return self._process.stdout.readline()

    def _end_of_output(self) -> str:
        assert self._process is not None
        self._process.kill()
        return self._process.communicate(timeout=PATIENCE_S)[1]


def eventually(condition: object, *, within_s: float = PATIENCE_S) -> None:
    """Poll until `condition()` is true. A condition that starts a process gets at most half of a core."""
    assert callable(condition)
    give_up_at = time.monotonic() + within_s
    while True:
        asked_at = time.monotonic()
        if condition():
            return
        answered_at = time.monotonic()
        assert answered_at < give_up_at, f"{condition} did not come true within {within_s} s"
        time.sleep(max(0.01, answered_at - asked_at))


def listed_bookies(metadata: str) -> list[dict[str, Any]]:
    """What `bookie ls` prints."""
    done = run_bookie("ls", "--metadata", metadata, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
