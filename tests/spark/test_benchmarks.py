"""The benchmarks of Spark measure what they say. In a process of their own, and one JVM: they end Spark's session."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers.spark import QUICK_JAVA, needs_pyspark

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(600)]

CONTENDERS = {
    "spark_sink": ("Spark, noop", "SDK's writer", "Spark sink", "exactlyOnce=false"),
    "spark_scan": ("Parquet", "dlog", "tuples", "dlog.arrow.scan", "memory of the largest task"),
    "spark_stream": (
        "append to the driver's program, p50",
        "append to a tail of a second log, p50",
        "by pattern",
    ),
}


@needs_pyspark("4.2", "streams are read")
def test_a_quick_run_measures_every_contender() -> None:
    command = [sys.executable, "-m", "benchmarks", *CONTENDERS, "--quick"]
    ended = subprocess.run(
        command,
        check=False,
        timeout=380,
        capture_output=True,
        text=True,
        env={**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA},
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert [each for of_one in CONTENDERS.values() for each in of_one if each not in ended.stdout] == []
