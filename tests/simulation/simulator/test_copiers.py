"""Copies of entries that arrive late, twice and with gaps change nothing, and a bookie that mistakes them is found."""

from __future__ import annotations

from typing import Any

import pytest

from bookie_server.storage.write_cache import LedgerRuns
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.processes.copiers import SwarmCopier
from dlog.testing.swarm.run import Report, run_plan

MANY: dict[str, Any] = {
    "bookies": 4,
    "ensemble": 3,
    "write": 3,
    "ack": 2,
    "copiers": 2,
    "chaos_s": 12.0,
    "rotation_entries": 20,
    "other_log": False,
    "shrinks": False,
    "parallel_logs": 0,
}


def played(seed: int) -> Report:
    return run_plan(make_plan(seed, "calm", MANY))


def test_late_entries_are_merged_and_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    merges, honest = [], LedgerRuns._merge

    def merge(self: LedgerRuns, ids: Any, entries: Any) -> None:
        merges.append(ids)
        honest(self, ids, entries)

    monkeypatch.setattr(LedgerRuns, "_merge", merge)
    assert [found for seed in (1, 2) for found in played(seed).findings] == []
    assert merges


def test_a_late_entry_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LedgerRuns, "_merge", lambda _self, _ids, _entries: None)
    assert any("c15_promises_are_kept" in found for seed in (1, 2) for found in played(seed).findings)


def test_other_bytes_under_one_id_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SwarmCopier._read

    async def spoilt(self: SwarmCopier, *arguments: Any) -> bytes | None:
        entry = await honest(self, *arguments)
        return None if entry is None else entry[:-1] + bytes([entry[-1] ^ 1])

    monkeypatch.setattr(SwarmCopier, "_read", spoilt)
    assert any("c5_all_readers_agree" in found for seed in range(1, 13) for found in played(seed).findings)
