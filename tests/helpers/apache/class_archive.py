"""Loaded classes of Apache's bookie in a file that later JVMs map: each starts in half the time."""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path

from tests.helpers.apache.bookie import SMALL_JVM
from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.apache.java_libs import use_class_archive

_END_S = 60.0


def share_classes(directory: Path) -> None:
    """JVMs that this process starts from now on map the archive in `directory`; the first that asks for it makes it."""
    archive = directory / "apache-classes.jsa"
    with (directory / "apache-classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    use_class_archive(archive)


def _make(archive: Path) -> None:
    """A bookie starts and is stopped; its JVM writes what it has loaded when it ends."""
    partial = archive.with_suffix(".partial")
    jvm = (*SMALL_JVM, f"-XX:ArchiveClassesAtExit={partial}")
    with MixedCluster(archive.with_suffix(""), apache=1, jvm=jvm) as cluster:
        cluster.apache[0].end(signal.SIGTERM, _END_S)
    partial.rename(archive)
