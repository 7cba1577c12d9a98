"""A part of the crash images; all of them are booted by `make evidence`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from bookie_server.errors import StorageError
from bookie_server.storage.background.last_look import LastLook
from bookie_server.storage.compaction.run import CompactionRun
from dlog.testing.disk.file import SimulatedFile
from dlog.testing.disk.rocksdb_store import SimulatedKeyValues
from tests.helpers.crash import images
from tests.helpers.crash.images import boot_all
from tests.helpers.crash.scenarios import SCENARIOS, compaction, late_adds


@pytest.mark.usefixtures("either_storage")
def test_what_a_power_cut_leaves_boots_with_all_that_was_answered_and_nothing_else() -> None:
    booted = asyncio.run(boot_all(each=2, second_every=400))
    assert set(booted.images) > {scenario.__name__ for scenario in SCENARIOS}
    assert booted.images.total() > 250


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


@pytest.mark.parametrize("name", ["compaction.tmp", "index"])
def test_a_missing_sync_of_a_compaction_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    honest_file, honest_index, honest_finish = (
        SimulatedFile.sync,
        SimulatedKeyValues.sync,
        CompactionRun.finish,
    )
    finishing: list[bool] = []

    def finish(run: CompactionRun) -> int:
        finishing.append(True)
        try:
            return honest_finish(run)
        finally:
            finishing.pop()

    def sync_file(file: SimulatedFile) -> None:
        if file.path.name != name:
            honest_file(file)

    def sync_index(index: SimulatedKeyValues) -> None:
        if name != "index" or not finishing:
            honest_index(index)

    monkeypatch.setattr(CompactionRun, "finish", finish)
    monkeypatch.setattr(SimulatedFile, "sync", sync_file)
    monkeypatch.setattr(SimulatedKeyValues, "sync", sync_index)
    monkeypatch.setattr(images, "SCENARIOS", (compaction,))
    monkeypatch.setattr(images, "IDENTITY_SCENARIOS", ())
    with pytest.raises(Exception, match=r".") as seen:
        asyncio.run(boot_all(each=8, second_every=1000))
    assert any("power cut before" in note for note in seen.value.__notes__)


def test_an_interval_that_is_durable_before_the_record_of_its_entry_log_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replay finds the entries in the index and stores nothing again, and the entry log is removed as dead.

    A last look into the file would find that the index still leads there.
    """
    honest = SimulatedKeyValues.write

    async def no_last_look(_: LastLook, _log_id: int) -> bool:
        return True

    def write(
        self: SimulatedKeyValues, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()
    ) -> None:
        records = list(puts)
        honest(self, [record for record in records if record[0][:1] != b"L"], deletes)
        honest(self, [record for record in records if record[0][:1] == b"L"])

    monkeypatch.setattr(SimulatedKeyValues, "write", write)
    monkeypatch.setattr(LastLook, "keeps_nothing", no_last_look)
    monkeypatch.setattr(images, "SCENARIOS", (late_adds,))
    monkeypatch.setattr(images, "IDENTITY_SCENARIOS", ())
    monkeypatch.setattr(images, "_GOES_ON_EVERY", 1)
    with pytest.raises(StorageError, match="no such file") as seen:
        asyncio.run(boot_all(each=8, second_every=1000))
    assert any("power cut before" in note for note in seen.value.__notes__)
