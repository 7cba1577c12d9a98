"""A blocking client that two threads close: both return once it is closed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from dlog.blocking.client import Client
from dlog.blocking.loop_thread import LoopThread
from ledger.errors import ConfigurationError


class Target:
    """What a client closes."""

    uri, writers = "memory:", ()

    def __init__(self) -> None:
        self.closed = 0
        self.ledgers = SimpleNamespace(hurry=lambda: None)

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("place", ["check", "run_within"])
def test_a_close_that_another_thread_overtakes_returns(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target: Any = Target()
    thread = LoopThread("dlog test")
    client = Client(thread, target)
    function = getattr(thread, place)
    calls: list[None] = []

    def overtaken(*args: Any) -> Any:
        if not calls:
            calls.append(None)
            other = threading.Thread(target=client.close)
            other.start()
            other.join()
        return function(*args)

    monkeypatch.setattr(thread, place, overtaken)
    client.close()
    assert (target.closed, thread.ended) == (1, True)


def test_a_close_with_a_wrong_argument_is_refused() -> None:
    target: Any = Target()
    client = Client(LoopThread("dlog test"), target)
    with pytest.raises(ConfigurationError, match="timeout"):
        client.close("soon")  # type: ignore[arg-type]
    client.close()
