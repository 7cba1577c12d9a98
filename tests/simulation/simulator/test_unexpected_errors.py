"""An unexpected exception is a finding of the run, in whichever process and task it was raised and whatever hid it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bookie_server.errors import DiskFullError
from bookie_server.storage.maintenance import StorageMaintenance
from dlog.core.tailing import Tailing
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.processes.readers import SwarmReader
from dlog.testing.swarm.run import run_plan
from ledger.reading.lac_reader import LacReader

CALM: dict[str, Any] = {
    "chaos_s": 4.0,
    "readers": 1,
    "parallel_logs": 0,
    "shrinks": False,
    "other_log": False,
    "neighbours": 0,
}


def findings(*actions: Action) -> str:
    return "\n".join(run_plan(make_plan(1, "calm", {**CALM, "actions": actions})).findings)


def raising_once(sound: Callable[..., Any], *, call: int = 8) -> Callable[..., Any]:
    """The function, which raises a TypeError in its n-th call."""
    calls = 0

    def function(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise TypeError("planted")
        return sound(*args, **options)

    return function


def test_without_any_there_is_no_finding() -> None:
    assert findings() == ""


def test_of_a_reader_that_is_killed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next incarnation is well, and the first one can report nothing any more."""
    monkeypatch.setattr(Tailing, "on_record", raising_once(Tailing.on_record))
    kill = (Action(at_s=3.0, kind="kill_client", who="reader-0", for_s=0.1),)
    assert findings(*kill).startswith("unexpected_error: reader-0: task ")


def test_of_a_task_whose_exception_is_retrieved_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LacReader, "_verified", raising_once(LacReader._verified))
    assert "unexpected_error: " in findings()


def test_of_a_bookie_that_closes_as_if_all_was_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """`gather(return_exceptions=True)` retrieves whatever its background tasks ended with."""
    monkeypatch.setattr(
        StorageMaintenance,
        "_checkpoint_now_and_then",
        raising_once(StorageMaintenance._checkpoint_now_and_then, call=1),
    )
    assert findings().startswith("unexpected_error: bookie-")


def test_of_a_background_task_that_an_error_of_the_tree_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have gone on until the bookie stops, and nothing gets its error."""

    async def failing(_: StorageMaintenance) -> None:
        raise DiskFullError("planted", path=Path("journal"))

    monkeypatch.setattr(StorageMaintenance, "_checkpoint_now_and_then", failing)
    found = findings()
    assert found.startswith("unexpected_error: bookie-") and "DiskFullError" in found


def test_of_a_bookie_that_is_killed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorageMaintenance, "check_disk", raising_once(StorageMaintenance.check_disk, call=5))
    kill = tuple(Action(at_s=3.9, kind="kill_bookie", who=f"bookie-{n}", for_s=0.1) for n in range(6))
    assert findings(*kill).startswith("unexpected_error: bookie-")


def test_of_a_callback_of_a_process_that_is_killed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = SwarmReader._read

    async def with_a_callback(self: SwarmReader, reader: str) -> None:
        if reader == "reader-0.0.2":
            asyncio.get_running_loop().call_soon(int, "planted")
        await sound(self, reader)

    monkeypatch.setattr(SwarmReader, "_read", with_a_callback)
    kill = (Action(at_s=3.9, kind="kill_client", who="reader-0", for_s=0.1),)
    assert "exception in callback int" in findings(*kill)


def test_of_what_is_only_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Tailing.on_record

    def on_record(self: Tailing, record: Any, window: Any) -> None:
        if not logged:
            logged.append(1)
            logging.getLogger("dlog").error("planted")
        sound(self, record, window)

    logged: list[int] = []
    monkeypatch.setattr(Tailing, "on_record", on_record)
    assert "logged as ERROR: planted" in findings()
