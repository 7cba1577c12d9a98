"""Apache's autorecovery as a process of its own: auditor and replication worker."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.helpers.apache.bookie import JVM_OPTIONS, SESSION_TIMEOUT_MS, SMALL_JVM
from tests.helpers.apache.java_libs import class_path, java
from tests.helpers.processes.ports import free_ports

MAIN = "org.apache.bookkeeper.replication.AutoRecoveryMain"
_SETTINGS: dict[str, object] = {
    "allowLoopback": "true",
    "advertisedAddress": "127.0.0.1",
    "zkTimeout": SESSION_TIMEOUT_MS,
    # A bookie that is gone is acted on at once.
    "lostBookieRecoveryDelay": 0,
    "rwRereplicateBackoffMs": 500,
    "auditorPeriodicBookieCheckInterval": 2,
}


class ApacheAutorecovery:
    """`grace_ms` is how long an open ledger with a dead member is left to its writer before it is fenced.

    `name` is what it calls itself in votes.
    """

    def __init__(self, metadata: str, directory: Path, grace_ms: int) -> None:
        directory.mkdir(parents=True)
        [port] = free_ports(1)
        self.name = f"127.0.0.1:{port}"
        self.log = directory / "autorecovery.log"
        settings: Mapping[str, object] = {
            **_SETTINGS,
            "metadataServiceUri": metadata,
            "bookiePort": port,
            "openLedgerRereplicationGracePeriod": grace_ms,
        }
        conf = directory / "autorecovery.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*java(*SMALL_JVM, *JVM_OPTIONS), "-cp", class_path(), MAIN, "--conf", str(conf)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def said(self, text: str) -> bool:
        assert self._process.poll() is None, self.end_of_log()
        return text in self.log.read_text(errors="replace")

    def end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
