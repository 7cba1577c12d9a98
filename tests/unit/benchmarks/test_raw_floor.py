"""The floor measures what it claims to: real processes, frames that are real adds."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.machine import measure_fdatasync
from benchmarks.raw_floor import add_frame, measure_floor
from ledger.model import DigestType
from ledger.wire import v2
from ledger.wire.digest import make_digester
from ledger.wire.messages import AddRequest
from tests.helpers.processes.python import ChildFailedError, start_python


@pytest.mark.parametrize("entry_bytes", [0, 100, 1024])
def test_the_frame_is_a_valid_add_of_that_payload(entry_bytes: int) -> None:
    message = v2.decode_request(add_frame(entry_bytes)[4:])
    assert isinstance(message, AddRequest)
    header = make_digester(DigestType.CRC32C, b"").verify(message.entry, 1, 0)
    assert header.length == entry_bytes


@pytest.mark.integration
def test_three_servers_confirm_entries_and_leave_nothing(tmp_path: Path) -> None:
    floor = asyncio.run(measure_floor(tmp_path, entry_bytes=100, window=50, seconds=0.2))
    assert floor.entries_per_s > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
def test_a_child_that_cannot_start_is_reported_with_what_it_printed() -> None:
    with pytest.raises(ChildFailedError, match="No module named"):
        asyncio.run(start_python(["-m", "benchmarks.absent"]))


def test_the_sync_probe_leaves_nothing(tmp_path: Path) -> None:
    assert measure_fdatasync(tmp_path, rounds=5).count == 5
    assert list(tmp_path.iterdir()) == []
