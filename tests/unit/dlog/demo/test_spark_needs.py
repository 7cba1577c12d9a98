"""A missing part is named before the demonstration starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlog.demo.spark_needs import require_spark
from ledger.errors import ConfigurationError


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A directory that looks like a Java runtime."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch(mode=0o755)
    return tmp_path


def test_all_is_there(java: Path) -> None:
    require_spark({"PATH": str(java / "bin")}, "pytest")
    require_spark({"PATH": "", "JAVA_HOME": str(java)}, "pytest")


def test_no_pyspark(java: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--no-spark.*no_such_package.*pip install '\.\[spark\]'"):
        require_spark({"PATH": str(java / "bin")}, "no_such_package")


def test_no_java(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no java on the PATH: install one .* --no-spark"):
        require_spark({"PATH": str(tmp_path)}, "pytest")
    with pytest.raises(ConfigurationError, match=f"JAVA_HOME is {tmp_path}"):
        require_spark({"PATH": "", "JAVA_HOME": str(tmp_path)}, "pytest")
