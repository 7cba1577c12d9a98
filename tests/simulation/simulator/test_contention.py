"""What seeds draw in few runs really happens there: candidates that meet, outages, short graces, several logs."""

from __future__ import annotations

from typing import Any

import pytest

from dlog.client import LogClient
from dlog.core.takeover import Takeover
from dlog.metadata.grace import EpochGuard
from dlog.read.reader import Reader
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import OUTAGE
from dlog.testing.swarm.processes.parallel_logs import PARALLEL_ROOT
from dlog.testing.swarm.run import Report, run_plan
from dlog.write.hold_limit import HoldLimit

SHORT: dict[str, Any] = {"chaos_s": 4.0, "readers": 1, "shrinks": False, "other_log": False, "neighbours": 0}


def played(seed: int, profile: str = "calm", **changed: Any) -> Report:
    return run_plan(make_plan(seed, profile, SHORT | changed))


def count(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    """One element for each call from now on."""
    calls, sound = list[object](), getattr(owner, name)

    def counted(self: object, *args: object) -> object:
        calls.append(self)
        return sound(self, *args)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_candidates_that_ask_at_one_instant_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = count(monkeypatch, Takeover, "_lost")
    for seed in (1, 2):
        report = played(seed, rivals=True, writers=3, term_s=0.7)
        assert report.findings == []
        assert report.takeovers > 3
    assert len(lost) > 3


def test_appends_wait_until_they_are_given_up_in_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    overdue = count(monkeypatch, HoldLimit, "_on_overdue")
    changed = {"faults": (OUTAGE,), "hold_s": 2.0, "tight_buffer": True, "more_ways": True, "chaos_s": 8.0}
    assert played(2, "chaos", **changed).findings == []
    assert overdue


def test_a_writer_that_sleeps_past_its_grace_reads_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[bool]()
    sound = EpochGuard.stale.fget
    assert sound is not None

    def stale(self: EpochGuard) -> bool:
        found.append(sound(self))
        return found[-1]

    monkeypatch.setattr(EpochGuard, "stale", property(stale))
    sleep = tuple(
        Action(at_s=at_s, kind="pause_client", who="writer-0", for_s=1.0) for at_s in (0.5, 2.0, 3.5)
    )
    report = played(1, graces_s=(0.3,), writers=2, shrinks=True, actions=sleep, chaos_s=6.0)
    assert report.findings == []
    assert True in found


def test_logs_of_one_client_are_written_side_by_side() -> None:
    report = played(1, parallel_logs=5, chaos_s=3.0)
    assert report.findings == []


def test_a_reader_that_gets_messages_of_another_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = LogClient.reader

    def reader(self: LogClient, log: str, *args: Any, **options: Any) -> Reader:
        confused = self.logs.root == PARALLEL_ROOT and log == "parallel-1"
        return sound(self, "parallel-0" if confused else log, *args, **options)

    monkeypatch.setattr(LogClient, "reader", reader)
    found = played(1, parallel_logs=2, chaos_s=3.0).findings
    assert any(each.startswith("parallel-1: c2_no_unsent_message") for each in found)
