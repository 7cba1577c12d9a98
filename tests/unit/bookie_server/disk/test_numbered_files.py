"""Only names that a bookie gives count as its files."""

from __future__ import annotations

from pathlib import Path

from bookie_server.disk.numbered_files import numbers_of
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.entry_logs.format import SUFFIX, file_name


def test_numbers_ascend_whatever_order_the_directory_has(tmp_path: Path) -> None:
    for number in (0xFFFF_FFFF, 3, 0x10):
        (tmp_path / file_name(number)).touch()
    assert numbers_of(SystemDisk(), tmp_path, SUFFIX) == [3, 0x10, 0xFFFF_FFFF]


def test_a_file_put_aside_by_hand_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / file_name(1)).touch()
    for stray in ("strace.log", file_name(2) + ".bak", "copy of " + file_name(3), file_name(0xA).upper()):
        (tmp_path / stray).touch()
    assert numbers_of(SystemDisk(), tmp_path, SUFFIX) == [1]
