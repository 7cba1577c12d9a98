"""Inspectors ask while everything goes on, and the checks see if asking changes something or an answer is wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.inspection.overview import Overview
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import Report, run_plan
from ledger.errors import LogStoreError

ONE: dict[str, Any] = {"inspectors": 1, "chaos_s": 10.0, "readers": 0, "witnesses": 0}
_CALLS = ("verify", "history", "list_ledgers", "overview", "explain")


def played(seed: int, profile: str) -> Report:
    return run_plan(make_plan(seed, profile, ONE))


@pytest.mark.parametrize(("profile", "seed"), [("calm", 1), ("chaos", 2)])
def test_each_inspection_is_made_and_contradicts_nothing(
    profile: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Counter[str] = Counter()
    for name in _CALLS:
        honest = getattr(LogClient, name)

        async def call(
            self: LogClient, *arguments: Any, name: str = name, honest: Any = honest, **others: Any
        ) -> Any:
            found = await honest(self, *arguments, **others)
            answers[name] += 1
            return found

        monkeypatch.setattr(LogClient, name, call)
    assert played(seed, profile).findings == []
    assert min(answers[name] for name in _CALLS) > 2


def test_an_inspection_that_writes_metadata_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LogClient.overview

    async def overview(self: LogClient, log: str) -> Overview:
        await self.update_properties(log, {"looked-at": "yes"})
        return await honest(self, log)

    monkeypatch.setattr(LogClient, "overview", overview)
    found = played(1, "calm").findings
    assert any("c24_inspections_change_nothing: inspector-0 changed" in each for each in found)


def test_an_inspection_that_fails_without_a_reason_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def overview(self: LogClient, log: str) -> Overview:
        raise LogStoreError("no reason")

    monkeypatch.setattr(LogClient, "overview", overview)
    assert any("overview of swarm: LogStoreError" in each for each in played(1, "calm").findings)
