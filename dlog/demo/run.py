"""The demonstration's course: a temporary cluster, two writers, a live reader, a kill, a takeover, the proof."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import dlog
import dlog.aio
from dlog.demo.child import Child
from dlog.demo.flights import Flight, find_file, load, mean_delay_by_carrier
from dlog.demo.proof import Proof, Row, differences, longest_pause_ms
from dlog.errors import DataLossError
from dlog.standalone import Standalone

LOG = "flights"
KILL_AT, TAKE_OVER_AT, RESTART_AT = 7_000, 13_000, 20_000
"""Messages acknowledged when the bookie dies, when the second writer comes, when the bookie returns."""


def run(*, spark: bool, keep: bool, data: Path | None) -> None:
    """Tell the story. An error of ours if anything is lost, doubled or out of order."""
    file = data or find_file()
    flights = load(file)
    directory = Path(tempfile.mkdtemp(prefix="dlog-demo-"))
    try:
        with dlog.standalone(directory / "cluster", bookies=3, restart=False) as cluster:
            asyncio.run(_Demo(cluster, flights, file, directory).tell(spark))
            if keep:
                _say(f"kept: {directory}; `dlog standalone --data {directory / 'cluster'}` brings it up again")
    finally:
        if not keep:
            shutil.rmtree(directory)
