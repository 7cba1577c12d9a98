"""Small pieces near each other cost one read of the disk; what was read is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.scrub.windowed_file import WINDOW_BYTES, WindowedFile

CONTENT = bytes(range(256)) * 100


@pytest.fixture
def file(tmp_path: Path) -> Iterator[WindowedFile]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    opened = WindowedFile(SystemDisk().open_read(path))
    yield opened
    opened.close()


def test_what_is_in_the_window_is_not_read_again(file: WindowedFile) -> None:
    for offset in (100, 150, 120, 90 + WINDOW_BYTES):
        assert file.read_at(offset, 10) == CONTENT[offset : offset + 10]
    assert file.bytes_read == WINDOW_BYTES
    assert file.read_at(50, 10) == CONTENT[50:60]
    assert file.read_at(50 + WINDOW_BYTES, 10) == CONTENT[50 + WINDOW_BYTES :][:10]
    assert file.bytes_read == 3 * WINDOW_BYTES


def test_a_large_piece_is_read_as_it_is_and_leaves_the_window(file: WindowedFile) -> None:
    file.read_at(0, 10)
    assert file.read_at(7, 2 * WINDOW_BYTES) == CONTENT[7 : 7 + 2 * WINDOW_BYTES]
    assert file.read_at(20, 10) == CONTENT[20:30]
    assert file.bytes_read == 3 * WINDOW_BYTES


def test_the_end_of_the_file_is_the_end(file: WindowedFile) -> None:
    assert file.size() == len(CONTENT)
    assert file.read_at(len(CONTENT) - 5, 10) == CONTENT[-5:]
    assert file.read_at(len(CONTENT), 10) == b""
    assert file.bytes_read == 5
