"""Requirements of the demo's Spark query, checked before anything starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ledger.errors import ConfigurationError
from ledger.extras import require


def require_spark(environment: Mapping[str, str] = os.environ, package: str = "pyspark") -> None:
    """Check for the packages and the Java runtime that Spark needs.

    Raises:
        ConfigurationError: one of them is missing.
    """
    require("the demo's Spark query (skipped with --no-spark)", "spark", package, "pyarrow", "numpy")
    home = environment.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java", path=environment.get("PATH"))
    if java is None or not os.access(java, os.X_OK):
        place = f"JAVA_HOME is {home}" if home else "there is no java on the PATH"
        raise ConfigurationError(
            f"Spark needs a Java 17 runtime, but {place}: install one (openjdk-17-jre-headless), or skip the query "
            "with --no-spark"
        )
