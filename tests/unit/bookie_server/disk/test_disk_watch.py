"""Why a bookie became read-only, as it logs it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bookie_server.disk.disk_limits import DirectoryUsage
from bookie_server.disk.disk_watch import follow_disks
from bookie_server.errors import DiskFullError, TooManyFilesError

JOURNAL = Path("/disk/journal")
MEASURED = f"4096 bytes free in {JOURNAL}"


REASONS = pytest.mark.parametrize(
    ("shortage", "sentence"),
    [
        pytest.param(None, f"read-only because a disk is nearly full: {MEASURED}", id="measured"),
        pytest.param(
            DiskFullError("no space left to extend journal/1", path=JOURNAL),
            "read-only because a disk is full: no space left to extend journal/1",
            id="a write failed after the last measurement",
        ),
        pytest.param(
            TooManyFilesError("no descriptor", path=JOURNAL),
            "read-only until files can be opened again: no descriptor",
            id="descriptors",
        ),
    ],
)


@REASONS
def test_the_reason_is_what_made_it_read_only(
    shortage: DiskFullError | None, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    storage = followed(writable=True, shortage=None)
    storage.writable, storage.shortage = False, shortage
    storage.on_writable_change(False)
    storage.writable, storage.shortage = True, None
    storage.on_writable_change(True)
    assert caplog.messages == [sentence, f"writable again: {MEASURED}"]


@REASONS
def test_a_bookie_that_starts_read_only_logs_why(
    shortage: DiskFullError | None, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The disks were measured before anything followed them, and nothing may change for days."""
    followed(writable=False, shortage=shortage)
    assert caplog.messages == [sentence]


def followed(*, writable: bool, shortage: DiskFullError | None) -> Any:
    usages = [DirectoryUsage(directory=JOURNAL, total_bytes=8192, free_bytes=4096, device=1)]
    storage = SimpleNamespace(writable=writable, limbo=False, shortage=shortage, usage=lambda: usages)
    service: Any = SimpleNamespace(storage=storage)
    presence: Any = SimpleNamespace(want=lambda *, writable: None)
    follow_disks(service, presence)
    return storage
