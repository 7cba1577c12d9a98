"""The floor measures real processes."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.floors.raw_floor import measure_floor
from tests.helpers.processes.python import ChildFailedError, start_python

pytestmark = pytest.mark.integration


def test_three_servers_confirm_entries_and_leave_nothing(tmp_path: Path) -> None:
    floor = asyncio.run(measure_floor(tmp_path, entry_bytes=100, window=50, seconds=0.2))
    assert floor.entries_per_s > 0
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_cannot_start_is_reported_with_what_it_printed() -> None:
    with pytest.raises(ChildFailedError, match="No module named"):
        asyncio.run(start_python(["-m", "benchmarks.absent"]))
