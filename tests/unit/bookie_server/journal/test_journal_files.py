"""The journal rolls from file to file in one thread, while another makes the next file in advance."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.journal.files import JournalFiles
from bookie_server.journal.log_mark import LogMark
from bookie_server.journal.record import FILE_HEADER_BYTES, RecordType
from bookie_server.journal.replay import replay

SEGMENT_BYTES = 64 * 1024


class DiskBetween(SystemDisk):
    """Has another thread's work done right before or after an operation of this kind on a journal file."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self.work: Callable[[], None] = lambda: None

    def rename(self, source: Path, target: Path) -> None:
        self._meanwhile("before naming")
        super().rename(source, target)
        self._meanwhile("after naming")

    def sync_directory(self, directory: Path) -> None:
        super().sync_directory(directory)
        self._meanwhile("after the name is durable")

    def remove(self, path: Path) -> None:
        self._meanwhile("before removing")
        super().remove(path)
        self._meanwhile("after removing")

    def _meanwhile(self, kind: str) -> None:
        if kind == self._kind:
            self.work()


@pytest.mark.parametrize(
    "kind",
    ["before naming", "after naming", "after the name is durable", "before removing", "after removing"],
)
@pytest.mark.parametrize("body_bytes", [1000, SEGMENT_BYTES + 1])
def test_a_spare_file_made_while_the_journal_rolls_is_another_file(
    tmp_path: Path, kind: str, body_bytes: int
) -> None:
    """`_roll` had taken the spare file, and not yet named it, when the next one was made in its place."""
    disk = DiskBetween(kind)
    files = JournalFiles.create(disk, tmp_path, SEGMENT_BYTES, count(7).__next__)
    disk.work = files.prepare_spare
    bodies = [number.to_bytes(body_bytes, "big") for number in range(300 if body_bytes == 1000 else 5)]
    for body in bodies:
        files.prepare_spare()
        assert files.write([(RecordType.FENCE, body)]) == (1, None)
    found: list[bytes] = []
    start = LogMark(1, FILE_HEADER_BYTES, 1)
    replay(disk, tmp_path, start, lambda record: found.append(bytes(record.body)))
    assert found == bodies
    files.close()
