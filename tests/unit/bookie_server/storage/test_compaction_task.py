"""When a bookie compacts, and what it reports."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from bookie_server.errors import DiskFailedError, StorageError
from bookie_server.storage.compaction.compactor import Compacted
from bookie_server.storage.compaction.task import CompactionTask
from bookie_server.storage.config import StorageConfig
from ledger.errors import ConfigurationError, LogStoreError
from tests.helpers.simulation.disk import run


class Storage:
    """Notes when it is compacted, and with which threshold."""

    def __init__(self) -> None:
        self.failed: Exception | None = None
        self.writable = True
        self.outcome: Compacted | LogStoreError = Compacted()
        self.compacted: list[tuple[float, float]] = []

    async def compact(self, threshold: float) -> Compacted:
        self.compacted.append((asyncio.get_running_loop().time(), threshold))
        if isinstance(self.outcome, LogStoreError):
            raise self.outcome
        return self.outcome


def config(**settings: float) -> StorageConfig:
    return StorageConfig(journal_directory=Path("/j"), ledger_directory=Path("/l"), **settings)  # type: ignore[arg-type]


async def for_seconds(storage: Storage, seconds: float, **settings: float) -> None:
    task = CompactionTask(storage, config(**settings))  # type: ignore[arg-type]  # what it uses of one
    await asyncio.sleep(seconds)
    await task.close()


def test_minor_and_major_compactions_have_their_intervals() -> None:
    storage = Storage()
    run(for_seconds(storage, 65, minor_compaction_interval_s=10, major_compaction_interval_s=30))
    assert storage.compacted == [(10, 0.2), (20, 0.2), (30, 0.8), (40, 0.2), (50, 0.2), (60, 0.8)]


@pytest.mark.parametrize(
    ("minor", "major", "expected"),
    [(0, 20, [(20, 0.8), (40, 0.8)]), (20, 0, [(20, 0.2), (40, 0.2)]), (0, 0, [])],
)
def test_an_interval_of_0_switches_it_off(
    minor: float, major: float, expected: list[tuple[float, float]]
) -> None:
    storage = Storage()
    run(for_seconds(storage, 50, minor_compaction_interval_s=minor, major_compaction_interval_s=major))
    assert storage.compacted == expected


def test_a_nearly_full_disk_is_compacted_with_the_major_threshold_every_time() -> None:
    storage = Storage()
    storage.writable = False
    run(for_seconds(storage, 25, minor_compaction_interval_s=10))
    assert storage.compacted == [(10, 0.8), (20, 0.8)]


def test_a_refusal_is_logged_once_and_an_error_each_time(caplog: pytest.LogCaptureFixture) -> None:
    storage = Storage()
    storage.outcome = Compacted(refusal="compaction needs 7 bytes")
    with caplog.at_level(logging.WARNING):
        run(for_seconds(storage, 45, minor_compaction_interval_s=10))
        assert caplog.messages == ["compaction needs 7 bytes"]
        caplog.clear()
        storage.outcome = StorageError("the index is damaged")
        run(for_seconds(storage, 25, minor_compaction_interval_s=10))
    assert caplog.messages == ["compaction failed, retrying: the index is damaged"] * 2


def test_it_ends_with_the_storage(caplog: pytest.LogCaptureFixture) -> None:
    """Which has reported the error."""
    storage = Storage()
    storage.failed = storage.outcome = DiskFailedError("cannot sync", missing=False)
    with caplog.at_level(logging.WARNING):
        run(for_seconds(storage, 45, minor_compaction_interval_s=10))
    assert storage.compacted == []
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"minor_compaction_threshold": 0.9}, "0 <= minor <= major <= 1"),
        ({"major_compaction_threshold": 1.1}, "0 <= minor <= major <= 1"),
        ({"minor_compaction_interval_s": -1}, "minor_compaction_interval_s must be at least 0, got -1"),
        ({"compaction_bytes_per_s": 0}, "compaction_bytes_per_s must be above 0, got 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        config(**settings)
