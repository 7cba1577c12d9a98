"""A part of the crash images; all of them are booted by `make evidence`."""

from __future__ import annotations

import asyncio

import pytest

from dlog.testing.disk_file import SimulatedFile
from dlog.testing.key_values import SimulatedKeyValues
from tests.crash.images import boot_all
from tests.crash.stories import STORIES


def test_what_a_power_cut_leaves_boots_with_all_that_was_answered_and_nothing_else() -> None:
    booted = asyncio.run(boot_all(each=2, second_every=100))
    assert set(booted.images) > {story.__name__ for story in STORIES}
    assert booted.images.total() > 500


@pytest.mark.parametrize("name", [".journal", ".log", "log-mark.tmp"])
def test_a_missing_sync_of_a_file_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    honest = SimulatedFile.sync
    monkeypatch.setattr(
        SimulatedFile, "sync", lambda self: None if self.path.name.endswith(name) else honest(self)
    )
    with pytest.raises(Exception, match=r".") as seen:
        asyncio.run(boot_all(each=8, second_every=50))
    assert any("power cut before" in note for note in seen.value.__notes__)


def test_a_missing_sync_of_the_index_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedKeyValues, "sync", lambda _: None)
    with pytest.raises(Exception, match=r".") as seen:
        asyncio.run(boot_all(each=8, second_every=50))
    assert any("power cut before" in note for note in seen.value.__notes__)
