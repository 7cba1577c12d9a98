"""The tool that kills the driver of an exactly-once query: one restart, and what its check refuses.

What it has found: docs/spark.md.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dlog.local.embedded import Standalone
from dlog.model import Message, MessageId
from tests.helpers.spark import needs_pyspark
from tests.helpers.spark_restarts.run import Restarts, violations

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.mark.slow
@needs_pyspark("4.2", "streams are read")
def test_kill_9_of_the_driver_loses_and_doubles_nothing(cluster: Standalone, tmp_path: Path) -> None:
    """It is stopped after the first of a hundred restarts, and has a result."""
    lines: list[str] = []
    run = Restarts(cluster.uri, tmp_path, seed=7)

    def stop(line: str) -> None:
        lines.append(line)
        run.stop()

    found = run.run(100, time.monotonic() + 200, stop)
    assert found.violations == []
    assert (found.restarts, found.rows) == (1, 1_000), lines
    assert found.batches >= 2


@pytest.mark.parametrize(
    ("copied", "wrong"),
    [
        ([(1, 0), (1, 1), (2, 2)], []),
        ([(1, 2), (2, 0), (2, 1)], []),
        ([(1, 0), (1, 2)], ["1 is missing"]),
        ([(1, 0), (1, 1), (2, 2), (3, 1)], ["1 is there 2 times"]),
        ([(1, 1), (1, 0), (1, 2)], ["0 is after 1 in ledger 1"]),
        ([(1, 0), (1, 1), (1, 2), (1, 3)], ["3 was never written"]),
    ],
)
def test_a_copy_is_refused_that_is_not_exact(copied: list[tuple[int, int]], wrong: list[str]) -> None:
    assert violations(messages_of(copied), 3) == wrong


@pytest.mark.parametrize(
    ("copied", "wrong"), [([(1, 0), (1, 1)], []), ([(1, 0), (2, 2)], ["1 is missing"]), ([], [])]
)
def test_a_copy_that_time_ended_may_lack_only_its_end(
    copied: list[tuple[int, int]], wrong: list[str]
) -> None:
    assert violations(messages_of(copied), 5, is_complete=False) == wrong


def messages_of(copied: list[tuple[int, int]]) -> list[Message]:
    """Of each its ledger and its number."""
    return [
        Message(
            id=MessageId(ledger, entry, 0), payload=b"%d" % number, key=None, headers=(), append_time_us=0
        )
        for entry, (ledger, number) in enumerate(copied)
    ]
