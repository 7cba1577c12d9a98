"""One callback at the end of a turn serves all writers that got messages in it."""

from __future__ import annotations

import asyncio
from typing import Any

from dlog.write.turn_end import TurnEnd


class Listener:
    def __init__(self, name: str, called: list[str], error: Exception | None = None) -> None:
        self._name = name
        self._called = called
        self._error = error

    def on_turn_end(self) -> None:
        self._called.append(self._name)
        if self._error is not None:
            raise self._error


async def test_listeners_are_called_once_each_in_the_order_in_which_they_asked() -> None:
    turn_end, called = TurnEnd(), list[str]()
    for name in "bac":
        turn_end.call(Listener(name, called))
    assert not called, "the turn has not ended"
    await asyncio.sleep(0)
    assert called == ["b", "a", "c"]
    turn_end.call(Listener("d", called))
    await asyncio.sleep(0)
    assert called == ["b", "a", "c", "d"]


async def test_one_that_asks_while_it_is_called_is_called_in_the_next_turn() -> None:
    turn_end, called = TurnEnd(), list[str]()

    class Again(Listener):
        def on_turn_end(self) -> None:
            super().on_turn_end()
            if called == ["again"]:
                turn_end.call(self)

    turn_end.call(Again("again", called))
    await asyncio.sleep(0)
    assert called == ["again"]
    await asyncio.sleep(0)
    assert called == ["again", "again"]


async def test_one_that_raises_does_not_keep_the_others_back() -> None:
    turn_end, called = TurnEnd(), list[str]()
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    error = RuntimeError("a bug")
    for listener in (Listener("a", called), Listener("b", called, error), Listener("c", called)):
        turn_end.call(listener)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert called == ["a", "b", "c"]
    assert [context["exception"] for context in reported] == [error]
