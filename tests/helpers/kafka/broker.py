"""One Kafka broker as a process, which is its own controller (KRaft), in a directory of its own on 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.kafka.libs import KafkaLibs
from tests.helpers.processes.ports import free_ports

START_S = 120.0
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
_STARTED = "Kafka Server started"
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)
_JVM = ("-Xms256m", "-Xmx1g", "-XX:+UseG1GC")
"""The collector and the largest heap of Kafka's own scripts. Messages are in the page cache, not in the heap."""


@contextmanager
def running_broker(libs: KafkaLibs, directory: Path, *, jvm: Sequence[str] = _JVM) -> Iterator[str]:
    """Run a broker in a fresh directory below `directory`; yields its HOST:PORT, and removes all at the end.

    The broker ends with this process, however that ends.
    """
    home = Path(tempfile.mkdtemp(prefix="kafka-", dir=directory))
    try:
        port, controller = free_ports(2)
        properties = home / "server.properties"
        properties.write_text(_SETTINGS.format(port=port, controller=controller, data=home / "data"))
        log = home / "kafka.log"
        _format(libs, properties)
        process = _launch(libs, jvm, properties, log)
        try:
            _wait_until_serving(process, log)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()  # its directory is removed next, so nothing needs to be written back
            process.wait()
    finally:
        shutil.rmtree(home)


def _format(libs: KafkaLibs, properties: Path) -> None:
    command = ["java", "-XX:TieredStopAtLevel=1", *_LOGGING, "-cp", libs.broker_class_path]
    command += ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)]
    ended = subprocess.run(command, check=False, timeout=START_S, capture_output=True, text=True)
    assert ended.returncode == 0, f"Kafka cannot format its directory:\n{ended.stderr[-4000:]}"


def _launch(libs: KafkaLibs, jvm: Sequence[str], properties: Path, log: Path) -> subprocess.Popen[bytes]:
    java = shutil.which("java")
    assert java is not None, "find_kafka has found it"
    command = [sys.executable, "-m", "dlog.local.child", str(os.getpid()), java, *jvm, *_LOGGING]
    command += ["-cp", libs.broker_class_path, "kafka.Kafka", str(properties)]
    with log.open("wb") as sink:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)


def _wait_until_serving(process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + START_S
    while _STARTED not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > give_up_at:
            raise AssertionError(f"Kafka does not serve:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.05)
