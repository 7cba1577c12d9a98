"""Times and settings of a run are those of an hour in proportion."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from benchmarks.hour.schedule import ADDED, DELETED, FLIPPED, LOST, Schedule
from bookie_server.storage.config import StorageConfig
from ledger.repair.config import RepairConfig


@pytest.mark.parametrize(("minutes", "seconds"), [(60, [600, 1200, 1800, 2400]), (6, [60, 120, 180, 240])])
def test_events_come_at_their_part_of_the_run(minutes: float, seconds: list[float]) -> None:
    schedule = Schedule(minutes)
    assert [schedule.at_s(event) for event in (LOST, ADDED, DELETED, FLIPPED)] == pytest.approx(seconds)


def test_an_hour_has_the_defaults_but_for_what_is_stated() -> None:
    settings = Schedule(60).bookie_config()
    home = Path("/srv")
    defaults = StorageConfig(journal_directory=home / "journal", ledger_directory=home / "ledgers")
    differ = {name for name, value in settings["storage"].items() if value != getattr(defaults, name)}
    assert differ == {"entry_log_bytes_max"}
    assert all(value == getattr(RepairConfig(), name) for name, value in settings["repair"].items())


@pytest.mark.parametrize("minutes", [60, 6, 0.5])
def test_a_bookie_and_repair_take_the_settings(minutes: float, tmp_path: Path) -> None:
    path = tmp_path / "hour.toml"
    Schedule(minutes).write_bookie_config(path)
    settings = tomllib.loads(path.read_text())
    StorageConfig(
        journal_directory=tmp_path / "journal", ledger_directory=tmp_path / "ledgers", **settings["storage"]
    )
    RepairConfig(**settings["repair"])
    assert settings["gc_interval_s"] == settings["gc_grace_s"] == minutes
