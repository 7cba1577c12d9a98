"""One bookie of Apache BookKeeper as a process: start, kill -9, start again on the same directories and port."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlog.local.signalling import pause_process
from tests.helpers.apache.java_libs import class_path, java
from tests.helpers.processes.ports import free_ports

START_S = 90.0
MAIN = "org.apache.bookkeeper.server.Main"
SHELL = "org.apache.bookkeeper.bookie.BookieShell"
SMALL_JVM = ("-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JVM_OPTIONS = (
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
)
SESSION_TIMEOUT_MS = 30000
"""Longer than ZooKeeper is ever away in a test: Apache's bookie ends if it cannot register again when it tries.

A bookie that was killed cannot start before its old session has ended, so tests end it (`end_session`).
"""
SORTED = "org.apache.bookkeeper.bookie.SortedLedgerStorage"
DB = "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage"
_MARK_BYTES = 16
"""Of its log mark: a journal file's id and an offset."""

_SETTINGS: dict[str, object] = {
    "allowLoopback": True,
    "advertisedAddress": "127.0.0.1",
    "zkTimeout": SESSION_TIMEOUT_MS,
    # Small files and few threads: many of these run beside the tests on two cores.
    "journalPreAllocSizeMB": 1,
    "journalMaxBackups": 0,
    "logSizeLimit": 64 << 20,
    "entryLogFilePreallocationEnabled": False,
    "skipListSizeLimit": 16 << 20,
    "dbStorage_writeCacheMaxSizeMb": 16,
    "dbStorage_readAheadCacheMaxSizeMb": 16,
    "dbStorage_rocksDB_blockCacheSize": 4 << 20,
    "numReadWorkerThreads": 2,
    "numHighPriorityWorkerThreads": 2,
    "serverNumIOThreads": 2,
    "openLedgerRereplicationGracePeriod": 30000,
    # A nearly full disk of the machine that tests is no reason to turn read-only.
    "diskUsageThreshold": 0.99,
    "diskUsageWarnThreshold": 0.98,
}


class ApacheBookie:
    """`bookie_id` and `port` stay the same from start to start."""

    def __init__(
        self,
        metadata: str,
        directory: Path,
        *,
        jvm: Sequence[str] = SMALL_JVM,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        directory.mkdir(parents=True)
        self._jvm = jvm
        self.directory = directory
        self._class_path = class_path()
        self._process: subprocess.Popen[bytes] | None = None
        [self.port] = free_ports(1)
        self.bookie_id = f"127.0.0.1:{self.port}"
        merged = {
            **_SETTINGS,
            "metadataServiceUri": metadata,
            "bookiePort": self.port,
            "journalDirectory": directory / "journal",
            "ledgerDirectories": directory / "ledgers",
            **(settings or {}),
        }
        self.conf = directory / "bk.conf"
        self.conf.write_text("".join(f"{name}={_text(value)}\n" for name, value in merged.items()))

    def launch(self) -> None:
        """Start the process; `wait_until_ready` returns when it listens. Several may start at once."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*java(*self._jvm, *JVM_OPTIONS), "-cp", self._class_path, MAIN, "--conf", str(self.conf)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_until_ready(self) -> None:
        """It accepts connections. It serves once it is registered, too, after the replay of its journal."""
        assert self._process is not None
        give_up_at = time.monotonic() + START_S
        while not self._accepts():
            assert self.running and time.monotonic() < give_up_at, f"it did not start: {self.end_of_log()}"
            time.sleep(0.05)

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def kill_with_its_mark(self) -> None:
        """kill -9, at an instant at which its log mark is whole.

        It empties that file before it writes it, twice a second here; killed in between, it replays all of its
        journal at the next start and knows again what it had forgotten.
        """
        mark = self.directory / "ledgers" / "current" / "lastMark"
        self.pause()
        while mark.stat().st_size < _MARK_BYTES:
            self.resume()
            time.sleep(0.01)
            self.pause()
        self.kill()

    def end(self, number: signal.Signals, timeout_s: float) -> None:
        """Send the signal; return once the process has ended."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(timeout_s)

    def stop(self) -> None:
        """Make sure that it is gone."""
        self.kill()

    def pause(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self._process is not None
        pause_process(self._process.pid)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        return self.directory / "bookie.log"

    def end_of_log(self) -> str:
        """For the message of a failed test."""
        state = "runs" if self.running else "has ended"
        return f"Apache's bookie {self.bookie_id} {state}\n{self.log.read_text(errors='replace')[-4000:]}"

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def run_shell(conf: Path, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """One verb of Apache's `bookkeeper shell`, run to its end with the settings in `conf`."""
    return subprocess.run(
        [*java(*SMALL_JVM, *JVM_OPTIONS), "-cp", class_path(), SHELL, "-conf", str(conf), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
