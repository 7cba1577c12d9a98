"""With fast visibility the last message of an idle writer becomes readable without another append."""

from __future__ import annotations

import pytest

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import run_plan
from ledger.writing.lac_writer import LacWriter

PLAN = make_plan(1, "calm", {"fast": True, "chaos_s": 1.0, "rotation_age_s": 1e4})


def test_readers_follow_an_idle_writer() -> None:
    assert run_plan(PLAN).findings == []


def test_a_writer_that_never_sends_its_last_add_confirmed_alone_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LacWriter, "write", lambda *_: None)
    assert [
        found for found in run_plan(PLAN).findings if found.startswith("c9_readers_follow_an_idle_writer")
    ]
