"""Entries that are read together, because they follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from ledger.repair.copying.source import in_runs


class Counted(Sequence[int]):
    """A range that counts how often an entry is asked for."""

    def __init__(self, entry_ids: range) -> None:
        self.entry_ids = entry_ids
        self.asked = 0

    def __len__(self) -> int:
        return len(self.entry_ids)

    def __getitem__(self, index: Any) -> Any:
        self.asked += 1
        return self.entry_ids[index]


def test_runs_have_every_entry_once_and_are_as_long_as_they_can_be() -> None:
    for size in range(8):
        for entry_ids in combinations(range(3, 11), size):
            runs = list(in_runs(entry_ids))
            assert [each for run in runs for each in run] == list(entry_ids)
            assert all(run and run.stop not in entry_ids for run in runs)


def test_a_long_run_is_not_walked_entry_by_entry() -> None:
    entry_ids = Counted(range(7, 20_000_007))
    assert list(in_runs(entry_ids)) == [range(7, 20_000_007)]
    assert entry_ids.asked < 100
