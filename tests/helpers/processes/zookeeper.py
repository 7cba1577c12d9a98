"""A real ZooKeeper server of its own, alone or in an ensemble: start, kill -9, pause, start again on the same data."""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import subprocess
import time
from pathlib import Path

from dlog.local.signalling import pause_process
from tests.helpers.apache.java_libs import class_path
from tests.helpers.processes.ports import free_ports

START_S = 60.0
TICK_MS = 100
"""Sessions expire on its beat, so the shorter it is the sooner a test sees one expire."""

_CONFIG = """tickTime={tick}
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
minSessionTimeout=100
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
preAllocSize=1024
"""
_ENSEMBLE = """initLimit=100
syncLimit=30
{peers}
"""
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ZooKeeperProcess:
    """`address` is host:port; it stays the same when the server is started again."""

    def __init__(
        self,
        directory: Path,
        *,
        number: int = 0,
        peers: tuple[tuple[int, int], ...] = (),
        syncs: bool = False,
        tick_ms: int = TICK_MS,
        settings: str = "",
    ) -> None:
        """`peers`: of each server of the ensemble, this one included, the ports of the quorum and of elections.

        `syncs`: sync each change to the disk. A killed process loses nothing that it wrote, so tests do without.
        `settings`: further lines of its configuration.
        """
        self._sync = f"-Dzookeeper.forceSync={'yes' if syncs else 'no'}"
        self._class_path = class_path()
        self._heap = "-Xmx128m" if peers else "-Xmx256m"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._roots = itertools.count()
        [self.port] = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        (directory / "data").mkdir()
        config = _CONFIG.format(tick=tick_ms, data=directory / "data", port=self.port)
        if peers:
            lines = [f"server.{n + 1}=127.0.0.1:{quorum}:{vote}" for n, (quorum, vote) in enumerate(peers)]
            config += _ENSEMBLE.format(peers="\n".join(lines))
            (directory / "data" / "myid").write_text(str(number + 1))
        self._config = config
        self.settings(settings)

    def settings(self, further: str) -> None:
        """Further lines of its configuration, from its next start on."""
        (self._directory / "zoo.cfg").write_text(self._config + further)

    def new_root(self) -> str:
        """A path for the ledgers that no other test uses; its parent does not exist yet."""
        return f"/test-{next(self._roots)}/ledgers"

    def start(self, *, serving: bool = True) -> None:
        """`serving`: return when it answers requests, which one of an ensemble does once there is a leader."""
        with (self._directory / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "java",
                    self._heap,
                    *_OPTIONS,
                    self._sync,
                    "-cp",
                    self._class_path,
                    _MAIN,
                    str(self._directory / "zoo.cfg"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if serving:
            self.wait_until_serving()

    def wait_until_serving(self) -> None:
        assert self._process is not None
        give_up_at = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                text = (self._directory / "zookeeper.log").read_text(errors="replace")
                raise AssertionError(f"ZooKeeper does not serve:\n{text[-4000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def pause(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self._process is not None
        pause_process(self._process.pid)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1) as link,
        ):
            link.sendall(b"srvr")
            # Of the commands that ask how it is this one has its mode only once requests are served.
            return b"Mode: " in link.makefile("rb").read()
        return False
