"""Where the jars of Apache BookKeeper and ZooKeeper are: `tools/fetch-java-libs` puts them there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dlog" / "java-libs"


def class_path() -> str:
    """For `java -cp`. Without jars or Java the test is skipped, and fails where CI is set: nothing is left out."""
    directory = Path(os.environ.get("DLOG_JAVA_LIBS") or CACHE)
    leave_out = pytest.fail if os.environ.get("CI") else pytest.skip
    if shutil.which("java") is None:
        leave_out("ZooKeeper needs a Java runtime: install openjdk-17-jre-headless")
    if not list(directory.glob("zookeeper-[0-9]*.jar")):
        leave_out(
            f"no ZooKeeper in {directory}: run tools/fetch-java-libs, or name a directory in DLOG_JAVA_LIBS"
        )
    return f"{directory}/*"
