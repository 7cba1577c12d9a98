"""What people see of Spark, and what makes it start quickly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

QUICK_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a JVM that runs for seconds: compiling well what runs once costs more than it saves."""
CLASSES = Path(sys.prefix) / "spark-classes.jsa"
"""Made by `make test`: spark_classes.py."""
_USE_CLASSES = f" -XX:SharedArchiveFile={CLASSES} -Xlog:disable"
QUICK_JAVA = QUICK_FLAGS + (_USE_CLASSES if CLASSES.exists() and " " not in str(CLASSES) else "")
"""The same, with the archive if there is one. A JVM that cannot use it would say so without `-Xlog`."""

QUICK = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings of a session that runs short queries over few rows, for the same reason."""


def first_said(attempt: Callable[[], object]) -> str:
    """What a person reads of the failure before any traceback."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        attempt()
    return str(caught.value).partition("Traceback")[0]


def needs_pyspark(version: str, what: str) -> pytest.MarkDecorator:
    """Skips a test with an older PySpark; `tools/spark-versions` runs several."""
    import pyspark

    def number(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split(".")[:2])

    return pytest.mark.skipif(
        number(pyspark.__version__) < number(version), reason=f"{what} from PySpark {version} on"
    )
