"""The frames of the floor are real adds, and the probe of the disk cleans up."""

from pathlib import Path

import pytest

from benchmarks.floors.raw_floor import add_frame
from benchmarks.machine import measure_fdatasync
from ledger.model import DigestType
from ledger.wire import v2
from ledger.wire.digest import make_digester
from ledger.wire.messages import AddRequest


@pytest.mark.parametrize("entry_bytes", [0, 100, 1024])
def test_the_frame_is_a_valid_add_of_that_payload(entry_bytes: int) -> None:
    message = v2.decode_request(add_frame(entry_bytes)[4:])
    assert isinstance(message, AddRequest)
    header = make_digester(DigestType.CRC32C, b"").verify(message.entry, 1, 0)
    assert header.length == entry_bytes


def test_the_sync_probe_leaves_nothing(tmp_path: Path) -> None:
    assert measure_fdatasync(tmp_path, rounds=5).count == 5
    assert list(tmp_path.iterdir()) == []
