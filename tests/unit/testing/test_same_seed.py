"""The same seed does the same, whatever hash seed the interpreter was started with."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlog.testing.disk.timing import DiskTiming
from tests.helpers.crash.workload import Promises, workload
from tests.helpers.repository import ROOT
from tests.helpers.simulation.disk import CountedNotes, new_disk, run
from tests.helpers.simulation.metadata_clients import race_under_faults


def disk_digest(seed: int) -> str:
    """Of everything noted while a bookie's storage works on a disk that is slow now and then."""
    notes = CountedNotes()
    disk = new_disk(seed, notes, timing=DiskTiming())
    disk.faults.rates |= {"short_write": 0.2, "slow_sync": 0.1}
    run(workload(Path("/bookie"), disk, Promises()))
    disk.power_cut()
    return hashlib.sha256(repr(notes.lines).encode()).hexdigest()


def metadata_digest(seed: int) -> str:
    """Of everything noted and recorded while clients race under all faults."""
    world = run(race_under_faults(seed))
    return hashlib.sha256(repr((world.notes.lines, world.server.history.calls)).encode()).hexdigest()


@pytest.mark.parametrize("digest", ["disk_digest", "metadata_digest"])
def test_hash_order_has_no_effect(digest: str) -> None:
    found = set()
    for hash_seed in ("1", "2"):
        finished = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import {digest}; print({digest}(3))"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(finished.stdout.strip())
    assert len(found) == 1
    assert globals()[digest](3) in found
    assert globals()[digest](4) not in found
