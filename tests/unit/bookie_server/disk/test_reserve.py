"""The reserve: what it holds counts, not its name."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from bookie_server.disk.reserve import Reserve
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import DiskFullError
from tests.helpers.simulation.disk import new_disk

KIB = 1024
PATH = Path("/reserve")


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_leaves_a_whole_reserve_or_none(seed: int) -> None:
    disk = new_disk(seed)
    Reserve(disk, PATH, 64 * KIB).take()
    disk.power_cut(Random(seed))
    reserve = Reserve(disk, PATH, 64 * KIB)
    assert reserve.held
    assert disk.open_read(PATH).size() == 64 * KIB


def test_a_larger_reserve_than_before_is_taken(tmp_path: Path) -> None:
    disk, path = SystemDisk(), tmp_path / "reserve"
    Reserve(disk, path, 64 * KIB).take()
    larger = Reserve(disk, path, 256 * KIB)
    assert not larger.held
    assert larger.held_bytes == 0
    larger.take()
    assert larger.held_bytes == path.stat().st_size == 256 * KIB
    assert [each.name for each in tmp_path.iterdir()] == ["reserve"]


def test_a_reserve_that_is_too_small_is_not_held_and_still_released() -> None:
    disk = new_disk()
    Reserve(disk, PATH, 64 * KIB).take()
    disk.capacity_bytes = disk.used_bytes
    larger = Reserve(disk, PATH, 256 * KIB)
    with pytest.raises(DiskFullError):
        larger.take()
    assert not larger.held
    assert larger.release()
    assert disk.used_bytes == disk.capacity_bytes - 64 * KIB
