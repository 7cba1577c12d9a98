"""Where the jars of Apache BookKeeper and ZooKeeper are, and how Java starts with them.

`tools/fetch-java-libs` puts them there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dlog" / "java-libs"

_options: list[str] = []


def use_class_archive(archive: Path) -> None:
    """JVMs started from now on map these classes. Those of another class path or version ignore the archive."""
    _options[:] = [f"-XX:SharedArchiveFile={archive}"]


def java(*options: str) -> list[str]:
    """The beginning of a command."""
    return ["java", *_options, *options]


def class_path() -> str:
    """For `java -cp`. Without jars or Java the test is skipped."""
    directory = Path(os.environ.get("DLOG_JAVA_LIBS") or CACHE)
    if shutil.which("java") is None:
        pytest.skip("ZooKeeper needs a Java runtime: install openjdk-17-jre-headless")
    if not list(directory.glob("zookeeper-[0-9]*.jar")):
        pytest.skip(
            f"no ZooKeeper in {directory}: run tools/fetch-java-libs, or name a directory in DLOG_JAVA_LIBS"
        )
    return f"{directory}/*"
